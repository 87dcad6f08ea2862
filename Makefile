# Every target makes what it needs, in .venv, with pip alone. Nothing is installed system-wide.
#
#   make demo    install Podium and run the main example
#   make test    install everything the tests need, then run all checks and all tests
#   make check   the quick part of `make test`: format, lint, types, imports, unit tests, README
#   make bench   measure, and compare with peers in the same run
#   make plant   break every rule of docs/conformance in turn; the tests of the rule must notice
#   make mutate  plant mechanical faults in plan/graph.py and the executor; the tests must notice
#   make fuzz    a million hostile inputs for the reader, expressions and templates
#   make torture ten thousand random plans each through the machine, the driver and the follower, and two thousand kills,
#                then 240 kills of workers of a Temporal server, 1,000 signals to its runs and runs of 5,000 steps there
#   make clean   remove what the other targets made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)

.DEFAULT_GOAL := help
.PHONY: help demo test check bench plant mutate fuzz torture conformance clean

help:
	@sed -n 's/^#   //p' Makefile

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Podium needs Python 3.11 or newer; try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/core: $(VENV)/made pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/core
	@$(BIN)/podium run examples/demo.yaml
	@echo
	@echo "Next: $(BIN)/podium runs list        what has been run"
	@echo "      $(BIN)/podium graph examples/demo.yaml   the workflow as a picture"
	@echo "      $(BIN)/podium init             a workflow of your own"
	@echo "      README.md                      the rest"

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PYTEST) -n $(WORKERS) -q tests/unit tests/messages tests/acceptance/test_readme.py

test: check
	$(PYTEST) -n $(WORKERS) -q tests --ignore=tests/unit --ignore=tests/messages --deselect tests/acceptance/test_readme.py --durations=25 --durations-min=5

bench: $(VENV)/dev
	$(BIN)/python -m bench

plant: $(VENV)/dev
	$(BIN)/python -m tests.planted --workers $(WORKERS)

mutate: $(VENV)/dev
	$(BIN)/python -m tests.mutation

fuzz: $(VENV)/dev
	$(BIN)/python -m tests.fuzz --cases 1000000

torture: $(VENV)/dev
	$(BIN)/python -m tests.torture --plans 10000
	$(BIN)/python -m tests.torture.operating --seeds 10000
	$(BIN)/python -m tests.torture.following --seeds 10000
	$(BIN)/python -m tests.torture.deciders --seeds 10000
	$(BIN)/python -m tests.torture.kills --kills 2000
	$(BIN)/python -m tests.torture.copies
	$(BIN)/python -m tests.torture.temporal_kills --kills 200
	$(BIN)/python -m tests.torture.temporal_kills --kills 40 --seed 1000 --store postgres
	$(BIN)/python -m tests.torture.temporal_points
	$(BIN)/python -m tests.torture.engine_signals
	$(BIN)/python -m tests.torture.engine_signals --engine conductor
	$(BIN)/python -m tests.torture.temporal_scale
	$(BIN)/python -m tests.torture.conductor_kills --kills 200
	$(BIN)/python -m tests.torture.conductor_kills --kills 40 --seed 1000 --store postgres
	PODIUM_PARITY=all $(PYTEST) -n $(WORKERS) -q tests/conductor/test_parity.py

# Rewrites the "tests" column of the conformance tables from the markers in the tests.
conformance: $(VENV)/dev
	$(BIN)/python -m tests.conformance

clean:
	rm -rf $(VENV) build dist mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
