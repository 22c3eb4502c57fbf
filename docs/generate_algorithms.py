"""Writes docs/algorithms.md from the code: `python -m docs.generate_algorithms`. A test keeps the two together."""

import ast
import inspect
import json
import sys
import textwrap
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

from algorithms import ALGORITHMS, ops
from algorithms.core import Algorithm
from algorithms.policy_gradient import ClippedPolicyGradient, PolicyGradient
from tests.faults.listed import RESULTS, load
from tests.invariants.table import LISTED, PROPERTIES
from tests.oracles.agreement import WITHOUT

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
PEERS = {"trl": "TRL 1.12.0", "verl": "verl 0.9.1", "openrlhf": "OpenRLHF 0.11.2"}
FORMULAS = (
    ops.loss_weights,
    ops.clipped_surrogate,
    ops.is_clipped,
    ops.dual_clip,
    ops.importance_ratio,
    ops.kl,
    ops.gae,
    ops.whiten,
    ops.spread,
    ops.value_loss,
    ops.correction_weight,
    ops.overlong_penalty,
)
MODELS = {"ref_logprobs": "reference", "values": "critic and its optimizer"}

INTRO = """\
# Algorithms

*Generated from the code by `python -m docs.generate_algorithms`; edit the docstrings, not this page.*

Axes: B completions in a batch, T generated tokens, |o_i| the counted tokens of completion i, L the generation budget,
G the completions of one prompt. `ratio = pi / pi_old`, where `pi_old` is the trainer's policy before the update, never
the sampler's. Every method returns a loss for each token; the trainer alone reduces it. The name of a method means
exactly what stands here; tables print the variant, and `formula_version` rises when a formula changes.
"""


def main() -> None:
    """Write the page."""
    (HERE / "algorithms.md").write_text(page())


def page() -> str:
    """The whole page."""
    sections = [INTRO, overview(), *(method(name) for name in ALGORITHMS), shared_fields(), formulas(), properties()]
    return "\n".join([*sections, agreement(), differences(), faults()])


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def overview() -> str:
    rows = [
        [
            f"[`{name}`](#{name})",
            str(algorithm.group_size),
            f"{algorithm.num_epochs} x {algorithm.num_minibatches}",
            algorithm.aggregation,
            kl_of(algorithm),
            ", ".join(["policy and its optimizer", *(MODELS[n] for n in sorted(algorithm.needs) if n in MODELS)]),
            str(algorithm.formula_version),
        ]
        for name, algorithm in ((name, cls()) for name, cls in ALGORITHMS.items())
    ]
    head = ["method", "G", "updates a batch (epochs x minibatches)", "aggregation", "KL", "models in memory", "version"]
    return "## At their defaults\n\n" + table(head, rows)


def kl_of(algorithm: Algorithm) -> str:
    if not isinstance(algorithm, PolicyGradient):
        return "-"
    kind = f"{algorithm.kl_estimator} in the {algorithm.kl_place}"
    return f"{algorithm.kl_coef:g}, {kind}" if algorithm.kl_coef else f"0 ({kind} when set)"


def method(name: str) -> str:
    cls = ALGORITHMS[name]
    text = inspect.getdoc(sys.modules[cls.__module__]) or ""
    shared = {f.name: f.default for f in fields(shared_base(cls))}
    known = field_docs(cls)
    rows = [
        [f"`{f.name}`", f"`{f.default}`", known[f.name]]
        for f in fields(cls)
        if f.name not in shared or f.default != shared[f.name]
    ]
    return f"## {name}\n\n{inspect.getdoc(cls)}\n\n{text}\n\n" + table(["field", "default", "meaning"], rows)


def shared_base(cls: type[Algorithm]) -> type[Algorithm]:
    return next(base for base in (ClippedPolicyGradient, PolicyGradient, Algorithm) if issubclass(cls, base))


def shared_fields() -> str:
    known = field_docs(ClippedPolicyGradient)
    rows = [[f"`{f.name}`", f"`{f.default}`", known[f.name]] for f in fields(ClippedPolicyGradient)]
    note = "Of every method unless its own table says otherwise; where nothing is clipped, the clip's are absent.\n\n"
    return "## Shared fields\n\n" + note + table(["field", "default", "meaning"], rows)


def field_docs(cls: type) -> dict[str, str]:
    """The string under each field, the nearest class's first."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body  # type: ignore[attr-defined]
        for node, following in pairwise(body):
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(following, ast.Expr)
                and isinstance(node.target, ast.Name)
            ):
                found[node.target.id] = " ".join(str(ast.literal_eval(following.value)).split())
    return found


def formulas() -> str:
    parts = [f"### {f.__name__}\n\n```\n{inspect.getdoc(f)}\n```\n" for f in FORMULAS]
    return "## Shared formulas\n\n" + "\n".join(parts)


def properties() -> str:
    names = [name for name in ALGORITHMS if name in LISTED]
    rows = [[text, *("yes" if n in holds else "" for n in names)] for text, holds in PROPERTIES.values()]
    note = (
        "Proved by `tests/invariants`, at the defaults with KL and likelihood terms off. For every method besides:\n"
        "micro-batch size, accumulation, row order, group labels, padding and a two-process split change nothing;\n"
        "tokens that do not count have no gradient; the first gradient is REINFORCE's; finite differences agree with\n"
        "autograd.\n\n"
    )
    return "## Which property holds for which method\n\n" + note + table(["property", *(f"`{n}`" for n in names)], rows)


def agreement() -> str:
    measured = json.loads((TESTS / "oracles" / "agreement.json").read_text())
    methods = dict.fromkeys(m for names in measured.values() for m in names)
    number = lambda peer, m: f"{measured[peer][m]:.0e}" if m in measured[peer] else "-"
    rows = [[m, *(number(peer, m) for peer in PEERS)] for m in methods]
    note = (
        "Largest difference of advantages, losses and gradients over 200 random batches from the peers' own code, its\n"
        "constants (eps, dual clip) set to theirs: `make oracles`. A dash: the peer has no such method. Of `rloo` the\n"
        "advantages are compared; no peer has the unclipped token ratio.\n\n"
    )
    without = table(["without a peer", "why"], [[f"`{name}`", why] for name, why in WITHOUT.items()])
    return (
        "## Agreement with other implementations\n\n" + note + table(["method", *PEERS.values()], rows) + "\n" + without
    )


def differences() -> str:
    """From the tests that prove them: a docstring is `peer: statement`."""
    tree = ast.parse((TESTS / "oracles" / "test_differences.py").read_text())
    docs = [ast.get_docstring(n) for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]
    rows = [list(doc.split(": ", 1)) for doc in docs if doc]
    note = "Each row is a test in `tests/oracles/test_differences.py`.\n\n"
    return "## The same name, another meaning\n\n" + note + table(["project", "difference"], rows)


def faults() -> str:
    results = json.loads(RESULTS.read_text())
    survivors = [f for f in load() if f.name in results and not results[f.name]]
    text = (
        f"{sum(results.values())} of {len(results)} planted faults turn the tests red: `python -m tests.faults.run`\n"
        "plants each of `tests/faults/faults.toml` in a copy of the tree. Those that do not:\n\n"
    )
    return (
        "## Planted faults\n\n"
        + text
        + table(["fault", "why no test can notice"], [[f.name, f.survives] for f in survivors])
    )


if __name__ == "__main__":
    main()
