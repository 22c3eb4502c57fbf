"""What a forward pass leaves for its backward pass: the tensors that autograd saves, counted one by one.

Of the transformers implementation with fused attention and no mask, on the torch engine (32-bit weights, 16-bit
arithmetic by autocast) and on 16-bit weights. arXiv:2205.05198 counts the same for unfused attention.
"""

from bench.models.shape import ModelShape
from bench.planner.job import BYTES, Job


def saved_bytes(job: Job, tokens: int, outputs: int) -> tuple[float, str]:
    """Bytes that wait for the backward pass, beside the weights and the logits, and the formula.

    `tokens` pass the layers; the states of `outputs` of them meet the output layer.
    """
    shape, small = job.shape, BYTES[job.setting.dtype]
    width = 4 if job.setting.train_engine == "torch" else small
    # the last norm's input and normalised input, and the states that were picked
    ends = ((4 + width) * shape.hidden + 4) * tokens + small * shape.hidden * outputs
    end_formula = f" + {4 + width} T h + {small} n h"
    if job.setting.gradient_checkpointing:
        return width * shape.hidden * shape.layers * tokens + ends, f"{width} T h L{end_formula}"
    casts = cast_bytes(job)
    layer = layer_bytes(job)
    formula = f"T x {layer / 1024:.1f} KiB x L{end_formula}" + (" + 2 x layer weights" if casts else "")
    return layer * shape.layers * tokens + ends + casts, formula


def recomputed_bytes(job: Job, tokens: int) -> tuple[float, str]:
    """What checkpointing makes anew for one layer at a time while the backward pass is in it."""
    if not job.setting.gradient_checkpointing:
        return 0, ""
    layer = layer_bytes(job)
    return layer * tokens + cast_bytes(job) / job.shape.layers, f" + T x {layer / 1024:.1f} KiB"


def cast_bytes(job: Job) -> int:
    """16-bit copies of the layers' 32-bit weights, which autocast makes and the backward pass reads."""
    s = job.setting
    casting = s.train_engine == "torch" and s.dtype != "float32" and not s.lora_rank
    return 2 * job.shape.active_weights if casting else 0


def layer_bytes(job: Job) -> int:
    """Saved by one decoder layer for one token.

    Two norms: their input, the normalised input and the output; attention: q, k, v, output and the log-sum; the MLP:
    gate, its activation, up and their product. Autocast computes the norms in 32 bits, and keeps a 16-bit copy of the
    input for each of five matrices.
    """
    s, shape = job.setting, job.shape
    query, inner = shape.heads * shape.head_dim, inner_width(shape)
    keys_values = shape.heads * (shape.head_dim + shape.value_dim) if shape.kv_rank else shape.kv_width
    attention = query + keys_values + shape.heads * shape.value_dim
    if s.dtype == "float32":
        norms, small = 4 * 6 * shape.hidden, 4
    elif s.train_engine == "torch":
        norms, small = 16 * shape.hidden + 10 * shape.hidden, 2
    else:
        norms, small = 16 * shape.hidden, 2
    return norms + 8 + 4 * shape.heads + small * (attention + 4 * inner)


def inner_width(shape: ModelShape) -> int:
    """Inner widths of the MLPs that one token passes in a layer, averaged over a mixture's layers."""
    if not shape.num_experts:
        return shape.intermediate
    expert = shape.experts_per_token * shape.expert_intermediate + shape.shared_intermediate
    return (shape.mixture_layers * expert + shape.dense_layers * shape.intermediate) // shape.layers
