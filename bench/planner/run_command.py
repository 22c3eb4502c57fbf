"""A plan as the command that runs it."""

import shlex

from bench.planner.config import PlanConfig
from bench.planner.job import Job
from bench.planner.search import Plan, cheapest_plan, describe_setting
from bench.planner.sizes import name_for_run


def to_run(best: Plan, config: PlanConfig, pinned: frozenset[str]) -> list[str]:
    """Lines that end in the command for the plan, or for the cheapest one that a run can do where it cannot do this."""
    beyond = best.job.setting.beyond_a_run(best.job.train_devices)
    if not beyond:
        return [run_command(best.job, config)]
    line = f"no run does this yet: {', '.join(beyond)}"
    within = cheapest_plan(best.job, pinned, runnable=True)
    if within is None:
        return [line]
    line += f". The cheapest that one does: {describe_setting(within.job.setting)}"
    return [line, run_command(within.job, config)]


def run_command(job: Job, config: PlanConfig) -> str:
    """What a user would type to train as planned."""
    return " ".join(
        [launcher(job), "-m bench run", *(shlex.join(flag.split(" ", 1)) for flag in flags_of_job(job, config))]
    )


def launcher(job: Job) -> str:
    """What starts one process on each device."""
    nodes, each = job.preset.nodes, job.preset.devices_per_node
    if nodes > 1:
        return f"torchrun --nnodes {nodes} --nproc_per_node {each} --rdzv_backend c10d --rdzv_endpoint HOST:29500"
    return f"torchrun --nproc_per_node {each}" if job.train_devices > 1 else "python"


def flags_of_job(job: Job, config: PlanConfig) -> list[str]:
    """Everything that the prediction depends on and a run can be told."""
    work = job.workload
    found = [
        f"--algo {job.method.name}",
        f"--model {name_for_run(job.model)}",
        f"--samples-per-step {work.samples_per_step}",
        f"--max-prompt-tokens {work.prompt_tokens}",
        f"--sampling.max-new-tokens {work.completion_tokens}",
        f"--budget {config.budget}",
    ]
    if config.algo.group_size is not None:
        found.append(f"--algo.group-size {job.method.group_size}")
    if config.algo.kl_coef is not None:
        found.append(f"--algo.kl-coef {config.algo.kl_coef}")
    if job.reward_shape is not None:
        found.append(f"--reward-model {name_for_run(config.reward_model.path or job.model)}")
    return found + job.setting.run_flags()
