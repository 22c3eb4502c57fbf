"""The engines that the settings name. Each is imported when it is chosen, so that none is needed by the others."""

import copy
import importlib.util
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bench.config import RunConfig, UserError
from bench.ranks import Ranks
from bench.rollout import RolloutEngine
from bench.trainer import TrainEngine


def rollout_engine(
    config: RunConfig, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, location: str
) -> RolloutEngine:
    """What generates; `location` is where the model came from.

    Raises:
        UserError: its extra is not installed.
    """
    from bench.engines.hf import HFRollout

    if config.engine.train == "deepspeed" and config.engine.zero_stage == 3:
        model = copy.deepcopy(model)  # the trained one is in shards
    return HFRollout(model, tokenizer, config.engine)


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
