"""The engines that the settings name. Each is imported when it is chosen, so that none is needed by the others."""

import importlib.util
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bench.config import EngineConfig, RunConfig, UserError
from bench.ranks import Ranks
from bench.rollout import RolloutEngine
from bench.trainer import TrainEngine


def rollout_engine(
    engine: EngineConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    location: str,
    *,
    max_tokens: int,
    own_weights: bool = False,
) -> RolloutEngine:
    """What generates.

    Args:
        engine: names it, and says where it runs.
        model: the policy as it is trained.
        tokenizer: the policy's.
        location: where the model came from.
        max_tokens: longest prompt and completion together.
        own_weights: it must be able to hold other weights than the model's.

    Raises:
        UserError: its extra is not installed, or it cannot load the model.
    """
    if engine.rollout == "vllm":
        require("vllm", "--rollout vllm", "vllm")
        from bench.engines.vllm import VLLMRollout

        return VLLMRollout(model, tokenizer, engine, location=location, max_tokens=max_tokens)
    from bench.engines.hf import HFRollout

    return HFRollout(model, tokenizer, engine, own_weights=own_weights)


def train_engine(
    config: RunConfig, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, ranks: Ranks
) -> TrainEngine:
    """What trains.

    Raises:
        UserError: its extra is not installed.
    """
    settings: dict[str, Any] = {
        "needs": config.algo.needs,
        "temperature": config.sampling.temperature,
        "engine": config.engine,
        "optimizer": config.optimizer,
        "critic": config.critic,
    }
    if config.engine.train == "deepspeed":
        require("deepspeed", "--engine deepspeed", "deepspeed")
        from bench.engines.deepspeed_train import DeepSpeedEngine

        return DeepSpeedEngine(model, tokenizer, ranks=ranks, **settings)
    from bench.engines.torch_train import TorchEngine

    return TorchEngine(model, tokenizer, **settings)


def require(package: str, flag: str, extra: str) -> None:
    """Refuse a setting whose package is absent.

    Raises:
        UserError: with the command that installs it.
    """
    if importlib.util.find_spec(package) is None:
        raise UserError(f'{flag} needs {package}: pip install "ppo-vs-grpo-bench[{extra}]"')
