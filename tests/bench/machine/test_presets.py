"""Hardware by name: what is accepted, what is refused and how, and what this machine is taken for."""

from pathlib import Path

import pytest

from bench.ground.errors import UserError
from bench.machine import presets
from bench.machine.presets import devices, load_preset, parse_gpus, preset_for_run, preset_names

NAMED = {"cpu", "1xH200", "1xA100-80GB", "4xA100-80GB", "8xH100-80GB", "2x8xH100", "16x8xH100"}


@pytest.fixture(autouse=True)
def fresh() -> None:
    load_preset.cache_clear()


def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *names: str) -> None:
    """Put an nvidia-smi that lists these GPUs on the path."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n" + "\n".join(f"echo '{name}, 24564'" for name in names) + "\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + ":/usr/bin:/bin")


def test_every_preset_loads() -> None:
    assert set(preset_names()) == NAMED
    for name in preset_names():
        preset = load_preset(name)
        assert preset.num_devices == preset.nodes * preset.devices_per_node
        assert preset.rollout_devices < preset.num_devices
        assert preset.description
    assert load_preset("4xA100-80GB").zero_stage == 3
    assert load_preset("16x8xH100").num_devices == 128


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(UserError, match="unknown preset '4xA100': did you mean 4xA100-80GB"):
        load_preset("4xA100")


def test_gpus_with_a_preset_of_their_own_take_its_settings() -> None:
    assert parse_gpus("4xA100-80GB") == load_preset("4xA100-80GB")
    assert parse_gpus("2x8xH100").network_gb_per_s == 50


def test_nodes_times_devices() -> None:
    preset = parse_gpus("3x4xA100-40GB")
    assert (preset.nodes, preset.devices_per_node, preset.device) == (3, 4, devices()["A100-40GB"])
    assert preset.network_gb_per_s


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("0xA100", "at least one device"),
        ("4x", "expected COUNTxDEVICE"),
        ("A100", "expected COUNTxDEVICE"),
        ("-1xA100", "expected COUNTxDEVICE"),
        ("4xA100-81GB", "unknown device 'A100-81GB', which takes --memory-gb; did you mean A100-80GB\\?"),
    ],
)
def test_impossible_gpus_are_refused_in_one_line(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        parse_gpus(spec)
    assert "\n" not in str(caught.value)


def test_an_unknown_device_with_its_memory_has_no_rates() -> None:
    device = parse_gpus("8xMI300X", memory_gb=192).device
    assert device.memory_gib == pytest.approx(192e9 / 2**30)
    assert device.peak_tflops is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "cpu"),
        (["NVIDIA H200"], "1xH200"),
        (["NVIDIA A100-SXM4-80GB"] * 3, "1xA100-80GB"),
        (["NVIDIA A100-SXM4-80GB"] * 4, "4xA100-80GB"),
        (["NVIDIA H100 80GB HBM3"] * 8, "8xH100-80GB"),
    ],
)
def test_auto_takes_the_largest_preset_that_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, names: list[str], expected: str
) -> None:
    gpus(monkeypatch, tmp_path, *names)
    assert load_preset("auto").name == expected


def test_unknown_gpus_are_what_their_driver_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpus(monkeypatch, tmp_path, "NVIDIA GeForce RTX 4090")
    found = load_preset("auto")
    assert found.name == "1xNVIDIA GeForce RTX 4090"
    assert found.device.memory_gib == pytest.approx(24564 / 1024)
    assert found.device.peak_tflops is None


def test_a_run_takes_what_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpus(monkeypatch, tmp_path, *["NVIDIA A100-SXM4-80GB"] * 4)
    assert preset_for_run("auto", cpu=False).name == "1xA100-80GB"
    assert preset_for_run("1xA100-80GB", cpu=False).name == "1xA100-80GB"
    assert preset_for_run("auto", cpu=True).name == preset_for_run("cpu", cpu=False).name == "cpu"


@pytest.mark.parametrize(
    ("name", "cpu", "message"),
    [
        ("1xH200", False, "needs 1 x H200, and here is NVIDIA A100-SXM4-80GB: use --preset auto"),
        ("1xA100-80GB", True, "here is NVIDIA A100-SXM4-80GB, which torch does not see"),
        (
            "4xA100-80GB",
            False,
            "has 4 devices and the run 1 processes: start it by torchrun --nproc_per_node 4",
        ),
        ("1xH100", False, "unknown preset '1xH100'"),
    ],
)
def test_a_run_refuses_hardware_that_is_absent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, cpu: bool, message: str
) -> None:
    gpus(monkeypatch, tmp_path, "NVIDIA A100-SXM4-80GB")
    with pytest.raises(UserError, match=message) as caught:
        preset_for_run(name, cpu=cpu)
    assert "\n" not in str(caught.value)


def test_without_a_gpu_a_run_is_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "installed_gpus", list)
    assert preset_for_run("auto", cpu=False).name == "cpu"
    with pytest.raises(UserError, match="here is no GPU"):
        preset_for_run("1xH200", cpu=True)


def test_a_run_of_several_processes_takes_a_preset_of_as_many_devices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpus(monkeypatch, tmp_path, *["NVIDIA A100-SXM4-80GB"] * 4)
    assert preset_for_run("auto", cpu=False, processes=4) == preset_for_run("4xA100-80GB", cpu=False, processes=4)
    two = preset_for_run("auto", cpu=False, processes=2)
    assert (two.name, two.num_devices, two.train_engine, two.zero_stage) == ("2xA100-80GB", 2, "deepspeed", 3)
    assert preset_for_run("auto", cpu=True, processes=2).name == "cpu"
    with pytest.raises(UserError, match="has 1 devices and the run 2 processes: start it by python -m bench run"):
        preset_for_run("1xA100-80GB", cpu=False, processes=2)
    with pytest.raises(UserError, match="torchrun --nnodes 2 --nproc_per_node 8"):
        preset_for_run("2x8xH100", cpu=False, processes=8)
    with pytest.raises(UserError, match="keeps devices for generation alone"):
        preset_for_run("16x8xH100", cpu=False, processes=128)
    gpus(monkeypatch, tmp_path, *["NVIDIA GeForce RTX 4090"] * 2)
    unknown = preset_for_run("auto", cpu=False, processes=2)
    assert (unknown.name, unknown.num_devices, unknown.zero_stage) == ("2xNVIDIA GeForce RTX 4090", 2, 3)
