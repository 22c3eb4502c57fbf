"""Interchangeable learning algorithms. Adding one: write one file, add one line here."""

from algorithms.cispo import CISPO
from algorithms.core import Algorithm
from algorithms.dapo import DAPO
from algorithms.dr_grpo import DrGRPO
from algorithms.grpo import GRPO
from algorithms.gspo import GSPO
from algorithms.ppo import PPO
from algorithms.raft import RAFT
from algorithms.reinforce_pp import ReinforcePP, ReinforcePPBaseline
from algorithms.rloo import RLOO
from algorithms.sao import SAO
from algorithms.step_grpo import StepGRPO
from algorithms.vapo import VAPO

ALGORITHMS: dict[str, type[Algorithm]] = {
    "ppo": PPO,
    "grpo": GRPO,
    "dr_grpo": DrGRPO,
    "dapo": DAPO,
    "rloo": RLOO,
    "reinforce_pp": ReinforcePP,
    "reinforce_pp_baseline": ReinforcePPBaseline,
    "gspo": GSPO,
    "cispo": CISPO,
    "vapo": VAPO,
    "step_grpo": StepGRPO,
    "sao": SAO,
    "raft": RAFT,
}
