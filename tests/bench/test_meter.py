"""Bytes by role are counted, peaks are a phase's own, time goes to the phase that spent it."""

import mmap
import time

import torch

from bench.ground.words import GIB
from bench.meter import Meter, storage_bytes
from bench.work import measured_peak
from tests.bench.support import engine, ragged, tiny_llama


def test_tied_weights_and_views_count_once() -> None:
    x = torch.zeros(10)
    assert storage_bytes([x, x[:5], x.view(2, 5)]) == 40
    tied, untied = (storage_bytes(tiny_llama(tied=t).parameters()) for t in (True, False))
    assert untied - tied == 40 * 16 * 4  # the output layer of vocabulary x hidden in float32


def test_role_bytes_equal_a_count_by_hand() -> None:
    """A layer: q 16x16, k and v 16x8, o 16x16, three 16x24, two norms of 16; then the final norm and the embedding."""
    model = tiny_llama()
    backbone = 40 * 16 + 2 * (16 * 16 + 2 * 16 * 8 + 16 * 16 + 3 * 16 * 24 + 2 * 16) + 16
    rotary = 2 * 2 * 4  # inverse frequencies of head width 4, kept twice, in float32
    trainer = engine(model, needs=["values", "ref_logprobs"])
    padded = ragged().pad(torch.arange(6))
    trainer.forward(padded, entropy_grad=False).logprobs.sum().backward()
    trainer.step("policy", 1e-3)
    trainer.values(padded).sum().backward()
    trainer.step("critic", 1e-3)
    held = trainer.memory()
    assert held["policy"] == held["reference"] == 4 * backbone + rotary
    assert held["critic"] == 4 * (backbone + 16 + 1) + rotary
    assert held["gradients"] == 4 * (backbone + 16 + 1)
    steps = sum(len(list(m.parameters())) for m in trainer.modules.values()) * 4  # AdamW counts steps in a float each
    assert held["optimizer"] == 2 * 4 * (backbone + backbone + 16 + 1) + steps
    assert held["activations"] > 0


def test_a_small_phase_does_not_inherit_a_large_ones_peak() -> None:
    """Memory straight from the kernel: an allocator may reuse what earlier tests gave back to it."""
    meter = Meter(torch.device("cpu"))
    with meter.phase("rollout"), mmap.mmap(-1, 64 * 2**20) as big:
        big.write(b"1" * len(big))
    with meter.phase("update"):
        pass
    peaks = meter.take()
    if "memory/peak_gib/rollout" in peaks:  # absent where the kernel lets nobody reset the peak
        assert peaks["memory/peak_gib/rollout"] - peaks["memory/peak_gib/update"] > 0.9 * 64 * 2**20 / GIB
    assert meter.take() == {}


def test_time_goes_to_its_phase() -> None:
    meter = Meter(torch.device("cpu"))
    with meter.phase("score"):
        time.sleep(0.02)
    with meter.phase("score"):
        time.sleep(0.02)
    assert meter.take()["time/score_s"] >= 0.04


def test_the_peak_rate_is_a_rate() -> None:
    assert measured_peak(torch.device("cpu"), "float32", size=64, repeats=2) > 1e6
