"""vLLM as a rollout engine: equal to transformers, in step with the trainer, and mortal."""

import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from scipy import stats  # type: ignore[import-untyped]
from torch import Tensor, nn
from transformers import CodeGenConfig, CodeGenForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from bench.batch import Sequences
from bench.cli import main
from bench.config import ASSETS, EngineConfig, Sampling
from bench.engines.decoding import keep_mass
from bench.engines.hf import HFRollout
from bench.engines.vllm import VLLMRollout
from bench.ground.errors import UserError
from bench.models.load import load_model, load_tokenizer, named_weights
from bench.rollout import Completion, EngineError, derive_seed
from tasks import TASKS
from tests.bench.small_runs import SMALL, rows, run, weights
from tests.bench.support import engine as trainer_of

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None, reason="vLLM is not installed: make vllm installs it apart"
)

EMBEDDED = ASSETS / "gsm8k"
TOKENIZER = load_tokenizer(str(EMBEDDED))
ENGINE = EngineConfig(device="cpu", dtype="float32", rollout_batch_size=64, rollout_memory=0.05)
SAMPLING = Sampling(max_new_tokens=24)
END = 3
Pair = tuple[PreTrainedModel, VLLMRollout]


def sampler(model: PreTrainedModel, location: Path, longest: int = 160) -> VLLMRollout:
    return VLLMRollout(model, TOKENIZER, ENGINE, location=str(location), longest=longest)


def made(folder: Path, *, tied: bool) -> PreTrainedModel:
    """A small model of random weights, far from uniform, saved where vLLM can read it; it has two end tokens."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(TOKENIZER),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=[END, 9],
        pad_token_id=0,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return model


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("model")
    model = made(folder, tied=request.param)
    engine = sampler(model, folder)
    yield model, engine
    engine.remote.close()


def seeds(prompts: int, samples: int) -> list[list[int]]:
    return [[derive_seed(p, i) for i in range(samples)] for p in range(prompts)]


PROMPTS = [[7, 8, 9], [5], [11, 12, 13, 14, 15, 16]]


def errors(
    model: PreTrainedModel, prompts: Sequence[list[int]], groups: Sequence[Sequence[Completion]], temperature: float
) -> Tensor:
    """|sampler's log-prob - trainer's| of each token."""
    flat = [(prompt, c) for prompt, group in zip(prompts, groups, strict=True) for c in group]
    tokens = Sequences(
        rows=[torch.tensor(prompt + c.token_ids) for prompt, c in flat],
        prompt_lengths=torch.tensor([len(prompt) for prompt, _ in flat]),
        lengths=torch.tensor([len(c.token_ids) for _, c in flat]),
    )
    ours = trainer_of(model, temperature=temperature).logprobs(tokens.pad(torch.arange(len(flat))))
    theirs = torch.cat([torch.tensor(c.logprobs) for _, c in flat])
    return (ours[tokens.mask] - theirs).abs()


def nudge(model: nn.Module, generator: torch.Generator) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)


def test_twenty_syncs_keep_it_in_step_and_a_skipped_one_shows(pair: Pair) -> None:
    model, engine = pair
    draw = torch.Generator().manual_seed(1)
    engine.load_weights(named_weights(model))
    before = errors(model, PROMPTS, engine.generate(PROMPTS, seeds(3, 8), SAMPLING), 1.0)
    for _ in range(20):
        nudge(model, draw)
        engine.load_weights(named_weights(model))
    after = errors(model, PROMPTS, engine.generate(PROMPTS, seeds(3, 8), SAMPLING), 1.0)
    nudge(model, draw)
    stale = errors(model, PROMPTS, engine.generate(PROMPTS, seeds(3, 8), SAMPLING), 1.0)
    print(f"log-prob difference: before {before.max():.1e}, after 20 syncs {after.max():.1e}, stale {stale.mean():.1e}")
    assert before.max() < 1e-4
    assert after.max() < 1e-4
    assert stale.mean() > 1e-2
    engine.load_weights(named_weights(model))


def test_the_prefix_cache_is_void_after_a_sync(pair: Pair) -> None:
    """The prompt fills whole blocks of the cache, so that keys of old weights would be found again."""
    model, engine = pair
    long = [[20 + i % 100 for i in range(130)]]
    engine.generate(long, seeds(1, 2), SAMPLING)
    nudge(model, torch.Generator().manual_seed(2))
    engine.load_weights(named_weights(model))
    assert errors(model, long, engine.generate(long, seeds(1, 2), SAMPLING), 1.0).max() < 1e-4


def test_a_sample_depends_on_its_own_seed_only(pair: Pair) -> None:
    _, engine = pair
    together = engine.generate(PROMPTS, seeds(3, 8), SAMPLING)
    again = engine.generate(PROMPTS, seeds(3, 8), SAMPLING)
    assert together == again
    assert len({tuple(c.token_ids) for c in together[0]}) >= 7
    alone = engine.generate([PROMPTS[1]], [seeds(3, 8)[1][5:6]], SAMPLING)[0][0]
    assert alone.token_ids == together[1][5].token_ids
    assert alone.logprobs == pytest.approx(together[1][5].logprobs, abs=1e-4)


def test_every_end_token_ends_a_completion_and_stays_out_of_the_text(pair: Pair) -> None:
    _, engine = pair
    flat = [c for group in engine.generate(PROMPTS, seeds(3, 60), Sampling(max_new_tokens=40)) for c in group]
    ends = {c.token_ids[-1] for c in flat if c.finish_reason == "stop"}
    assert ends == {END, 9}
    for c in flat:
        assert len(c.token_ids) == len(c.logprobs) == len(c.sampling_logprobs)
        assert not {END, 9} & set(c.token_ids[:-1])
        kept = c.token_ids[:-1] if c.finish_reason == "stop" else c.token_ids
        assert c.text == TOKENIZER.decode(kept)
        assert c.finish_reason == "stop" or len(c.token_ids) == 40


@pytest.mark.parametrize("cut", [{}, {"top_p": 0.8}, {"top_k": 5}, {"top_p": 0.7, "top_k": 20}])
def test_logprobs_are_tempered_over_the_full_vocabulary_and_what_was_cut_stands_beside(
    pair: Pair, cut: dict[str, float]
) -> None:
    model, engine = pair
    sampling = replace(SAMPLING, temperature=0.7, **cut)  # type: ignore[arg-type]
    groups = engine.generate(PROMPTS, seeds(3, 4), sampling)
    assert errors(model, PROMPTS, groups, 0.7).max() < 1e-4
    for prompt, group in zip(PROMPTS, groups, strict=True):
        for c in group:
            ids = torch.tensor([prompt + c.token_ids])
            with torch.no_grad():
                logits = model(ids).logits[0, len(prompt) - 1 : -1]  # type: ignore[operator]
            kept = keep_mass((logits / 0.7).log_softmax(-1), sampling).log_softmax(-1)
            drawn = kept[torch.arange(len(c.token_ids)), torch.tensor(c.token_ids)]
            assert (drawn - torch.tensor(c.sampling_logprobs)).abs().max() < 1e-4


def test_samples_follow_the_tempered_distribution(pair: Pair) -> None:
    """Chi-square of 4,000 first tokens, the rare ones pooled, below the 0.999 quantile."""
    model, engine = pair
    prompt, count = PROMPTS[2], 4000
    one = Sampling(max_new_tokens=1, temperature=0.8)
    (group,) = engine.generate([prompt], seeds(1, count), one)
    with torch.no_grad():
        expected = count * (model(torch.tensor([prompt])).logits[0, -1] / 0.8).softmax(-1)  # type: ignore[operator]
    observed = torch.bincount(torch.tensor([c.token_ids[0] for c in group]), minlength=len(expected)).float()
    common = expected >= 8
    e = torch.cat([expected[common], expected[~common].sum()[None]])
    o = torch.cat([observed[common], observed[~common].sum()[None]])
    assert float(((o - e) ** 2 / e).sum()) < stats.chi2.ppf(0.999, len(e) - 1)


def test_greedy_completions_equal_the_other_engine_s() -> None:
    model = load_model(str(EMBEDDED))
    hf, engine = HFRollout(model, TOKENIZER, ENGINE), sampler(model, EMBEDDED)
    prompts = [hf.encode(problem.prompt) for problem in TASKS["gsm8k"]().problems("test")[:100]]
    assert prompts[0] == engine.encode(TASKS["gsm8k"]().problems("test")[0].prompt)
    greedy, ones = Sampling(max_new_tokens=64, temperature=0.0), [[0]] * len(prompts)
    ours, theirs = hf.generate(prompts, ones, greedy), engine.generate(prompts, ones, greedy)
    for (a,), (b,) in zip(ours, theirs, strict=True):
        assert (a.token_ids, a.text, a.finish_reason) == (b.token_ids, b.text, b.finish_reason)
        assert b.logprobs == pytest.approx(a.logprobs, abs=1e-4)
        assert set(b.sampling_logprobs) == {0.0}
    assert engine.cache_bytes > 0
    assert engine.weights_bytes >= sum(p.nbytes for p in model.parameters())
    pid = engine.remote.process.pid
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(EngineError, match="the vllm process was killed by SIGKILL"):
        [engine.generate(prompts, seeds(len(prompts), 8), Sampling(max_new_tokens=64)) for _ in itertools.count()]


def test_a_model_it_cannot_load_is_one_line(tmp_path: Path) -> None:
    config = CodeGenConfig(
        vocab_size=len(TOKENIZER), n_positions=64, n_embd=32, n_layer=1, n_head=2, rotary_dim=4, eos_token_id=END
    )
    model = CodeGenForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"--rollout vllm cannot start: .*CodeGenForCausalLM") as caught:
        sampler(model, tmp_path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_device_split_needs_gpus() -> None:
    with pytest.raises(UserError, match="tensor-parallel"):
        VLLMRollout(
            load_model(str(EMBEDDED)),
            TOKENIZER,
            replace(ENGINE, tensor_parallel=2),
            location=str(EMBEDDED),
            longest=128,
        )


FLAGS = ["--rollout", "vllm", "--engine.rollout-memory", "0.05"]


def test_a_run_whose_engine_is_killed_says_so_and_resumes_to_the_run_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*FLAGS, "--budget", "steps=5", "--algo.correction", "token"]
    whole = run(tmp_path / "whole", *flags)
    command = [sys.executable, "-m", "bench", "run", *SMALL, *flags, "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list((tmp_path / "killed").glob("*/checkpoint/step-000002/state.pt")):
        assert process.poll() is None
        time.sleep(0.01)
    (engine,) = (p for p in psutil.Process(process.pid).children() if "bench.engines.process" in " ".join(p.cmdline()))
    engine.kill()
    killed_at = time.monotonic()
    printed, error = process.communicate()
    print(f"the run ended {time.monotonic() - killed_at:.2f} s after the kill and said:\n{printed}")
    assert process.returncode == 1
    assert "Traceback" not in error
    (path,) = (tmp_path / "killed").iterdir()
    assert "the vllm process was killed by SIGKILL" in printed
    assert f"--resume {path}" in printed.replace("\n", " ")
    assert "vllm" in (path / "engine.log").read_text().lower()
    assert not (path / "summary.json").exists()
    assert main(["run", "--resume", str(path), "--quiet"]) == 0
    assert rows(path) == rows(whole)
    assert all(torch.equal(weights(path)[name], tensor) for name, tensor in weights(whole).items())
    for row in rows(whole):
        assert row["rollout/mismatch_max"] < 1e-4
        assert row["rollout/prob_error_max"] < 1e-4
    provenance = json.loads((whole / "provenance.json").read_text())
    assert provenance["versions"]["vllm"]
    measured = json.loads((whole / "steps.jsonl").read_text().splitlines()[0])
    assert measured["memory/kv_cache_gib"] > 0
    assert measured["memory/rollout_weights_gib"] > 0
    out = ["--limit", "6", "--num-samples", "2", "--out", str(tmp_path / "evals"), *FLAGS]
    assert main(["eval", "--model", str(whole), *out]) == 0
    (evaluated,) = (tmp_path / "evals").iterdir()
    assert rows(evaluated, "evals")[0]["accuracy"] == rows(whole, "evals")[-1]["accuracy"]


def test_adapters_reach_it_merged(tmp_path: Path) -> None:
    """The comparison with the trainer's log-probs is made in the run; the second step's sync carries a change."""
    path = run(tmp_path, *FLAGS, "--lora.rank", "4", "--optimizer.lr", "1e-2", "--budget", "steps=2")
    assert rows(path)[0]["actor/grad_norm"] > 0
    assert rows(path)[1]["rollout/mismatch_max"] < 1e-4


def test_a_sync_that_does_not_take_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(self: VLLMRollout, weights: Iterator[tuple[str, Tensor]]) -> None:
        """The weights go nowhere."""

    monkeypatch.setattr(VLLMRollout, "load_weights", nothing)
    assert main(["run", *SMALL, *FLAGS, "--budget", "steps=3", "--out", str(tmp_path)]) == 1
    assert "step 2: the sampler does not generate from the policy's weights" in capsys.readouterr().out
