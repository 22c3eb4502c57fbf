"""How much of the distribution top-p and top-k leave, for log-probs over the full vocabulary. Runs in vLLM's worker."""

# vLLM has an environment of its own
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# pyright: reportUntypedBaseClass=false, reportUnknownParameterType=false

from collections import defaultdict

import torch
from torch import Tensor
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor, RequestLogitsProcessor
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

_kept: defaultdict[int, list[float]] = defaultdict(list)  # by request, a number a token


def take() -> dict[int, list[float]]:
    """The log of the kept mass of each token of each request since the last call."""
    taken = dict(_kept)
    _kept.clear()
    return taken


class KeptMass(AdapterLogitsProcessor):
    """Changes nothing; notes log(kept mass) of each row that asks for it, after the temperature and before the cut."""

    def is_argmax_invariant(self) -> bool:
        """True, so that vLLM calls it where the logits are tempered."""
        return True

    def new_req_logits_processor(self, params: SamplingParams) -> RequestLogitsProcessor | None:
        """A recorder for a request that names itself in `extra_args`."""
        index = (params.extra_args or {}).get("kept_mass_of")
        if index is None:
            return None
        top_p = torch.tensor([params.top_p]) if params.top_p < 1 else None
        top_k = torch.tensor([params.top_k]) if params.top_k > 0 else None

        def record(output_ids: list[int], logits: Tensor) -> Tensor:
            del output_ids
            p, k = (None if x is None else x.to(logits.device) for x in (top_p, top_k))
            kept = apply_top_k_top_p(logits[None].clone(), k, p)
            _kept[index].append(float(kept.logsumexp(-1) - logits.logsumexp(-1)))
            return logits

        return record
