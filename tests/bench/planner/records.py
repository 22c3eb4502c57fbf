"""Records of runs for the planner's tests."""

import json
from pathlib import Path
from typing import Any

from bench.planner.sizes import resolve_shape


def write_run(folder: Path, **changes: Any) -> Path:  # noqa: ANN401
    """A run directory with one complete step and a torn one, of a small model."""
    model = folder / "model"
    model.mkdir(parents=True)
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config |= {"intermediate_size": 128, "vocab_size": 100, "tie_word_embeddings": True}
    (model / "config.json").write_text(json.dumps(config))
    tree = {
        "arm": "ppo",
        "algo_name": "ppo",
        "algo": {"kl_coef": 0.0},
        "model": "ours",
        "samples_per_step": 64,
        "sampling": {"max_new_tokens": 40},
        "critic": {"num_epochs": 1},
        "engine": {
            "dtype": "float32",
            "gradient_checkpointing": False,
            "micro_batch_tokens": 600,
            "rollout_batch_size": 32,
        },
    }
    row = {
        "prompt/length_max": 20.0,
        "completion/length_max": 30.0,
        "memory/policy_gib": 4 * resolve_shape(str(model)).params / 2**30,
        "memory/peak_gib/update": 0.5,
        "time/update_s": 2.0,
    }
    (folder / "config.json").write_text(json.dumps(tree | changes))
    provenance = {"device": "Some Processor", "cuda": None, "model": {"location": str(model)}}
    (folder / "provenance.json").write_text(json.dumps(provenance))
    (folder / "steps.jsonl").write_text(json.dumps(row) + '\n{"prompt/len')
    return folder
