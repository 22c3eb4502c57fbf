"""The engines that the settings name. Each is imported when it is chosen, so that none is needed by the others."""

from pathlib import Path

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bench.config import EngineConfig, RunConfig
from bench.ground.errors import UserError
from bench.models.load import require_package
from bench.models.lora import is_adapted, prepare_adapters, weights_at
from bench.ranks import Ranks
from bench.reward import RewardEngine
from bench.rollout import RolloutEngine
from bench.trainer import TrainEngine, TrainSetup


def adapters(config: RunConfig, model: PreTrainedModel) -> None:
    """Give the model adapters, where the settings want them.

    Raises:
        UserError: peft is not installed, a wanted layer is not there, or the hub's adapter is to be trained.
    """
    if is_adapted(model) and not config.lora.rank:
        raise UserError(f"--model {config.model} is an adapter: download it and give its folder")
    if config.lora.rank:
        require_package("peft", "--lora.rank", "lora")
        prepare_adapters(model, config.lora, config.engine.dtype, config.seed)


def in_dtype(where: EngineConfig, model: PreTrainedModel) -> None:
    """Hold the weights as the training engine does: DeepSpeed's optimizer keeps the float32 ones beside bfloat16."""
    if where.train == "deepspeed" and where.zero_stage and where.dtype == "bfloat16":
        for parameter in model.parameters():
            parameter.data = parameter.data.bfloat16()


def rollout_engine(
    where: EngineConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    location: str,
    *,
    longest: int,
    own_weights: bool = False,
) -> RolloutEngine:
    """What generates.

    Args:
        where: names it, and says where it runs.
        model: the policy as it is trained.
        tokenizer: the policy's.
        location: where the model came from.
        longest: longest prompt and completion together.
        own_weights: it must be able to hold other weights than the model's.

    Raises:
        UserError: its extra is not installed, or it cannot load the model.
    """
    if where.rollout == "vllm":
        require_package("vllm", "--rollout vllm", "vllm")
        from bench.engines.vllm import VLLMRollout

        return VLLMRollout(model, tokenizer, where, location=weights_at(location), longest=longest)
    from bench.engines.hf import HFRollout

    return HFRollout(model, tokenizer, where, own_weights=own_weights)


def train_engine(
    config: RunConfig, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, ranks: Ranks
) -> TrainEngine:
    """What trains.

    Raises:
        UserError: its extra is not installed.
    """
    setup = TrainSetup(
        needs=config.algo.needs,
        temperature=config.sampling.temperature,
        engine=config.engine,
        optimizer=config.optimizer,
        critic=config.critic,
    )
    if config.engine.train == "deepspeed":
        require_package("deepspeed", "--engine deepspeed", "deepspeed")
        from bench.engines.deepspeed_train import DeepSpeedEngine

        return DeepSpeedEngine(model, tokenizer, setup, ranks)
    from bench.engines.torch_train import TorchEngine

    return TorchEngine(model, tokenizer, setup)


def reward_engine(config: RunConfig, device: torch.device) -> RewardEngine | None:
    """The learned reward, where one is wanted.

    Raises:
        UserError: it cannot be loaded, or it is no classifier with one label.
    """
    if config.reward_model.path is None:
        return None
    from bench.engines.reward import ClassifierReward

    path = Path(config.reward_model.path).expanduser()
    location = str(path) if path.is_dir() else config.reward_model.path
    return ClassifierReward(location, device, config.engine.dtype, config.engine.tokens_at_once)
