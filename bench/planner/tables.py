"""Plans as tables: terms with their formulas, memory by role and phase, time by phase, algorithms by configuration."""

from collections.abc import Sequence

import pandas as pd

from bench.ground.words import GIB
from bench.planner.job import Job
from bench.planner.memory import PHASES, ROLES, Memory, memory_terms
from bench.planner.search import Plan, describe_setting, largest_micro_batch

NONE = "-"


def terms_table(job: Job) -> pd.DataFrame:
    """Every term that is held: role, where and when, GiB on a device and on the host, formula."""
    rows = [
        {
            "role": term.role,
            "devices": term.pool if job.setting.rollout_devices else "all",
            "phases": "all" if term.phases == PHASES else ", ".join(term.phases),
            "GiB a device": term.device_bytes / GIB,
            "GiB on a host": term.host_bytes / GIB,
            "formula": term.formula,
        }
        for term in memory_terms(job)
    ]
    return pd.DataFrame(rows)


def symbols_of_formulas(job: Job) -> str:
    """What the formulas' letters are for this job."""
    shape, s, w = job.shape, job.setting, job.workload
    trained = shape.lora_params(s.lora_rank) if s.lora_rank else shape.params
    values = {
        "P": shape.params,
        "C": shape.critic_params,
        "A": trained,
        "N": job.train_devices,
        "G": job.train_devices if s.zero_stage == 3 else 1,
        "T": job.micro_rows * w.sequence_tokens,
        "n": job.micro_rows * w.completion_tokens,
        "L": shape.layers,
        "h": shape.hidden,
        "I": shape.intermediate,
        "k": shape.kv_width,
        "V": shape.vocab,
        "b": job.batch,
        "S": w.sequence_tokens,
        "t": s.tensor_parallel,
    }
    return ", ".join(f"{name} = {value:,}" for name, value in values.items())


def memory_table(held: Memory, limit_gib: float) -> pd.DataFrame:
    """GiB on one device, a row a role, a column a phase, with the sum and the limit."""
    columns: dict[str, dict[str, float]] = {}
    for (pool, phase), roles in held.phases.items():
        # devices that only generate hold the same in every phase: one column says it
        if pool == "rollout" and phase != "rollout":
            continue
        label = f"{phase} (rollout devices)" if pool == "rollout" else phase
        sizes = {role: roles[role] / GIB for role in ROLES if role in roles}
        columns[label] = sizes | {"sum": sum(sizes.values()), "limit": limit_gib}
    order = [*ROLES, "sum", "limit"]
    table = pd.DataFrame(columns)
    return table.reindex([name for name in order if name in table.index])


def time_table(plan: Plan) -> pd.DataFrame:
    """Seconds and share of each phase of a step; empty where no time is predicted."""
    if plan.seconds is None or plan.step_s is None:
        return pd.DataFrame(columns=["phase", "seconds", "share"])
    rows = [{"phase": k, "seconds": v, "share": f"{v / plan.step_s:.0%}"} for k, v in plan.seconds.items()]
    return pd.DataFrame([*rows, {"phase": "step", "seconds": plan.step_s, "share": "100%"}])


def comparison_row(job: Job, plan: Plan | None, samples: float, price: float | None) -> dict[str, object]:
    """One algorithm on one configuration; what is not known is None."""
    row: dict[str, object] = {
        "algorithm": job.method.name,
        "configuration": job.preset.name,
        "models held": job.method.models(reward_model=job.reward_shape is not None),
        "fits": "yes" if plan else "no",
    }
    if plan is None:
        return row
    hours = plan.gpu_hours(samples)
    return row | {
        "GiB a device": round(plan.memory.peak_bytes / GIB, 1),
        "limit GiB": job.preset.device.memory_gib,
        "fullest phase": plan.memory.worst[1],
        "largest micro-batch, rows": largest_micro_batch(plan.job),
        "step s": plan.step_s,
        "bottleneck": max(plan.seconds, key=plan.seconds.__getitem__) if plan.seconds else None,
        "tokens/s": plan.generated_tokens_per_s,
        "GPU-hours": hours,
        "cost": hours * price if hours is not None and price is not None else None,
        "setting": describe_setting(plan.job.setting),
    }


def comparison_table(rows: Sequence[dict[str, object]]) -> pd.DataFrame:
    """Algorithms by configuration, without the columns that no row has a figure for."""
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def number_text(value: object) -> str:
    """For people: three figures, `-` where there is none."""
    if value is None or value != value:
        return NONE
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def markdown_table(table: pd.DataFrame, *, index: bool = False) -> str:
    """A GitHub table."""
    return table.map(number_text).to_markdown(index=index, disable_numparse=True)
