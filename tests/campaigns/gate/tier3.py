"""What tier 3 alone sees of the planted faults, kept in tier3.json.

    python -m tests.campaigns.gate.tier3 FOLDER [NAME ...]

Each fault is trained with, under a method and settings that exercise it, at most 40 CPU-seconds a run:

1. a screen: one run under a seed of its own, and the sound tree's under the same. Where that costs nothing, stop;
2. the cost: mean over two such seeds (the one, where it lost twenty points), none of which the check uses. Below ten
   points it is nothing that must be seen;
3. the check: seeds from 0 on against the sound tree's, looks and margin as `bench check` has them.

Runs are kept in FOLDER, so that a stopped study goes on where it was. Refactors go through the check alone.
"""

import json
import resource
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from bench.gate.tolerances import DEFAULTS
from bench.gate.training import check_accuracy
from bench.gate.verdict import look_sizes
from bench.ground.errors import UserError
from tests.campaigns.gate.forked import ForkedRuns, small_data
from tests.campaigns.gate.planted import GRPO, Exercise, edited, exercise, faults, refactors
from tests.faults.forks import copy_tree
from tests.faults.listed import Fault

RESULTS = Path(__file__).with_name("tier3.json")
SCREENED, MUST_SEE = 0.03, 0.10
FIRST_SEED, NUM_SEEDS = 100, 2
SIZES = look_sizes(3, 9)
FLAGS = ["--budget", "samples=896", "--samples-per-step", "64", "--optimizer.lr", "6e-4", "--critic.lr", "2e-3"]
FLAGS += ["--eval.limit", "200", "--eval.num-samples", "0", "--task.template", "plain"]
# in this order, then the others as listed: so that a study cut short has seen what costs most
SEVERE = [
    "policy-gradient-descends",
    "log-probs-of-the-wrong-token",
    "log-probs-one-place-late",
    "groups-by-position",
    "group-of-its-own-for-every-row",
    "clip-takes-the-better",
    "log-probs-not-normalised",
    "nan-on-an-empty-mask",
    "columns-of-other-rows",
    "targets-of-other-rows",
    "old-log-probs-put-on-other-rows",
    "finished-rows-masked-instead",
    "finished-rows-marked-truncated",
    "one-random-stream-for-every-sample",
    "siblings-share-a-seed",
    "returns-summed-from-the-front",
    "reward-on-the-pad-after-the-end",
    "gae-without-the-next-value",
    "baseline-includes-itself",
    "constant-mode-without-the-rows",
    "sequence-ratio-detached",
    "gspo-with-a-token-s-clip",
    "spread-of-the-batch-for-the-group",
    "ratio-against-the-sampler",
    "end-of-sequence-token-dropped",
    "positions-count-padding",
]
UNREACHED = {
    "resume": "resumes nothing",
    "adapters": "changes a setting that is off",
    "sync": "changes an engine that is not used",
    "reference-paid-for-without-a-kl": "changes no result",
    "k1-in-the-loss-accepted": "accepts a setting that is not used",
    "group-of-one-accepted": "accepts a setting that is not used",
    "kl-metric-of-the-wrong-sign": "changes a metric only",
    "clip-fraction-counts-both-signs": "changes a metric only",
    "metrics-by-the-loss-weights": "changes metrics only",
    "entropy-coefficient-moves-the-wrong-way": "changes a setting that is off",
    "top-p-cuts-one-token-too-many": "changes a setting that is off",
    "top-k-off-by-one": "changes a setting that is off",
    "dual-clip-for-positive-advantages": "changes a setting that is off",
}


@dataclass(kw_only=True)
class Study:
    """Trees, data and runs."""

    folder: Path
    sound: Path
    tree: Path

    def runs(self, edit: Fault | None, how: Exercise, first: int) -> ForkedRuns:
        """Of the sound tree, or of the edited one, which must hold the edit while they run."""
        flags = ["--algo", how.algo, *how.settings, *FLAGS, "--data", str(self.folder / "data")]
        name, tree = (how.name, self.sound) if edit is None else (edit.name, self.tree)
        return ForkedRuns(how.algo, tree, self.folder / "runs" / f"{name}-from{first}", flags, first)

    def cost(self, edit: Fault, how: Exercise, count: int) -> float | None:
        """Mean accuracy lost, over seeds apart; None where no run of the edited tree ended."""
        base = self.runs(None, how, FIRST_SEED).results(count).accuracy
        try:
            ours = self.runs(edit, how, FIRST_SEED).results(count).accuracy
        except UserError:
            return None
        shared = sorted(set(ours) & set(base))
        return sum(base[seed] - ours[seed] for seed in shared) / len(shared) if shared else None

    def check(self, edit: Fault, how: Exercise) -> dict[str, str]:
        """What tier 3 says."""
        margin = DEFAULTS["accuracy"]
        found = check_accuracy(self.runs(edit, how, 0), self.runs(None, how, 0), margin, SIZES, lambda line: None)
        return {"verdict": found.status, "measured": found.measured, "detail": found.detail}


def examine(study: Study, fault: Fault) -> dict[str, object]:
    """All three stages, as far as they are needed."""
    reason = UNREACHED.get(fault.name) or UNREACHED.get(fault.kind) or fault.survives
    if reason:
        return {"unreached": reason}
    how = exercise(fault)
    found: dict[str, object] = {"under": how.name, "screen": study.cost(fault, how, 1)}
    if found["screen"] is not None and float(str(found["screen"])) < SCREENED:
        return found
    plain = found["screen"] is not None and float(str(found["screen"])) >= 2 * MUST_SEE
    found["cost"] = found["screen"] if plain else study.cost(fault, how, NUM_SEEDS)
    if found["cost"] is None or float(str(found["cost"])) >= MUST_SEE:
        found |= study.check(fault, how)
    return found


def main(folder: Path, names: list[str]) -> None:
    """Print and keep one result an edit, and the share of those that must be seen."""
    torch.set_num_threads(1)
    folder = folder.resolve()
    study = Study(folder=folder, sound=folder / "sound", tree=folder / "planted")
    if not study.sound.exists():
        copy_tree(study.sound)
    shutil.rmtree(study.tree, ignore_errors=True)  # a study that was stopped has left its fault there
    shutil.copytree(study.sound, study.tree)
    if not (folder / "data").exists():
        small_data(folder / "data")
    kept: dict[str, dict[str, object]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for edit in sorted(
        [*faults(), *refactors()], key=lambda e: SEVERE.index(e.name) if e.name in SEVERE else len(SEVERE)
    ):
        if edit.name in kept or (names and edit.name not in names):
            continue
        with edited(edit, study.tree):
            kept[edit.name] = study.check(edit, GRPO) if edit.kind == "refactor" else examine(study, edit)
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"{spent.ru_utime + spent.ru_stime:6.0f} s  {edit.name}: {json.dumps(kept[edit.name])}", flush=True)
    must = [name for name, found in kept.items() if "cost" in found and "verdict" in found]
    print(
        f"{sum(kept[name]['verdict'] == 'worse' for name in must)} of {len(must)} that cost ten points or more are red"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
