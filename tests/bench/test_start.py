"""What `python -m bench` settles before torch loads: how threads wait, and that torch loads only where it is used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.ground.start import PASSIVE, WAITING, Later, loading_later
from bench.machine.doctor import DoctorConfig, examine_machine
from tests.bench.factory import make_run

LOADED = """
import contextlib, io, sys
from bench.cli import main
with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print(len(out.getvalue()) > 100, [name for name in ("torch", "transformers") if name in sys.modules])
"""
# many small products with a pause between them, in which the second thread has nothing to do
SMALL_PRODUCTS = """
import sys, time
from bench.cli import main
main(["list"])
import torch
torch.set_num_threads(2)
x = torch.randn(400_000)
before = time.process_time(), time.thread_time()
for _ in range(100):
    torch.add(x, 1)
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass
print(time.process_time() - before[0], time.thread_time() - before[1])
"""


def python(script: str, *arguments: str, **environment: str) -> str:
    """The last line that the script prints in a process whose user has said nothing of how threads wait."""
    silent = {name: value for name, value in os.environ.items() if name not in WAITING}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**silent, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "command", ["--help", "list", *(f"{name} --help" for name in ("run", "compare", "eval", "report", "check", "plan"))]
)
def test_what_only_prints_loads_no_torch(command: str) -> None:
    assert python(LOADED, *command.split()) == "True []"


def test_a_report_and_a_plan_load_no_torch(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "grpo", 0)
    assert python(LOADED, "report", str(tmp_path / "runs"), "--out", str(tmp_path / "report")) == "True []"
    assert python(LOADED, "plan") == "True []"


def test_a_later_module_is_seen_by_no_other_and_loads_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with loading_later("colorsys"):
        import colorsys as later
    assert isinstance(later, Later)
    assert "colorsys" not in sys.modules
    assert later.rgb_to_hsv(1.0, 0.0, 0.0) == (0.0, 1.0, 1.0)
    assert "colorsys" in sys.modules
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = later.nothing_such


def test_a_thread_that_waits_costs_no_cpu_seconds() -> None:
    whole, ours = map(float, python(SMALL_PRODUCTS).split())
    assert whole - ours < 0.5 * ours, "the second thread does half of the sums, and nothing while the first pauses"


def test_what_the_user_says_of_waiting_threads_stays() -> None:
    show = "import os; from bench.cli import main; main(['--help']); print(*map(os.environ.get, {names}))"
    script = show.format(names=WAITING)
    assert python(script) == " ".join([*PASSIVE.values(), "None"])
    assert python(script, OMP_WAIT_POLICY="active") == "active None None"
    assert python(script, GOMP_SPINCOUNT="5") == "None None 5"


def test_doctor_says_how_threads_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WAITING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    threads = next(check for check in examine_machine(DoctorConfig()) if check.name == "threads")
    assert threads.status == "optional"
    assert threads.needs is not None
    assert "OMP_WAIT_POLICY" in threads.needs
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    threads = next(check for check in examine_machine(DoctorConfig()) if check.name == "threads")
    assert threads.status == "ok"
    assert "sleep" in threads.found
