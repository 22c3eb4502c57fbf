"""`bench check`: whether a change made an algorithm worse. Three tiers, each asked for by number."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import tomli_w

from algorithms import ALGORITHMS
from bench.gate import outputs
from bench.gate.accuracy import Results, accuracy_finding, base_runs, gone, judge_accuracy, level_of, read_runs
from bench.gate.baselines import baseline_of_results, baseline_path, move_baseline, read_baseline
from bench.gate.config import CheckConfig
from bench.gate.costs import Side, check_costs
from bench.gate.moved import moved_here
from bench.gate.tolerances import Tolerances, parse_tolerances, tolerance_of
from bench.gate.training import Trained, check_accuracy, write_study
from bench.gate.trees import base_tree, head_commit
from bench.gate.verdict import EXIT_CODES, Finding, look_sizes, overall
from bench.ground.errors import UserError
from bench.ground.tree import Tree, merge
from bench.settings.flags import from_tree
from bench.settings.plugins import find_algorithm
from bench.settings.resolve import resolve
from bench.study.file import parse_settings

BASELINES = Path("results/baselines")


def check(config: CheckConfig) -> int:
    """Judge, or move baselines; returns the exit code.

    Raises:
        UserError: flags that cannot go together, or a baseline that must not move.
    """
    refuse(config)
    config.out.mkdir(parents=True, exist_ok=True)
    start, gate = time.monotonic(), Gate(config)
    if config.update_baseline:
        print("\n".join(gate.move()))
        return 0
    with ExitStack() as stack:
        base = stack.enter_context(base_tree(config.base)) if config.base else None
        findings = list(gate.findings(base))
        loud = moved_here(base, config.baselines or BASELINES)
    facts = [*loud, *gate.facts(), f"{time.monotonic() - start:.0f} s"]
    outputs.write_findings(findings, facts, config.out, os.environ.get("GITHUB_STEP_SUMMARY"))
    print(*loud, outputs.findings_on_terminal(findings), outputs.headline_of_findings(findings), config.out, sep="\n")
    return EXIT_CODES[overall(findings)]


def refuse(config: CheckConfig) -> None:
    """Flags that cannot go together.

    Raises:
        UserError: says what to do.
    """
    config.check()
    if config.update_baseline and not config.reason.strip():
        raise UserError('--update-baseline needs --reason "...": a baseline moves for a reason, which is stored')
    if config.against is not None and config.runs is None:
        raise UserError("--against says what --runs are held against; give both")
    if config.runs is not None and (config.base is not None or set(config.tiers) != {3}):
        raise UserError("--runs are judged by tier 3 alone: give --tiers 3, and --against in place of --base")
    if 2 in config.tiers and config.base is None and not config.update_baseline:
        raise UserError("tier 2 measures both sides in one job: give --base COMMIT or --base FOLDER")
    if config.against is not None and not config.against.exists():
        raise UserError(f"--against {config.against}: neither a folder of runs nor a baseline's file")
    for name in ("seeds", "pairs"):
        if not 3 <= getattr(config, name) <= getattr(config, f"max_{name}"):
            raise UserError(f"--{name} must be at least 3, and at most --max-{name}")


class Gate:
    """One check: what is judged, and by which settings."""

    def __init__(self, config: CheckConfig) -> None:
        self.config = config
        self.tolerances: Tolerances = parse_tolerances(config.tolerance)
        self.margin = tolerance_of("accuracy", self.tolerances)
        self.trained = config.algo or ("grpo", "ppo")
        level_of(len(look_sizes(config.seeds, config.max_seeds)))  # refuses too many looks before any run
        self.settings: Tree = merge({"budget": config.budget}, parse_settings(config.set, "--set"))
        for name in config.algo:
            find_algorithm(name)

    def say(self, line: str) -> None:
        """Progress."""
        if not self.config.quiet:
            print(line, flush=True)

    def facts(self) -> list[str]:
        """What stands above the table."""
        config = self.config
        itself = config.base is not None and Path(config.base).resolve() == Path.cwd()
        base = "this tree itself" if itself else config.base or "stored"
        facts = [f"head {head_commit()}, base {base}, tiers {', '.join(map(str, config.tiers))}"]
        if set(config.tiers) - {1} and config.runs is None:
            facts.append(f"{config.task}, {config.model}, {config.budget} {' '.join(config.set)}".strip())
        return facts

    def settings_of(self, name: str) -> Tree:
        """A method's settings in tiers 2 and 3, defaults left out: each tree fills in its own."""
        config = self.config
        return self.settings | {"algo_name": name, "task_name": config.task, "model": config.model}

    def baseline(self, name: str) -> Path:
        """Where its stored accuracies lie."""
        chosen = resolve(from_tree(self.settings_of(name), f"check {name}"))
        return baseline_path(self.config.baselines or BASELINES, name, chosen.tree(), chosen.config.preset)

    def findings(self, base: Path | None) -> Iterator[Finding]:
        """Tier by tier."""
        if 1 in self.config.tiers:
            yield from self.results()
        if 2 in self.config.tiers:
            assert base is not None, "refused without a base"
            yield from self.costs(base)
        if 3 in self.config.tiers:
            yield from self.recorded() if self.config.runs is not None else self.accuracy(base)

    def results(self) -> Iterator[Finding]:
        """Tier 1."""
        from bench.gate.moves import check_golden, golden_path

        for name in self.config.algo or ALGORITHMS:
            self.say(f"tier 1   {name}")
            yield from check_golden(name, find_algorithm(name), golden_path(name, self.config.baselines))

    def costs(self, base: Path) -> Iterator[Finding]:
        """Tier 2."""
        sizes = look_sizes(self.config.pairs, self.config.max_pairs)
        for name in self.trained:
            resolve(from_tree(self.settings_of(name), f"check {name}"))  # a mistake is told before anything is started
            settings = self.config.out / f"{name.replace(':', '.')}.toml"
            settings.write_text(tomli_w.dumps(self.settings_of(name)), encoding="utf-8")
            trees: dict[Side, Path] = {"head": Path.cwd(), "base": base}
            yield from check_costs(name, trees, settings, self.config.out, self.tolerances, sizes, self.say)

    def accuracy(self, base: Path | None) -> Iterator[Finding]:
        """Tier 3, by runs started here."""
        sizes = look_sizes(self.config.seeds, self.config.max_seeds)
        for name in self.trained:
            theirs = self.stored_baseline(self.baseline(name)) if base is None else self.training(name, "base", base)
            if theirs is None:
                yield self.no_baseline(name, self.baseline(name))
            else:
                yield check_accuracy(self.training(name, "head", Path.cwd()), theirs, self.margin, sizes, self.say)

    def stored_baseline(self, path: Path) -> Results | None:
        """The baseline in a file; None where there is no file."""
        return read_baseline(path) if path.exists() else None

    def no_baseline(self, name: str, base: Path) -> Finding:
        """Nothing to compare with."""
        detail = 'store one from runs of the base: --update-baseline --reason "...", or give --base'
        return accuracy_finding(name, "cannot judge", f"no {name} in {base}", self.margin, detail=detail)

    def training(self, name: str, side: Side, tree: Path) -> Trained:
        """A method to train in a tree."""
        config, stem = self.config, name.replace(":", ".")
        resolve(from_tree(self.settings_of(name), f"check {name}"))
        study = write_study(config.out / f"{stem}-study.toml", name, config.task, config.model, self.settings)
        folder = config.out / f"{stem}-{side}"
        shutil.rmtree(folder, ignore_errors=True)  # an earlier check's runs are of other code
        return Trained(subject=name, study=study, tree=tree, folder=folder, executor=config)

    def recorded(self) -> Iterator[Finding]:
        """Tier 3, by runs that were made elsewhere."""
        config = self.config
        assert config.runs is not None
        head, base = read_runs(config.runs), base_runs(config.against)
        yield from gone(head, base or {}, config.runs, self.margin)
        for name, ours in head.items():
            path = config.against or baseline_of_results(ours, name, config.baselines or BASELINES)
            theirs = self.stored_baseline(path) if base is None else base.get(name)
            if theirs is None:
                yield self.no_baseline(name, path)
            else:
                yield judge_accuracy(name, ours, theirs, self.margin, level_of(1))

    def move(self) -> Iterator[str]:
        """Store what is found; a line each."""
        from bench.gate.moves import golden_path, move_golden

        config = self.config
        if 1 in config.tiers:
            for name in config.algo or ALGORITHMS:
                path = golden_path(name, config.baselines)
                yield move_golden(name, find_algorithm(name), path, config.reason)
        if 3 in config.tiers:
            for name, results in self.results_to_store().items():
                path = baseline_of_results(results, name, config.baselines or BASELINES)
                yield move_baseline(path, name, results, config.reason)

    def results_to_store(self) -> dict[str, Results]:
        """Of --runs, or of --seeds runs made now."""
        if self.config.runs is not None:
            return read_runs(self.config.runs)
        return {n: self.training(n, "head", Path.cwd()).results(self.config.seeds) for n in self.trained}
