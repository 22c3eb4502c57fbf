"""The engines that the settings name. Each is imported when it is chosen, so that none is needed by the others."""

import importlib.util
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bench.config import RunConfig, UserError
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

    return HFRollout(model, tokenizer, config.engine)


def train_engine(config: RunConfig, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> TrainEngine:
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
    from bench.engines.torch_train import TorchEngine

    return TorchEngine(model, tokenizer, **settings)


def require(package: str, flag: str, extra: str) -> None:
    """Refuse a setting whose package is absent.

    Raises:
        UserError: with the command that installs it.
    """
    if importlib.util.find_spec(package) is None:
        raise UserError(f'{flag} needs {package}: pip install "ppo-vs-grpo-bench[{extra}]"')
