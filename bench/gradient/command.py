"""`bench gradient`: methods compared by their gradients at the same weights, without training."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.gradient.figures import Estimate, Products, cosine, expected_cosine, jackknifed, noise_to_signal, products
from bench.gradient.measure import Measured, fit_critic, measure
from bench.ground.errors import UserError
from bench.ground.files import write_json
from bench.ground.tree import merge, plain
from bench.session.loaded import Loaded
from bench.settings.flags import Chosen, from_tree
from bench.settings.resolve import resolve
from bench.study.file import parse_arm, parse_settings

AT = 256  # samples of the first arm, whose tokens and operations the others get as well
PURPOSES = {"arm": 2, "reference": 3}


@dataclass(frozen=True, kw_only=True)
class GradientConfig:
    """Compare methods by the variance and the direction of their gradients at fixed weights."""

    arms: tuple[str, ...] = ("rloo", "grpo", "step_grpo", "ppo")
    """Arms to measure: ALGO or NAME=ALGO[,SETTING=VALUE...]. The first is the one whose cost the others get."""
    reference: str = "rloo"
    """Arm whose gradient on samples of its own is the direction that the others are held to."""
    task: str = "chain"
    """Task whose problems are drawn."""
    model: str = "embedded"
    """Model, a checkpoint's or a run's folder, as for `run`: its weights are the ones that all arms are measured at."""
    samples: int = 1024
    """Completions of each arm."""
    reference_samples: int = 2048
    """Completions of the reference."""
    batch: int = 64
    """Completions of one gradient; noise is what differs between such batches."""
    critic_samples: int = 512
    """Completions that an arm's critic is trained on beforehand, by as many passes as its critic.num_epochs."""
    set: tuple[str, ...] = ()
    """Settings of every arm, SETTING=VALUE, such as task.steps=16."""
    seed: int = 0
    """Seed of prompts and samples."""
    out: Path | None = None
    """Folder for the table and the figures behind it. None: they are printed only."""


def gradient_command(config: GradientConfig) -> int:
    """Measure, print, and write where wanted; returns the exit code.

    Raises:
        UserError: settings that cannot be measured, before anything is loaded or written.
    """
    check(config)
    if config.out is not None and config.out.exists():
        raise UserError(f"{config.out} exists: a table never overwrites another; use another --out")
    chosen = {name: chosen_of(config, text) for name, text in named(config.arms).items()}
    base = chosen.get(config.reference) or chosen_of(config, config.reference)
    print(f"reference {config.reference}: {config.reference_samples} samples", flush=True)
    held = measured(base, config, "reference")
    rows: list[dict[str, Any]] = []
    first: Measured | None = None
    for name, arm in chosen.items():
        found = measured(arm, config, "arm")
        first = first or found
        rows.append({"arm": name} | row_of(found, held, first))
        print(line(rows[-1]), flush=True)
    text = table(rows, config)
    print(text)
    if config.out is not None:
        config.out.mkdir(parents=True)
        (config.out / "gradient.md").write_text(text)
        write_json(config.out / "gradient.json", {"settings": plain(replace(config, out=None)), "rows": rows})
    return 0


def check(config: GradientConfig) -> None:
    """Refuse sizes from which nothing can be told.

    Raises:
        UserError: which.
    """
    for name in ("samples", "reference_samples"):
        batches, rest = divmod(getattr(config, name), config.batch)
        if rest or batches < 4:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} {getattr(config, name)}: give at least 4 whole batches of {config.batch}")
    if config.critic_samples % config.batch:
        raise UserError(f"--critic-samples {config.critic_samples}: give whole batches of {config.batch}")


def named(texts: tuple[str, ...]) -> Mapping[str, str]:
    """Arms by their names, in order.

    Raises:
        UserError: two of one name.
    """
    arms = {parse_arm(text).name: text for text in texts}
    if len(arms) < len(texts):
        raise UserError("--arms: two arms of one name; write NAME=ALGO for one of them")
    return arms


def chosen_of(config: GradientConfig, text: str) -> Chosen:
    """The arm's resolved settings."""
    arm = parse_arm(text)
    common = {"task_name": config.task, "model": config.model, "seed": config.seed, "samples_per_step": config.batch}
    common |= {"engine": {"train": "torch"}, "eval": {"limit": 0}, "quiet": True}
    return resolve(from_tree(merge(merge(common, parse_settings(config.set, "--set")), arm.tree), f"--arms {text}"))


def measured(chosen: Chosen, config: GradientConfig, purpose: str) -> Measured:
    """One arm, its critic trained before where it has one."""
    parts = Loaded(chosen).parts()
    if "values" in chosen.config.algo.needs and config.critic_samples:
        fit_critic(parts, config.critic_samples)
    samples = config.samples if purpose == "arm" else config.reference_samples
    return measure(parts, samples, PURPOSES[purpose])


def row_of(found: Measured, held: Measured, first: Measured) -> dict[str, Any]:
    """An arm's figures, each an estimate with its interval."""
    p = products(found.gradients, held.gradients)
    batches = AT / found.samples
    row: dict[str, Any] = {
        "noise": asdict(jackknifed(partial(noise_at, batches=batches), p, positive=True)),
        "cosine": asdict(jackknifed(cosine, p)),
        "at_samples": at(p, batches),
        "at_tokens": at(p, batches * first.tokens / found.tokens),
        "tokens": found.tokens,
        "flops": found.flops,
        "explained_variance": found.explained,
    }
    if found.flops and first.flops:
        row["at_flops"] = at(p, batches * first.flops / found.flops)
    return row


def noise_at(p: Products, batches: float) -> float | None:
    """Noise over signal of as many batches together."""
    ratio = noise_to_signal(p)
    return None if ratio is None else ratio / batches


def at(p: Products, batches: float) -> dict[str, Any]:
    """The expected cosine of an update of this size."""
    return asdict(jackknifed(partial(expected_cosine, batches=batches), p))


COLUMNS = {
    "noise": f"variance / squared norm, {AT} samples",
    "cosine": "cosine of the expectation",
    "at_samples": f"cosine of an update: {AT} samples",
    "at_tokens": "equal tokens",
    "at_flops": "equal FLOPs",
}


def cell(value: Mapping[str, Any] | None) -> str:
    """An estimate in a table."""
    found = Estimate(**value) if value else Estimate(value=None)
    if found.value is None:
        return "no signal"
    if found.low is None or found.high is None:
        return f"{found.value:.3g}"
    return f"{found.value:.3g} [{found.low:.3g}, {found.high:.3g}]"


def line(row: Mapping[str, Any]) -> str:
    """An arm while the others are still measured."""
    return f"{row['arm']:<24} noise {cell(row['noise'])}  cosine {cell(row['cosine'])}"


def table(rows: list[dict[str, Any]], config: GradientConfig) -> str:
    """The figures as Markdown."""
    head = ["arm", *COLUMNS.values(), "MFLOPs a sample", "critic explains"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    for row in rows:
        flops = "-" if row["flops"] is None else f"{row['flops'] / 1e6:,.0f}"
        explains = "-" if row["explained_variance"] is None else f"{row['explained_variance']:.2f}"
        cells = [row["arm"], *(cell(row.get(key)) for key in COLUMNS), flops, explains]
        lines.append(f"| {' | '.join(cells)} |")
    settings = " ".join(config.set)
    note = (
        f"{config.task} {settings}, {config.model}: {config.samples} samples an arm in batches of {config.batch}; the "
        f"direction is that of {config.reference} on {config.reference_samples} others. Brackets: 95% by the jackknife "
        f"over batches. Equal: as many as {AT} samples of {rows[0]['arm']} take, a critic's training beforehand "
        f"({config.critic_samples} samples) not counted."
    )
    return "\n".join([*lines, "", note, ""])
