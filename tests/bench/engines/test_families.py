"""Sampler against plain forward pass, family by family: a part of what docs/generate_models.py tries."""

import pytest

from docs.generate_models import LIMIT, distance


@pytest.mark.parametrize(
    "family", ["mistral", "qwen2", "gemma3_text", "olmo3", "gpt2", "falcon", "falcon, ALiBi", "lfm2", "qwen3_5_text"]
)
def test_sampler_and_plain_forward_pass_are_one_model(family: str) -> None:
    assert distance(family) <= LIMIT
