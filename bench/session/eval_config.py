"""Flags of `bench eval`, apart from what it needs to run: --help loads no more."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from bench.config import EMBEDDED, EngineConfig, EvalConfig


@dataclass(frozen=True, kw_only=True)
class EvalCommand:
    """Evaluate a model on held-out problems, by the sampling that runs are evaluated with."""

    model: str = EMBEDDED
    """Model: a run directory (its last checkpoint), a folder, a Hugging Face id, `embedded` or `smollm2-135m`."""
    task: tuple[str, ...] = ()
    """Tasks; several measure transfer. None given: the run's own task, else gsm8k."""
    split: Literal["validation", "test"] = "test"
    """Held-out split that is evaluated."""
    limit: int | None = None
    """Number of problems of the split, the first ones. None: all."""
    data: Path | None = None
    """File or folder in the official format, for a single task."""
    source: Literal["auto", "procedural", "path", "hub"] = "auto"
    """Where problems come from, as in `run`."""
    set: tuple[str, ...] = ()
    """Settings of a single task, SETTING=VALUE, such as dataset=humaneval."""
    max_new_tokens: int | None = None
    """Generation budget of a completion. None: the run's own, else what a run of this model would have."""
    num_samples: int = 4
    """Sampled completions a problem; 0 evaluates greedily only."""
    temperature: float = 1.0
    """Temperature of the sampled completions."""
    top_p: float = 1.0
    """Nucleus of the sampled completions: the probability that it reaches."""
    seed: int = EvalConfig.seed
    """Seed of the sampled completions."""
    engine: EngineConfig = field(default_factory=EngineConfig)
    out: Path = Path("results/evals")
    """Folder in which the evaluation's own folder is made."""
    quiet: bool = False
    """Print the closing line only."""
