"""Rollout and training engines; the only place that imports vllm, deepspeed or generation code."""
