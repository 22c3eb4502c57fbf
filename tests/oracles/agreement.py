"""The table method x oracle: `python -m tests.oracles.agreement` measures it anew and writes agreement.json."""

import importlib
import json
from pathlib import Path

from tests.oracles.draws import NUM_DRAWS

TOLERANCE = 1e-5
PATH = Path(__file__).with_name("agreement.json")
COMMON = ("ppo", "grpo", "dapo", "rloo", "gspo", "sampler correction")
ORACLES = {
    "verl": (*COMMON, "dr_grpo", "reinforce_pp", "reinforce_pp_baseline", "cispo"),
    "openrlhf": (
        *COMMON,
        "reinforce_pp",
        "reinforce_pp_baseline",
        "correction with a floor",
        "token filter",
        "filter by geometric mean",
    ),
    "trl": (*COMMON, "grpo, spread batch", "dr_grpo", "cispo"),
}
WITHOUT = {
    "vapo": "no peer has it; its parts are PPO's, DAPO's and a likelihood term, tried by hand numbers",
    "step_grpo": "ours; at one step a completion it is Dr. GRPO's advantage, at one token a step it is hand numbers",
    "sao": "no implementation is released; its lambda is VAPO's, its filter OpenRLHF's with the current policy, and "
    "both are tried by hand numbers",
    "raft": "no peer trains it in this form; its gradient is that of the log-likelihood of what is kept, tried as such",
}
"""Methods that are compared with no peer, and why."""


def largest_difference(oracle: str, method: str) -> float:
    """Over all draws, of everything that the two have in common."""
    cases = importlib.import_module(f"tests.oracles.against_{oracle}").CASES
    return max(cases[method](seed) for seed in range(NUM_DRAWS))


if __name__ == "__main__":
    table = {
        oracle: {method: largest_difference(oracle, method) for method in names} for oracle, names in ORACLES.items()
    }
    PATH.write_text(json.dumps(table, indent=1) + "\n")
