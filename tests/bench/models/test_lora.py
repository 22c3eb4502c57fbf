"""Adapters: what is trained, what is held, and that what is handed on is what was trained."""

import copy
import importlib.util
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from bench.cli import main
from bench.config import LoraConfig
from bench.engines.modules import token_logprobs
from bench.engines.reference import AdaptersOff, FrozenAdapter, OffloadedCopy
from bench.engines.torch_train import TorchEngine
from bench.ground.errors import UserError
from bench.models import flops, lora
from bench.models.load import load_model, weights_for
from bench.models.shape import ModelShape
from tests.bench.small_runs import SMALL, rows, run
from tests.bench.support import engine, ragged, tiny_gpt2, tiny_llama

peft = pytest.importorskip("peft")
RANK = 4
PADDED = ragged().pad(torch.arange(6))
# of a tiny layer, inputs + outputs: q and o 16 + 16, k and v 16 + 8, three of 16 + 24
ADAPTER = RANK * 2 * (2 * 32 + 2 * 24 + 3 * 40)


def adapted(model: PreTrainedModel | None = None, *targets: str, needs: tuple[str, ...] = ()) -> TorchEngine:
    """An engine that trains adapters."""
    model = model or tiny_llama()
    lora.prepare_adapters(model, LoraConfig(rank=RANK, targets=targets), None, seed=0)
    return engine(model, needs=needs)


def learn(trainer: TorchEngine, steps: int = 3) -> None:
    """Updates of policy and critic, large enough to be seen."""
    for _ in range(steps):
        trainer.backward(-trainer.forward(PADDED, entropy_grad=False).logprobs.mean())
        trainer.step("policy", 1e-2)
        if "critic" in trainer.modules:
            trainer.backward((trainer.values(PADDED) - 1).square().mean())
            trainer.step("critic", 1e-2)


def test_updates_move_adapters_and_the_critics_head_only() -> None:
    trainer = adapted(needs=("values",))
    before = {role: copy.deepcopy(module.state_dict()) for role, module in trainer.modules.items()}
    learn(trainer)
    for role, module in trainer.modules.items():
        moved = {name for name, value in module.state_dict().items() if not torch.equal(value, before[role][name])}
        assert moved == {name for name in before[role] if "lora_" in name or name.startswith("head.")}
        held = {id(p) for group in trainer.optimizers[role].param_groups for p in group["params"]}
        assert held == {id(p) for p in module.parameters() if p.requires_grad}


@pytest.mark.parametrize("make", [tiny_llama, tiny_gpt2])
def test_the_reference_is_the_base_exactly_before_and_after_updates(make: type) -> None:
    base = make()
    expected = engine(copy.deepcopy(base)).logprobs(PADDED)
    trainer = adapted(base, needs=("ref_logprobs",))
    assert isinstance(trainer.reference, AdaptersOff)
    assert torch.equal(trainer.logprobs(PADDED), expected)  # new adapters change nothing
    learn(trainer)
    assert torch.equal(trainer.ref_logprobs(PADDED), expected)
    assert (trainer.logprobs(PADDED) - expected).abs().max() > 0.1
    assert all(p.requires_grad for p in lora.adapter_parameters(trainer.policy))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("targets", [(), ("q_proj", "down_proj")])
def test_merged_weights_have_the_bases_names_and_the_adapters_logprobs(tied: bool, targets: tuple[str, ...]) -> None:
    plain = tiny_llama(tied=tied)
    trainer = adapted(copy.deepcopy(plain), *targets)
    learn(trainer)
    merged = dict(weights_for("vllm", trainer.policy))
    assert list(merged) == [name for name, _ in plain.named_parameters()]
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(merged[name])
    assert torch.allclose(engine(plain).logprobs(PADDED), trainer.logprobs(PADDED), atol=1e-5)


def test_the_hf_sampler_is_given_its_own_storage() -> None:
    trainer = adapted()
    own = {name: p.data_ptr() for name, p in trainer.policy.named_parameters()}
    assert {name: weight.data_ptr() for name, weight in trainer.weights()} == own


def test_memory_by_role_by_hand() -> None:
    """The critic holds its adapters, its head and its rotary buffers; the reference holds nothing and is absent."""
    backbone = 40 * 16 + 2 * (16 * 16 + 2 * 16 * 8 + 16 * 16 + 3 * 16 * 24 + 2 * 16) + 16
    rotary = 2 * 2 * 4
    trainer = adapted(needs=("values", "ref_logprobs"))
    learn(trainer, steps=1)
    held = trainer.memory()
    assert held["policy"] == 4 * (backbone + ADAPTER) + rotary
    assert held["critic"] == 4 * (ADAPTER + 16 + 1) + rotary
    assert held["gradients"] == 4 * (ADAPTER + 16 + 1)
    assert "reference" not in held
    tensors = sum(p.requires_grad for module in trainer.modules.values() for p in module.parameters())
    assert held["optimizer"] == 2 * 4 * (2 * ADAPTER + 17) + 4 * tensors


def test_frozen_weights_are_held_in_the_arithmetics_dtype() -> None:
    model = tiny_llama()
    lora.prepare_adapters(model, LoraConfig(rank=RANK), "bfloat16", seed=0)
    kinds = {(p.requires_grad, p.dtype) for p in model.parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}


def test_one_seed_one_adapter() -> None:
    first, again, other = (tiny_llama() for _ in range(3))
    torch.manual_seed(99)  # whatever was drawn before
    for model, seed in ((first, 0), (again, 0), (other, 1)):
        lora.prepare_adapters(model, LoraConfig(rank=RANK), None, seed)
    drawn = [torch.cat([p.flatten() for p in lora.adapter_parameters(m)]) for m in (first, again, other)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def saved(tmp_path: Path) -> tuple[TorchEngine, Path]:
    """A trained adapter beside its base model, both in folders."""
    base = tiny_llama()
    base.save_pretrained(tmp_path / "base")
    trainer = adapted(load_model(str(tmp_path / "base")))
    learn(trainer)
    trainer.save_model(tmp_path / "adapter")
    return trainer, tmp_path / "adapter"


def test_a_saved_adapter_is_read_by_us_and_by_peft(tmp_path: Path) -> None:
    trainer, folder = saved(tmp_path)
    assert not (folder / "model.safetensors").exists()
    expected = trainer.logprobs(PADDED)
    assert torch.equal(adapted(load_model(str(folder))).logprobs(PADDED), expected)
    theirs = peft.PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(tmp_path / "base"), str(folder))
    assert torch.equal(adapted(theirs.get_base_model()).logprobs(PADDED), expected)
    assert lora.settings_for(str(folder), LoraConfig()).rank == RANK


def test_started_from_an_adapter_the_reference_is_that_adapter(tmp_path: Path) -> None:
    first, folder = saved(tmp_path)
    start = first.logprobs(PADDED)
    trainer = adapted(load_model(str(folder)), needs=("ref_logprobs", "values"))
    assert isinstance(trainer.reference, FrozenAdapter)
    assert trainer.memory()["reference"] == 4 * ADAPTER
    assert torch.equal(trainer.logprobs(PADDED), start)
    learn(trainer)
    moved = trainer.logprobs(PADDED)
    assert (moved - start).abs().max() > 0.1
    assert torch.equal(trainer.ref_logprobs(PADDED), start)
    assert torch.equal(trainer.logprobs(PADDED), moved)


def test_state_holds_what_was_learnt_and_nothing_frozen(tmp_path: Path) -> None:
    _, folder = saved(tmp_path)
    needs = ("ref_logprobs", "values")
    trainer = adapted(load_model(str(folder)), needs=needs)
    learn(trainer)
    trainer.save_state(tmp_path / "state")
    state = torch.load(tmp_path / "state" / "engine.pt", weights_only=True)
    assert sum(v.numel() for v in state["modules"]["policy"].values()) == ADAPTER
    fresh = adapted(load_model(str(folder)), needs=needs)
    fresh.load_state(tmp_path / "state")
    for passes in ("logprobs", "ref_logprobs", "values"):
        assert torch.equal(getattr(fresh, passes)(PADDED), getattr(trainer, passes)(PADDED))
    learn(fresh)
    learn(trainer)
    assert torch.equal(fresh.logprobs(PADDED), trainer.logprobs(PADDED))


def test_an_off_loaded_reference_moves_once_a_use_and_back_for_nothing() -> None:
    policy = tiny_llama()
    reference = OffloadedCopy(policy)
    home = [p.data_ptr() for p in reference.model.parameters()]
    assert not set(home) & {p.data_ptr() for p in policy.parameters()}
    expected = token_logprobs(policy, PADDED, 1.0)[0]
    for uses in (1, 2):
        for _ in range(3):
            with reference.use() as model:
                assert torch.equal(token_logprobs(model, PADDED, 1.0)[0], expected)
        assert reference.num_moves == uses
        reference.park()
        assert [p.data_ptr() for p in reference.model.parameters()] == home


def test_the_engine_parks_its_reference_and_reports_it_as_the_hosts() -> None:
    trainer = engine(tiny_llama(), needs=("ref_logprobs",), offload=("reference",))
    assert isinstance(trainer.reference, OffloadedCopy)
    assert trainer.memory()["reference_host"] == trainer.memory()["policy"]
    assert torch.equal(trainer.ref_logprobs(PADDED), trainer.logprobs(PADDED))
    trainer.ref_logprobs(PADDED)
    trainer.park()
    assert trainer.reference.num_moves == 1


def test_counted_work_leaves_out_what_frozen_weights_do_not_need() -> None:
    """Torch's own counter, and by hand the one product it leaves out too: the gradient of the first layer's input."""
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=300,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config)
    lora.prepare_adapters(model, LoraConfig(rank=RANK), None, seed=0)
    count = sum(p.numel() for p in lora.adapter_parameters(model))
    shape = ModelShape.from_config(config)
    assert count == shape.lora_params(RANK)
    shape = ModelShape(**(vars(shape) | {"adapters": count}))
    p, n = 17, 9

    def forward() -> Tensor:
        return model(torch.zeros(1, p + n, dtype=torch.long), logits_to_keep=n, use_cache=False).logits.sum()

    with FlopCounterMode(display=False) as forwards:
        loss = forward()
    with FlopCounterMode(display=False) as backwards:
        loss.backward()
    assert forwards.get_total_flops() == pytest.approx(flops.forward_flops(shape, [p], [n]), rel=0.01)
    first_input = 2 * (p + n) * (64 * (64 + 32 + 32) + 3 * RANK * 64)
    expected = flops.backward_flops(shape, [p], [n]) - first_input
    assert backwards.get_total_flops() == pytest.approx(expected, rel=0.01)


# --- what a user gets wrong


def test_peft_that_is_not_installed_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *at: None if name == "peft" else find(name, *at))
    assert main(["run", *SMALL, "--lora.rank", "4"]) == 2
    assert '--lora.rank needs peft: pip install "ppo-vs-grpo-bench[lora]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lora.rank", "4", "--lora.targets", "q_proj", "qproj"], "no such layer; did you mean q_proj?"),
        (["--lora.rank", "4", "--lora.targets", "embed_tokens"], "ties its embedding to its output layer"),
        (["--lora.rank", "4", "--lora.targets", "mlp"], "--lora.targets mlp: "),
        (["--lora.rank", "-1"], "must not be negative"),
        (["--lora.rank", "4", "--engine", "deepspeed"], "--lora.rank needs --engine torch"),
        (["--offload", "reference"], "in the host's memory already"),
    ],
)
def test_settings_that_cannot_work_are_one_line(
    flags: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", *SMALL, *flags, "--engine.device", "cpu", "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"use_dora": True}, "use_dora True; only plain LoRA"),
        ({"peft_type": "IA3"}, "peft_type IA3; only plain LoRA"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
    ],
)
def test_an_adapter_of_another_kind_is_refused(changed: dict[str, object], words: str, tmp_path: Path) -> None:
    _, folder = saved(tmp_path)
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))
    with pytest.raises(UserError, match=words):
        lora.settings_for(str(folder), LoraConfig())


def test_an_adapter_keeps_its_rank(tmp_path: Path) -> None:
    _, folder = saved(tmp_path)
    with pytest.raises(UserError, match=r"--lora.rank 8: the adapter at .* has 4; leave it out"):
        lora.settings_for(str(folder), LoraConfig(rank=8))


# --- whole runs


def test_a_run_trains_adapters_and_another_goes_on_from_them(tmp_path: Path) -> None:
    flags = ["--budget", "steps=2", "--algo.group-size", "4", "--optimizer.lr", "2e-3"]
    first = run(tmp_path, *flags, "--lora.rank", "4")
    assert "memory/reference_gib" not in json.loads((first / "steps.jsonl").read_text().splitlines()[0])
    assert main(["eval", "--model", str(first), "--limit", "6", "--quiet", "--out", str(tmp_path / "evals")]) == 0
    same = ["--source", "procedural", "--task.template", "plain", "--sampling.max-new-tokens", "64"]
    second = run(tmp_path, *flags, *same, "--model", str(first))
    assert json.loads((second / "config.json").read_text())["lora"]["rank"] == 4
    start, end = rows(second, "evals")[0], rows(first, "evals")[-1]
    assert (start["accuracy"], start["length_mean"]) == (end["accuracy"], end["length_mean"])
    row = json.loads((second / "steps.jsonl").read_text().splitlines()[0])
    assert 0 < row["memory/reference_gib"] < 0.5 * row["memory/policy_gib"]
    assert abs(rows(second)[0]["actor/kl_ref"]) < 1e-3


def test_the_best_adapter_is_what_test_reads(tmp_path: Path) -> None:
    flags = ["--budget", "steps=2", "--eval.every", "1", "--eval.checkpoint", "best", "--eval.validation-limit", "6"]
    path = run(tmp_path, *flags, "--lora.rank", "4", "--optimizer.lr", "0.5", "--optimizer.warmup-steps", "0")
    first, last = (r for r in rows(path, "evals") if r["split"] == "test")
    assert json.loads((path / "summary.json").read_text())["best_step"] == 0
    assert (last["accuracy"], last["length_mean"]) == (first["accuracy"], first["length_mean"])


@pytest.mark.slow
def test_accuracy_rises(tmp_path: Path) -> None:
    flags = ["--samples-per-step", "128", "--eval.limit", "200", "--eval.num-samples", "0", "--quiet"]
    command = ["run", *flags, "--lora.rank", "16", "--optimizer.lr", "2e-3", "--budget", "steps=8"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    first, last = rows(path, "evals")
    assert last["accuracy"] > first["accuracy"] + 0.1
