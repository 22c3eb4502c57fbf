"""What the engines can do together: a run and a plan refuse the same settings, in the same words."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Which engines work, on how many devices, and what of a model lies where."""

    train: str
    rollout: str
    zero: int
    offload: frozenset[str]
    train_devices: int
    tensor_parallel: int
    adapters: bool
    on_cpu: bool

    def contradictions(self) -> list[str]:
        """Why this cannot be, by a run's flags; empty where it can."""
        torch = self.train == "torch"
        shared = self.zero or self.offload & {"optimizer", "params"}
        waits = "reference" in self.offload
        rules = [
            (
                self.tensor_parallel > 1 and self.rollout != "vllm",
                f"--engine.tensor-parallel {self.tensor_parallel} needs --rollout vllm",
            ),
            (
                torch and self.train_devices > 1,
                f"--engine torch is one process, and here are {self.train_devices}: use --engine deepspeed",
            ),
            (torch and shared, "--zero and --offload optimizer,params need --engine deepspeed"),
            ("optimizer" in self.offload and not self.zero, "--offload optimizer needs --zero 1, 2 or 3"),
            ("params" in self.offload and self.zero != 3, "--offload params needs --zero 3"),
            (
                waits and self.on_cpu,
                "--offload reference needs a GPU: on a CPU the reference is in the host's memory already",
            ),
            (
                waits and self.adapters,
                "--offload reference: with adapters the reference is the policy's own base; leave it out",
            ),
        ]
        return [message for wrong, message in rules if wrong]
