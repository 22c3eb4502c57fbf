"""Training by DeepSpeed (ZeRO, arXiv:1910.02054): actor and critic are engines of their own, shared out over ranks.

Weights of a loss are formed over the whole optimizer batch, so gradients must be added: over micro-batches, which
DeepSpeed does when the caller owns the boundary, and over ranks, where it takes the mean, which a factor undoes.
"""

import io
import os
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bench.batch import Padded
from bench.config import EngineConfig, OptimizerConfig
from bench.engines import zero_memory
from bench.engines.modules import Scorer
from bench.engines.networks import Networks
from bench.meter import storage_bytes
from bench.models.load import named_weights
from bench.ranks import Ranks
from bench.trainer import Role, TrainSetup

BUCKET = 50_000_000  # elements that are reduced at once: a buffer of so many is held


class GuardedAdamW(torch.optim.AdamW):
    """AdamW that clips, and that applies nothing where the norm is not finite: what ZeRO's stages do by themselves."""

    def __init__(self, *args: Any, max_norm: float, **kwargs: Any) -> None:  # noqa: ANN401 - AdamW's own
        super().__init__(*args, **kwargs)
        self.max_norm = max_norm

    def step(self, closure: Any = None) -> None:  # noqa: ANN401 - as in torch
        """Of gradients that are already summed over the ranks."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        self._global_grad_norm = nn.utils.clip_grad_norm_(parameters, self.max_norm)
        if torch.isfinite(self._global_grad_norm):
            super().step(closure)


class DeepSpeedEngine(Networks):
    """A `TrainEngine` over all ranks."""

    def __init__(
        self, policy: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, setup: TrainSetup, ranks: Ranks
    ) -> None:
        device, where, temperature = policy.device, setup.engine, setup.temperature
        sharded = where.zero_stage == 3
        if sharded:
            policy.cpu()  # from where the shards are taken, since a device may not hold all networks whole
        super().__init__(policy, tokenizer, setup, device, shared_out=sharded)
        self.ranks = ranks
        clips: dict[Role, float] = {"policy": setup.optimizer.grad_clip, "critic": setup.critic.grad_clip}
        networks: dict[Role, nn.Module] = {**self.modules, "policy": Scorer(policy, temperature)}
        self.engines: dict[Role, Any] = {
            role: initialise(network, device, where, setup.optimizer, clips[role]) for role, network in networks.items()
        }
        self.frozen: Any = None
        if sharded and self.reference is not None:
            self.frozen = initialise_frozen(Scorer(self.reference.model, temperature), device, where)
        self._running: Role = "policy"
        self._gradients: dict[Role, int] = {}

    def run_policy(self, padded: Padded) -> tuple[Tensor, Tensor]:
        """Through DeepSpeed, which brings the shards together."""
        self._running = "policy"
        return self._through(self.engines["policy"], padded)

    def run_critic(self, padded: Padded) -> Tensor:
        """Through DeepSpeed."""
        self._running = "critic"
        return self._through(self.engines["critic"], padded)

    def ref_logprobs(self, padded: Padded) -> Tensor:
        """Under ZeRO-3 the reference, too, lies in shards."""
        if self.frozen is None:
            return super().ref_logprobs(padded)
        padded = self._place(padded)
        with torch.no_grad():
            return padded.unflatten(self._through(self.frozen, padded)[0])

    def _through(self, engine: Any, padded: Padded) -> Any:  # noqa: ANN401 - deepspeed has no types
        """A pass in the dtype that DeepSpeed was given; it warns of another's autocast around it."""
        with torch.autocast(self.device.type, enabled=False):
            return engine(padded)

    @contextmanager
    def _count_saved(self, role: Role) -> Generator[None]:
        """Not under ZeRO-3: what is saved there includes weights that were brought together, and would keep them."""
        if self.where.zero_stage == 3:
            yield
        else:
            with super()._count_saved(role):
                yield

    def backward(self, loss: Tensor) -> None:
        """Add to the gradients of the network whose pass was the last."""
        with self.clock("backward"):
            self.engines[self._running].backward(loss * self.ranks.size, scale_wrt_gas=False)

    def step(self, role: Role, lr: float) -> float:
        """Sum over the ranks, clip and apply; a norm that is not finite applies nothing."""
        engine = self.engines[role]
        for group in engine.optimizer.param_groups:
            group["lr"] = lr
        self._gradients[role] = self._here(zero_memory.gradients(engine))
        with self.clock("optimizer"):
            engine.step()
        return float(engine.get_global_grad_norm())

    def clear(self, role: Role) -> None:
        """Forget the gradient, in all the places where ZeRO keeps it."""
        self.engines[role].zero_grad()
        zero_memory.forget_gradients(self.engines[role])

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """The policy's, whole, by name; every rank must go through them."""
        if self.where.zero_stage != 3:
            yield from named_weights(self.policy)
            return
        import deepspeed  # pyright: ignore[reportMissingImports]

        for name, parameter in self.policy.named_parameters():
            with deepspeed.zero.GatheredParameters([parameter]):
                yield name, parameter.detach()

    def save_state(self, folder: Path) -> None:
        """Every rank writes its own shards."""
        for role, engine in self.engines.items():
            engine.save_checkpoint(str(folder), tag=role, save_latest=False)

    def load_state(self, folder: Path) -> None:
        """Exactly what `save_state` wrote, by as many ranks."""
        with redirect_stdout(io.StringIO()):
            for role, engine in self.engines.items():
                engine.load_checkpoint(str(folder), tag=role)

    def memory(self) -> dict[str, int]:
        """Bytes by role on this rank's device. Under ZeRO-3 activations are not told from weights, and are absent."""
        states = [t for engine in self.engines.values() for t in zero_memory.optimizer_states(engine)]
        held = self.held(states) | {"optimizer": self._here(states)}
        held |= {role: self._here(zero_memory.weights(engine.module)) for role, engine in self.engines.items()}
        if self.frozen is not None:
            held["reference"] = self._here(zero_memory.weights(self.frozen.module))
        if self.where.zero_stage == 3:
            del held["activations"]
        held["gradients"] = max(self._gradients.values(), default=0)
        self._gradients = {}
        return held

    def _here(self, tensors: Iterable[Tensor]) -> int:
        """Bytes on the device, without what waits on the host."""
        return storage_bytes(tensor for tensor in tensors if tensor.device.type == self.device.type)

    def save_model(self, path: Path) -> None:
        """The policy in Hugging Face format, by the first rank."""
        whole = {name: weight.to("cpu", copy=True) for name, weight in self.weights() if self.ranks.leads}
        if self.ranks.leads:
            self.policy.save_pretrained(path, state_dict=whole)
            self.tokenizer.save_pretrained(path)


def initialise(
    network: nn.Module,
    device: torch.device,
    where: EngineConfig,
    optimizer: OptimizerConfig,
    clip: float,
) -> Any:  # noqa: ANN401 - deepspeed has no types
    """A DeepSpeed engine whose optimizer is torch's AdamW: the same arithmetic as in plain torch."""
    deepspeed = imported(device)
    settings: dict[str, Any] = {
        "lr": 0.0,
        "betas": optimizer.betas,
        "eps": optimizer.eps,
        "weight_decay": optimizer.weight_decay,
    }
    if where.zero_stage:
        adamw = torch.optim.AdamW(network.parameters(), **settings, fused=True)
    else:
        adamw = GuardedAdamW(network.parameters(), **settings, fused=True, max_norm=clip)
    config = settings_of(where, clip, sum(p.numel() for p in network.parameters()))
    with redirect_stdout(io.StringIO()):  # it tells of its memory
        return deepspeed.initialize(model=network, optimizer=adamw, config=config)[0]


def initialise_frozen(network: nn.Module, device: torch.device, where: EngineConfig) -> Any:  # noqa: ANN401
    """ZeRO-3 of a network that is not trained; `--offload reference` leaves its shards on the host."""
    config = settings_of(replace(where, offload=()), 0.0, 1)
    if "reference" in where.offload:
        config["zero_optimization"]["offload_param"] = {"device": "cpu"}
    with redirect_stdout(io.StringIO()):
        return imported(device).initialize(model=network, config=config)[0]


def settings_of(where: EngineConfig, clip: float, num_parameters: int) -> dict[str, Any]:
    """DeepSpeed's own settings. bfloat16 keeps float32 master weights: sharded ones from stage 1 on."""
    stage = where.zero_stage
    zero: dict[str, Any] = {"stage": stage, "reduce_bucket_size": min(BUCKET, num_parameters)}
    if stage == 3:
        zero["stage3_param_persistence_threshold"] = 0
    for flag, key in (("optimizer", "offload_optimizer"), ("params", "offload_param")):
        if flag in where.offload:
            zero[key] = {"device": "cpu"}
    half = where.dtype == "bfloat16"
    return {
        "train_micro_batch_size_per_gpu": 1,  # says nothing here: the caller passes batches and steps
        "managed_gradient_accumulation": False,
        "gradient_clipping": clip if stage else 0.0,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": half and stage > 0, "check_grad_overflow": True},
        "torch_autocast": {"enabled": half and stage == 0, "dtype": "bfloat16"},
        "data_types": {"grad_accum_dtype": "fp32"},
        "steps_per_print": None,
    }


def imported(device: torch.device) -> Any:  # noqa: ANN401 - deepspeed has no types
    """The library, on this device and within a process group, that of one process where none was joined."""
    os.environ.setdefault("DS_ACCELERATOR", device.type)
    os.environ.setdefault("LOCAL_RANK", "0")
    if not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        alone = dist.HashStore()  # pyright: ignore[reportPrivateImportUsage]
        dist.init_process_group(backend, store=alone, rank=0, world_size=1)
    import deepspeed  # pyright: ignore[reportMissingImports]

    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")  # deepspeed calls older names
    # compiled at first use, for minutes, to spare processes of one machine a copy
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.utils.logger.setLevel("ERROR")  # what it warns of is either intended or reported by the run
    deepspeed.init_distributed()
    return deepspeed
