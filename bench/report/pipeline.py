"""The R1 pipeline in tables and figures, from the records of its stages: what each stage came to, and what it is worth.

Reads `arms.json` and each stage's `stage.json` and `eval.json`, nothing else.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.ground.files import read_json
from bench.report.behaviours import BEHAVIOURS
from bench.report.figures import style
from bench.report.pipeline_plots import overoptimization, stages_figure
from bench.report.pipeline_records import Arm, Facts, arms_in, runs_of
from bench.report.tables import Cell, Row, Table, number, percent, points, quantity, text
from bench.stats import estimate, estimate_share, paired

SHARES = {  # column -> figure of an evaluation
    "accuracy": "accuracy",
    "completed": "completed_accuracy",
    "sampled": "sampled_accuracy",
    "form": "format_frac",
    "language": "language",
    "harmful refused": "general/refused_harmful",
    "harmless refused": "general/refused_helpful",
}
AMOUNTS = {
    "gold, helpful": "general/gold_helpful",
    "model, helpful": "general/model_helpful",
    "model, harmful": "general/model_harmful",
    "tokens": "length_mean",
    "tokens, general": "general/length_mean",
}


def write_report(out: Path) -> Path:
    """`tables/`, `figures/` and `report.md` below `out`; returns the page's path."""
    arms = arms_in(out)
    tables = [by_stage(arms[0]), ablation(arms), behaviours(arms[0]), costs(arms[0]), judges(out), yields(out)]
    shown = [table for table in tables if table.rows]
    with style():
        figures = [figure for figure in (stages_figure(arms[0]), overoptimization(runs_of(arms[0]))) if figure]
    for folder in ("tables", "figures"):
        (out / folder).mkdir(exist_ok=True)
    for table in shown:
        table.write(out / "tables")
    for figure in figures:
        figure.write(out / "figures")
    pictures = [f"![{figure.title}](figures/{figure.name}.png)\n\n{figure.caption}\n" for figure in figures]
    page = out / "report.md"
    page.write_text("\n".join([f"# {heading(arms)}\n", *(t.markdown() for t in shown), *pictures, *examples(arms[0])]))
    return page


def heading(arms: Sequence[Arm]) -> str:
    """What was made."""
    return f"R1's pipeline, stage by stage ({len(arms[0].seeds)} seed(s), {len(arms)} arm(s))"


def by_stage(arm: Arm) -> Table:
    """Each checkpoint of the pipeline's first arm on everything that it is asked."""
    outside = sorted(
        {k for stages in arm.seeds.values() for s in stages for k in s.figures if k.startswith("outside/")}
    )
    rows: list[Row] = []
    for label in arm.labels:
        row: Row = {"stage": text(label)}
        row |= {column: over_seeds(arm.values(label, name), share=True) for column, name in SHARES.items()}
        row |= {column: over_seeds(arm.values(label, name), share=False) for column, name in AMOUNTS.items()}
        row |= {f"{n.partition('/')[2]} (outside)": over_seeds(arm.values(label, n), share=True) for n in outside}
        rows.append(row)
    note = (
        "Shares in percent, mean and 95% t interval over seeds (from three on). Accuracy: greedy, on the test split; "
        "sampled at temperature 1. Language: words of the thought that are English. Gold: what an answer is worth by "
        "the rule that training never sees; model: the learned reward, on a scale of mean 0 and spread 1 over held-out "
        "answers. Outside: tasks outside the pipeline's family, greedy accuracy."
    )
    return Table(name="stages", title="By stage", note=note, rows=rows)


def over_seeds(values: Sequence[float], *, share: bool) -> Cell:
    """A mean over seeds with its interval; missing where no seed has the figure."""
    if not values:
        return text("")
    return percent(estimate_share(values)) if share else quantity(estimate(values))


def ablation(arms: Sequence[Arm]) -> Table:
    """Each arm's last checkpoint, and what it loses against the first arm's, paired by seed."""
    whole = arms[0]
    rows: list[Row] = []
    for arm in arms if len(arms) > 1 else ():
        row: Row = {"arm": text(arm.name), "stages": text(", ".join(arm.labels[1:]))}
        for column in ("accuracy", "sampled", "form", "language", "harmful refused"):
            row[column] = over_seeds(last(arm, SHARES[column]), share=True)
            if arm is not whole:
                row[f"{column}, less whole"] = lost(arm, whole, SHARES[column])
        row["gold, helpful"] = over_seeds(last(arm, AMOUNTS["gold, helpful"]), share=False)
        row["samples"] = number(total(arm, "samples_generated") / len(arm.seeds))
        row["supervised updates"] = number(total(arm, "num_updates") / len(arm.seeds))
        rows.append(row)
    note = (
        "The last checkpoint of each arm. The budget of a stage that is left out went to the one of its kind that is "
        "left. 'Less whole': difference to the whole pipeline in points, paired by seed, 95% t interval from three "
        "seeds on; an interval that holds 0 says that the stage adds nothing that can be detected here."
    )
    return Table(name="ablation", title="Without a stage", note=note, rows=rows)


def last(arm: Arm, name: str) -> list[float]:
    """A figure of the last checkpoint, by seed."""
    return [float(v) for s in arm.seeds.values() if (v := s[-1].figures.get(name)) is not None]


def lost(arm: Arm, whole: Arm, name: str) -> Cell:
    """The difference of two arms' last checkpoints over the seeds that both have."""
    shared = sorted(arm.seeds.keys() & whole.seeds.keys())
    pairs = [(arm.seeds[s][-1].figures.get(name), whole.seeds[s][-1].figures.get(name)) for s in shared]
    known = [(float(a), float(b)) for a, b in pairs if a is not None and b is not None]
    return points(paired([a for a, _ in known], [b for _, b in known])) if known else text("")


def total(arm: Arm, fact: str) -> float:
    """A counted fact over all stages and seeds."""
    return sum(float(stage.facts.get(fact, 0)) for stages in arm.seeds.values() for stage in stages)


def behaviours(arm: Arm) -> Table:
    """Signs of reasoning at each checkpoint, in right and wrong completions apart."""
    rows: list[Row] = []
    for label in arm.labels:
        exact = arm.values(label, "behaviour/exact")
        row: Row = {"stage": text(label), "read": text("exactly" if exact and min(exact) == 1 else "by words")}
        for verdict in ("right", "wrong"):
            for name in BEHAVIOURS:
                found = arm.values(label, f"behaviour/{verdict}_per_100_tokens/{name}")
                row[f"{name.replace('_', ' ')}, {verdict}"] = over_seeds(found, share=False)
        rows.append(row)
    note = (
        "Count by 100 tokens of sampled completions. Read from equations on countdown, elsewhere by word lists, whose "
        "precision and recall are in docs/pipeline.md."
    )
    return Table(name="behaviours", title="Reasoning behaviours", note=note, rows=rows)


def costs(arm: Arm) -> Table:
    """What each stage used, and the memory that its roles held."""
    rows: list[Row] = []
    for label in arm.labels[1:]:
        facts = [stage.facts for stages in arm.seeds.values() for stage in stages if stage.label == label]
        memory: dict[str, Any] = facts[0].get("memory_gib", {})
        row: Row = {
            "stage": text(label),
            "samples": mean_fact(facts, "samples_generated"),
            "updates": mean_fact(facts, "updates", "num_updates"),
            "reference renewed": mean_fact(facts, "reference_renewed"),
            "seconds of training": mean_fact(facts, "seconds"),
        }
        roles = ("policy", "reference", "critic", "reward_model", "optimizer", "gradients", "activations", "kv_cache")
        for role in roles:
            held = memory.get(f"memory/{role}_gib")
            row[f"{role}, MiB"] = number(None if held is None else 1024 * held)
        rows.append(row)
    note = (
        "Mean over seeds; memory by role in the last step, of the first seed. Rejection sampling is in its own table."
    )
    return Table(name="costs", title="Cost and memory by role", note=note, rows=rows)


def mean_fact(facts: Sequence[Facts], *names: str) -> Cell:
    """The first of the names that the stages recorded, as a mean over seeds."""
    found = [float(f[name]) for f in facts for name in names if name in f]
    return number(sum(found) / len(found)) if found else text("")


def judges(out: Path) -> Table:
    """The learned rewards on held-out answers, and what length alone tells."""
    rows: list[Row] = []
    for record in sorted(out.glob("4-judges-*/stage.json")):
        content = read_json(record)
        for kind, facts in content["facts"].items():
            before, after = facts.get("length_bias_before", {}), facts.get("length_bias_after", {})
            rows.append(
                {
                    "reward model": text({"helpful": "helpfulness (pairs)", "harmful": "safety (pointwise)"}[kind]),
                    "seed": text(str(content["seed"])),
                    "held-out accuracy": percent(facts["accuracy"]),
                    "held-out answers": number(facts["num_held_out"]),
                    "calibration error": number(facts["calibration_error"]),
                    "longer is better, before": percent(before.get("longer_is_better_frac")),
                    "longer is better, after": percent(after.get("longer_is_better_frac")),
                    "score follows length, correlation": number(facts.get("score_length_correlation")),
                }
            )
    note = (
        "Before and after the pairs were balanced by length. Calibration: expected error over ten bins of confidence."
    )
    return Table(name="judges", title="Learned rewards", note=note, rows=rows)


def yields(out: Path) -> Table:
    """Rejection sampling: pass rates and what was kept."""
    rows: list[Row] = []
    for record in sorted(out.glob("*-rejection-*/stage.json")):
        content = read_json(record)
        facts = content["facts"]
        rows.append(
            {
                "stage": text(f"{content['stage']} ({content['key']})"),
                "seed": text(str(content["seed"])),
                "samples": number(facts["num_samples_in_all"]),
                "pass rate": percent(facts["pass_rate"]),
                "problems never solved": number(facts["problems_never_solved"]),
                "kept": number(facts["num_kept"]),
                "yield": percent(facts["yield"]),
                **{reason: number(count) for reason, count in sorted(facts["samples_by_reason"].items())},
            }
        )
    note = "Samples by the first rule that they break; kept ones are then deduplicated and balanced by problem."
    return Table(name="rejection", title="Rejection sampling", note=note, rows=rows)


def examples(arm: Arm) -> list[str]:
    """One completion of each stage, to be read."""
    stages = next(iter(arm.seeds.values()))
    block: Callable[[Facts], str] = lambda e: f"{e['prompt']}\n\n    {e['completion']}\n"
    shown = [f"**{s.label}**: {block(s.figures['examples'][0])}" for s in stages if s.figures.get("examples")]
    return ["## Completions to read\n", *shown] if shown else []
