# `make demo` and `make test` need Python 3.10 or newer and nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OLDEST_PYTHON ?= python3.10
OLDEST ?= .venv-oldest
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-oldest lint types benchmarks clean

demo: $(VENV)/.demo
	$(BIN)/evalkit reproduce

test: $(VENV)/.dev lint types
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The suite with the oldest supported releases: several GB, as old torch comes with CUDA. Not part of `make test`.
test-oldest: $(OLDEST)/.test
	$(OLDEST)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

benchmarks: $(VENV)/.dev
	$(BIN)/python experiments/benchmarks/binary.py
	$(BIN)/python experiments/benchmarks/many.py
	$(BIN)/python experiments/benchmarks/scores.py
	$(BIN)/python experiments/benchmarks/diagnose.py
	$(BIN)/python experiments/benchmarks/computes.py
	$(BIN)/python experiments/benchmarks/forward.py
	$(BIN)/python experiments/benchmarks/drawing.py
	$(BIN)/python experiments/benchmarks/intervals.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# A stamp per kind of installation: repeated calls install nothing.
$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing lightning-evalkit into $(VENV) (a few minutes the first time) ..."
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "Installing lightning-evalkit with its development tools into $(VENV) (a few minutes the first time) ..."
	$(INSTALL) --editable ".[dev]"
	@touch $@ $(VENV)/.demo

$(OLDEST)/.test: pyproject.toml constraints-oldest.txt
	$(OLDEST_PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt \
		--editable ".[test,transformers]"
	@touch $@

clean:
	rm -rf $(VENV) $(OLDEST) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
