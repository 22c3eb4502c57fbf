# Everything on a fresh machine: `make run` and `make test`. Needs Python >= 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 2

.PHONY: run test lint clean
run: $(VENV)/.ready
	$(BIN)/python -m bench run --algo grpo --task gsm8k

test: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev,gguf,sandbox]"
	touch $@

clean:
	rm -rf $(VENV) results/runs
