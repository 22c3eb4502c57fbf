"""The parts of a run, loaded and checked. Nothing is written before they are all there."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from bench.config import RunConfig
from bench.engines.build import adapters, in_dtype, reward_routes, rollout_engine, train_engine
from bench.ground.errors import UserError
from bench.ground.moment import start_time
from bench.ground.tree import Tree
from bench.loop import Parts
from bench.machine.provenance import provenance
from bench.meter import Meter
from bench.models import templates
from bench.models.checksum import of_model
from bench.models.load import load_model, load_tokenizer, locate_model, pick_device
from bench.models.lora import adapter_parameters
from bench.models.shape import ModelShape, countable
from bench.models.text import TURN, check_tokenizer
from bench.proof import PROOF_PROBLEMS, long_prompts, prove_attention
from bench.ranks import ALONE, Ranks
from bench.reward import RewardedTask
from bench.session.console import Display, check_tracker
from bench.settings.flags import Chosen
from bench.settings.plugins import imported
from bench.settings.resolve import is_embedded
from bench.work import Work, measured_peak
from tasks.core import DataError, PaysOnTheWay, Problem, Split, Task


def arm_name(chosen: Chosen) -> str:
    """The name in tables: the algorithm's unless given."""
    return chosen.config.name or chosen.algo_name


def within(problems: Sequence[Problem], limit: int | None) -> Sequence[Problem]:
    """The first `limit` problems, or all."""
    return problems if limit is None else problems[:limit]


def _checksum_of(path: str | None) -> str | None:
    return None if path is None else of_model(str(Path(path).expanduser()))


def sha256_of(problems: Sequence[Problem]) -> str:
    """Of all that a task says of its problems, wherever they came from."""
    digest = hashlib.sha256()
    for problem in problems:
        digest.update(repr((problem.id, problem.prompt, problem.reference, sorted(problem.meta.items()))).encode())
    return digest.hexdigest()


class Loaded:
    """Task, data, model and engines of one run, in the order that finds a mistake soonest."""

    def __init__(self, chosen: Chosen, ranks: Ranks = ALONE, time: datetime | None = None) -> None:
        config = chosen.config
        self.time = time or start_time()
        templates.fix_time(self.time)
        self.ranks = ranks
        self.chosen = chosen
        self.tree: Tree = {"arm": arm_name(chosen), **chosen.tree()}
        check_tracker(config.track)
        self.task = self._task()
        self.data = self._load_data()
        self.sums = {split: sha256_of(problems) for split, problems in self.data.items()}
        self.location = locate_model(config.model, chosen.task_name)
        self.device = pick_device(config.engine.device)
        self.meter = Meter(self.device)
        with self.meter.phase("load"):
            self.tokenizer = load_tokenizer(self.location)
            self.model = cast("Any", load_model(self.location)).to(self.device)
            check_tokenizer(self.model, self.tokenizer, self.location)
            self.num_parameters = self.model.num_parameters()  # before an engine shares them out
            adapters(config, self.model)
            in_dtype(config.engine, self.model)
            self.sampler = rollout_engine(
                config.engine,
                self.model,
                self.tokenizer,
                self.location,
                longest=config.max_prompt_tokens + config.sampling.generation_budget,
                own_weights=config.rollout_lag > 0 or config.engine.shards_weights,
            )
            self.trainer = train_engine(config, self.model, self.tokenizer, ranks)
            self.rewards = reward_routes(config, self.device)
            self._prove()
        self.load_cost = self.meter.take()
        self.trainer.clock.running = config.profile
        self.work = Work(self._shape(), measured_peak(self.device, config.engine.dtype) * ranks.size)
        self.num_dropped = self._drop_long_prompts()

    @property
    def config(self) -> RunConfig:
        """The resolved settings."""
        return self.chosen.config

    def parts(self) -> Parts:
        """What the loop is given."""
        return Parts(
            config=self.config,
            task=self.task,
            problems=self.data["train"],
            sampler=self.sampler,
            trainer=self.trainer,
            meter=self.meter,
            work=self.work,
            rewards=self.rewards,
            ranks=self.ranks,
        )

    def announce(self, display: Display) -> None:
        """Say what will be done before doing it."""
        config, say = self.config, display.say
        if is_embedded(config.model):
            say("model    our small embedded one (--model takes another); what it shows need not hold for a large one")
        engine = config.engine
        where = f"{engine.dtype} on {self.device}"
        if engine.train == "deepspeed":
            where += f", deepspeed ZeRO-{engine.zero} over {self.ranks.size} processes"
        say(f"         {config.model}: {self.num_parameters / 1e6:.2f}M parameters, {where}")
        if config.lora.rank:
            trained = sum(p.numel() for p in adapter_parameters(self.model))
            say(f"         LoRA of rank {config.lora.rank}: {trained / 1e6:.2f}M parameters trained beside them")
        if self.trainer.not_shared:
            say(f"         each completion passes with a prompt of its own: {self.trainer.not_shared}")
        if templates.shows_time(self.tokenizer):
            say(f"         its chat template shows the time: {self.time:%Y-%m-%d %H:%M} UTC throughout this run")
        say(f"hardware preset {config.preset}")
        for split, problems in self.data.items():
            facts = self._provenance_of(split)
            origin = f" from {facts['origin']}, sha256 {facts['sha256'][:12]}" if facts else ""
            excluded = f", {facts['num_excluded']} unusable rows left out" if facts.get("num_excluded") else ""
            say(f"data     {self.chosen.task_name} {split}: {len(problems)} problems{origin}{excluded}")
        if self.num_dropped:
            say(f"         {self.num_dropped} problems dropped: prompts over {config.max_prompt_tokens} tokens")
        self._announce_method(say)
        say(f"budget   {config.budget}, seed {config.seed}")

    def _announce_method(self, say: Callable[[str], None]) -> None:
        config, algo = self.config, self.config.algo
        prompts, train = config.samples_per_step // algo.group_size, self.data["train"]
        if prompts > len(train):
            again = f"a step draws {prompts} prompts from {len(train)} problems: each comes again in it, as a group of"
            say(f"         {again} its own (prompt/repeated_frac); fewer samples a step or more data would not repeat")
        models = [role for role in self.trainer.memory() if role in ("policy", "critic", "reference")]
        models += ["reward_model"] * len(self.rewards)
        updates = algo.num_epochs * algo.num_minibatches
        line = f"{self.chosen.algo_name}: {prompts} prompts x {algo.group_size} a step, {updates} updates"
        say(f"method   {line}, lr {config.optimizer.lr:g}; models in memory: {', '.join(models)}")
        if isinstance(config.task, PaysOnTheWay) and config.task.pays_as_earned and config.reward is None:
            taken = "where it is earned" if algo.reads_token_rewards else "as one sum a completion"
            say(f"reward   paid as it is earned; {self.chosen.algo_name} takes it {taken}")

    def provenance(self) -> Tree:
        """What stands behind the run's figures."""
        return {
            **provenance(self.device),
            "template_time": self.time.isoformat(),
            "model": {
                "name": self.config.model,
                "location": self.location,
                "parameters": self.num_parameters,
                "checksum": of_model(self.location, self.model.config),
            },
            "reward_model": {"checksum": _checksum_of(self.config.reward_model.path)},
            "safety_model": {"checksum": _checksum_of(self.config.safety_model.path)},
            "data": {split: self._provenance_of(split) | {"problems_sha256": self.sums[split]} for split in self.data},
            "num_dropped_prompts": self.num_dropped,
            "preset": self.config.preset,
            "processes": self.ranks.size,
            "peak_flops_per_s": self.work.peak_per_s,
            "load": self.load_cost,
        }

    def _provenance_of(self, split: str) -> Tree:
        describe = getattr(self.config.task, "provenance", None)
        return describe(split) if describe is not None else {}

    def _task(self) -> Task:
        if self.config.reward is None:
            return self.config.task
        return RewardedTask(self.config.task, imported(self.config.reward, "--reward"))

    def _load_data(self) -> dict[Split, Sequence[Problem]]:
        evaluation = self.config.eval
        try:
            data: dict[Split, Sequence[Problem]] = {"train": self.task.problems("train")}
            if evaluation.every:
                data["validation"] = within(self.task.problems("validation"), evaluation.validation_limit)
            if evaluation.limit != 0:
                data["test"] = within(self.task.problems("test"), evaluation.limit)
        except DataError as error:
            raise UserError(str(error)) from error
        for split, problems in data.items():
            if not problems:
                raise UserError(f"{self.chosen.task_name}: no {split} problems")
        return data

    def _drop_long_prompts(self) -> int:
        """Refuse or drop prompts over the limit. A prompt has at most as many tokens as bytes, so few are encoded."""
        config = self.config
        room = config.max_prompt_tokens
        positions = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if positions is not None:
            room = min(room, positions - config.sampling.generation_budget)
        overhead = len(self.sampler.encode(TURN))  # some templates fail on no text at all
        if room <= overhead:
            raise UserError(
                f"--sampling.max-new-tokens {config.sampling.generation_budget} leaves no room for a prompt: "
                f"the model takes {positions} tokens in all"
            )
        num_dropped = 0
        for split, problems in self.data.items():
            kept: list[Problem] = []
            for problem in problems:
                if len(problem.prompt.encode()) + overhead <= room or len(self.sampler.encode(problem.prompt)) <= room:
                    kept.append(problem)
                elif config.long_prompts == "refuse":
                    raise UserError(
                        f"{problem.id}: its prompt is over {room} tokens; raise --max-prompt-tokens (up to what the "
                        "model takes beside --sampling.max-new-tokens), or use --long-prompts drop"
                    )
            num_dropped += len(problems) - len(kept)
            if not kept:
                raise UserError(f"every {split} prompt is over {room} tokens")
            self.data[split] = kept
        return num_dropped

    def _prove(self) -> None:
        """Hold the sampler to the trainer on rows longer than any window, where the run can have such."""
        config = self.config
        self.sampler.load_weights(self.trainer.weights())
        prompts = [self.sampler.encode(problem.prompt) for problem in self.data["train"][:PROOF_PROBLEMS]]
        room = config.max_prompt_tokens + config.sampling.generation_budget
        rows = long_prompts(prompts, self.model.config, room)
        prove_attention(self.sampler, self.trainer.logprobs, rows, config.sampling, config.engine)
        self.sampler.sleep()

    def _shape(self) -> ModelShape | None:
        """Sizes to count work by; None where that of one of the models is not counted."""
        shape = countable(self.model.config)
        if shape is None or any(route.engine.shape is None for route in self.rewards):
            return None
        return replace(shape, adapters=sum(p.numel() for p in adapter_parameters(self.model)))
