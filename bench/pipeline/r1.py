"""DeepSeek-R1's pipeline (arXiv:2501.12948): cold start, reasoning RL, rejection sampling, RL with preferences.

    0  RL from the base itself; its right samples feed stage 1, as R1-Zero's did     (optional)
    1  supervised on long chains in the `<think>` form
    2  RL by rules: accuracy, format, language consistency
    3  rejection sampling from stage 2, general examples; supervised again from the base
    4  RL by rules, then with general prompts that learned rewards judge

Every stage is made of what runs are made of; this module only says what follows what.
"""

from dataclasses import replace
from typing import Any

from bench.config import ASSETS, Sampling
from bench.ground.tree import Tree, plain
from bench.models.checksum import of_model
from bench.models.load import locate_model
from bench.pipeline import stages
from bench.pipeline.direct import GROUP, Direct, direct
from bench.pipeline.examples import Example, by_solver, read
from bench.pipeline.measure import Exam
from bench.pipeline.plans import BASE, DPO, NUMBERS, R1, Plan, is_ours
from bench.pipeline.sizes import Sizes
from bench.pipeline.workshop import Made, Workshop
from bench.settings.flags import from_tree
from bench.settings.resolve import with_source
from tasks.core import RewardWeights, Task
from tasks.dataset import split_of
from tasks.helpful import Helpful


class Pipeline:
    """One pipeline's settings, resolved, and its stages in order."""

    def __init__(self, config: R1) -> None:
        self.config = config
        self.ours = is_ours(config.model)
        self.location = str(ASSETS / BASE) if config.model == BASE else locate_model(config.model, config.task)
        self.sizes = config.sizes
        self.weights = RewardWeights(language=self.sizes.language_weight)
        self.task = self._task(config.task)

    def _task(self, name: str) -> Task:
        """A task with its data chosen as a run would choose them."""
        tree: Tree = {"algo_name": self.config.algo, "task_name": name, "source": self.config.source}
        if name == self.config.task:
            tree["data"] = self.config.data
        chosen = from_tree(tree, "pipeline").config
        if self.ours:
            chosen = replace(chosen, source=self._source)
        task: Any = with_source(chosen, ours=self.ours)
        if self.ours and task.template == "auto":  # a stage's model is a folder like any other, and would be asked more
            task = replace(task, template="plain")
        return replace(task, weights=self.weights)

    @property
    def _source(self) -> Any:  # noqa: ANN401 - of the literals of `source`
        if self.config.source != "auto" or not self.ours:
            return self.config.source
        return "path" if self.config.data is not None else "procedural"

    def start_key(self) -> Tree:
        """What the base is, by name and by content where it is a folder here."""
        return {"model": self.config.model, "checksum": of_model(self.location)}

    def exam(self, judges: Made | None) -> Exam:
        """What each checkpoint is asked."""
        sizes = self.sizes
        others = [name for name in sizes.other_tasks if name != self.config.task]
        return Exam(
            task=self.task,
            helpful=Helpful(
                gold=False,
                weights=self.weights,
                source="procedural" if self.config.preferences is None else "path",
                data=self.config.preferences,
            ),
            others={name: self._task(name) for name in others},
            num_problems=sizes.eval_problems,
            num_samples=sizes.eval_samples,
            num_others=sizes.other_problems,
            max_new_tokens=sizes.max_new_tokens,
            judges={} if judges is None else stages.judges_in(judges),
        )

    def make(self, plan: Plan, shop: Workshop) -> list[Made]:
        """All stages of one arm, in order; each is evaluated. Returns those that made a model."""
        sizes, base = plan.sizes, self._base(shop)
        judges = self._judges(shop, base) if 4 in plan.numbers else None
        shop.exam = self.exam(judges)
        shop.reports = []
        shop.evaluated(base)
        now = base
        zero = self._reinforced(shop, 0, "zero", base, sizes.first_steps) if 0 in plan.numbers else None
        if 1 in plan.numbers:
            now = self._cold_start(shop, base, zero, plan)
        if 2 in plan.numbers:
            now = self._reinforced(shop, 2, "reason", now, sizes.first_steps)
        if 3 in plan.numbers:
            now = self._restart(shop, base, now, plan)
        if 4 in plan.numbers:
            now = self._reinforced(shop, 4, "rules", now, sizes.second_steps, temperature=sizes.second_temperature)
            assert judges is not None
            now = self._general(shop, now, judges, plan)
        return shop.reports

    def _base(self, shop: Workshop) -> Made:
        """The base, which stands; only its evaluation is kept in the folder."""
        anywhere = replace(shop, allowed=frozenset(NUMBERS))
        made = anywhere.stage(0, "base", self.start_key() | {"exam": plain(self.sizes.eval_problems)}, lambda _: {})
        return replace(made, model=self.location)

    def _judges(self, shop: Workshop, base: Made) -> Made:
        depends: Tree = {"start": base.key, "settings": self.sizes.judges, "pairs": self.config.preferences}
        training = replace(self.sizes.judges, seed=shop.seed)
        return shop.stage(
            4, "judges", depends, lambda out: stages.judged(out, self.location, self.config.preferences, training)
        )

    def _cold_start(self, shop: Workshop, base: Made, zero: Made | None, plan: Plan) -> Made:
        examples: list[Example] = []
        source: Tree = {"examples": self.config.examples, "count": plan.sizes.cold_examples}
        if zero is not None and self.config.examples is None:
            found = self._rejection(shop, 0, zero)
            examples, source = stages.kept_examples(found), {"sampled": found.key}
        elif self.config.examples is not None:
            examples = read(self.config.examples)
        else:
            examples = self._solved(plan.sizes.cold_examples, shop.seed)
        return self._supervised(shop, 1, "cold-start", examples, {"start": base.key, **source}, plan)

    def _restart(self, shop: Workshop, base: Made, now: Made, plan: Plan) -> Made:
        found = self._rejection(shop, 3, now)
        examples = stages.kept_examples(found) + self._general_examples(plan.sizes.general_examples, shop.seed)
        depends: Tree = {"start": base.key, "sampled": found.key, "general": plan.sizes.general_examples}
        return self._supervised(shop, 3, "restart", examples, depends, plan)

    def _solved(self, count: int, seed: int) -> list[Example]:
        """Worked problems of the task's own solver."""
        family = BASE if self.config.task == "gsm8k" else self.config.task
        found = (e for e in by_solver(family, 4 * count, seed) if "\\boxed" in e.completion)
        return [example for _, example in zip(range(count), found, strict=False)]

    def _general_examples(self, count: int, seed: int) -> list[Example]:
        """Good answers to general prompts of the training split, harmful ones declined."""
        solved = (e for e in by_solver(BASE, 20 * count, seed + 1) if "\\boxed" not in e.completion)
        found = (e for e in solved if split_of(e.prompt) == "train")
        return [replace(example, source="general") for _, example in zip(range(count), found, strict=False)]

    def _supervised(
        self, shop: Workshop, number: int, name: str, examples: list[Example], depends: Tree, plan: Plan
    ) -> Made:
        settings = plan.sizes.cold if number == 1 else plan.sizes.restart
        made = shop.stage(
            number,
            name,
            depends | {"settings": settings},
            lambda out: stages.supervised(out, self.location, examples, settings, shop.seed),
        )
        shop.evaluated(made)
        return made

    def _rejection(self, shop: Workshop, number: int, now: Made) -> Made:
        wanted = stages.Sampled(
            location=now.model,
            task=self.task,
            sampling=Sampling(max_new_tokens=self.sizes.max_new_tokens),
            seed=shop.seed,
        )
        depends: Tree = {"start": now.key, "settings": self.sizes.rejection, "task": self._task_key()}
        made = shop.stage(number, "rejection", depends, lambda out: stages.rejection(out, wanted, self.sizes.rejection))
        return made

    def _task_key(self) -> Tree:
        return {"task_name": self.config.task, "data": plain(self.config.data), "source": self._source}

    def _reinforced(
        self, shop: Workshop, number: int, name: str, now: Made, steps: int, temperature: float = 1.0
    ) -> Made:
        tree = self._tree(self.config.algo, shop.seed, steps, temperature)
        tree |= {"task_name": self.config.task, "task": plain(self.task), "name": f"stage-{number}-{name}"}
        return self._run(shop, number, name, now, tree)

    def _general(self, shop: Workshop, now: Made, judges: Made, plan: Plan) -> Made:
        """The last steps: reasoning by rules, general prompts by the learned rewards."""
        sizes, task = plan.sizes, plain(self.task)
        method = self.config.general_algo or self.config.algo
        if method == DPO:
            return self._direct(shop, now, judges, sizes)
        tree = self._tree(method, shop.seed, sizes.general_steps, sizes.second_temperature)
        mixed = {name: task[name] for name in ("source", "data", "template", "weights") if name in task}
        mixed |= {"reasoning": self.config.task, "general_share": sizes.general_share}
        mixed["preferences"] = plain(self.config.preferences)
        tree |= {"task_name": "mixed", "task": mixed, "name": f"stage-4-general-{method}"}
        learned = stages.judges_in(judges)
        tree["reward_model"] = plain(learned["helpful"].settings)
        tree["safety_model"] = plain(learned["harmful"].settings)
        return self._run(shop, 4, f"general-{method.replace(':', '.')}", now, tree)

    def _direct(self, shop: Workshop, now: Made, judges: Made, sizes: Sizes) -> Made:
        """DPO on pairs of the model's own answers, as many samples as the steps of RL would have general prompts."""
        count = max(2, round(sizes.general_steps * sizes.samples_per_step * sizes.general_share) // GROUP)
        prompts = shop.exam.helpful.problems("train")[:count] if shop.exam is not None else ()
        settings = replace(sizes.cold, lr=sizes.direct_lr, num_updates=2 * sizes.general_steps)
        wanted = Direct(
            location=now.model,
            problems=prompts,
            judges=stages.judges_in(judges),
            sampling=Sampling(max_new_tokens=sizes.max_new_tokens),
            settings=settings,
            seed=shop.seed,
        )
        depends: Tree = {"start": now.key, "judges": judges.key, "settings": settings, "prompts": count}
        made = shop.stage(4, "general-dpo", depends, lambda out: direct(out, wanted))
        shop.evaluated(made)
        return made

    def _tree(self, method: str, seed: int, steps: int, temperature: float) -> Tree:
        """Settings of a run of reinforcement learning."""
        tree = stages.run_tree(method, self.sizes, steps, temperature)
        return tree | {"seed": seed, "source": self._source, "data": plain(self.config.data)}

    def _run(self, shop: Workshop, number: int, name: str, now: Made, tree: Tree) -> Made:
        depends = {k: v for k, v in tree.items() if k not in ("quiet", "reward_model", "safety_model")}
        made = shop.stage(
            number,
            name,
            {"start": now.key, "run": depends},
            lambda out: stages.reinforced(out, {**tree, "model": now.model}),
        )
        shop.evaluated(made)
        return made
