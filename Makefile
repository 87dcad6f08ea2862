# Every target makes what it needs, in .venv, with pip alone. Nothing is installed system-wide.
#
#   make demo    install Podium and run the main example
#   make demo-registration  register twenty nodes on Kafka, Consul and PostgreSQL, and kill some of all of them
#   make test    install everything the tests need, then run all checks and all tests
#   make check   the quick part of `make test`: format, lint, types, imports, unit tests, README
#   make bench   measure, and compare with peers in the same run
#   make plant   break every rule of docs/conformance in turn; the tests of the rule must notice
#   make mutate  plant mechanical faults in plan/graph.py and the executor; the tests must notice
#   make fuzz    a million hostile inputs for the reader, expressions and templates
#   make torture ten thousand random plans each through the machine, the driver and the follower, and two thousand kills,
#                then 240 kills of workers of a Temporal server, 1,000 signals to its runs and runs of 5,000 steps there,
#                three thousand attacks on run hosts, 50 kills of the registration service with 1,000 nodes, and one crash of it before and after every write
#   make clean   remove what the other targets made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
WORKERS ?= $(shell nproc 2>/dev/null || echo 2)

# The tests start thousands of processes. Without bytecode files each of them would compile Podium first: 0.4 s instead
# of 0.2 s for a `podium run` of one step.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-registration test check bench plant mutate fuzz torture conformance clean

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

demo-registration: $(VENV)/dev
	@$(BIN)/python -m tests.registration.demo

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(PYTEST) -n $(WORKERS) -q tests/unit tests/messages tests/acceptance/test_readme.py

# Building Consul takes both cores for minutes, the first time. It starts here and runs beside the unit tests. If it fails,
# the first test that needs Consul tries again and says why.
test: $(VENV)/dev
	@$(BIN)/python -m services install consul > $(VENV)/consul.log 2>&1 < /dev/null & :
	@$(MAKE) --no-print-directory check
	$(BIN)/python -m tests.second_try -n $(WORKERS) -q tests --ignore=tests/unit --ignore=tests/messages --deselect tests/acceptance/test_readme.py --durations=25 --durations-min=5

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
	$(BIN)/python -m tests.torture.hosting --seeds 3000
	$(BIN)/python -m tests.torture.fleet --runs 20000 --store postgres
	$(BIN)/python -m tests.torture.servers --runs 20000
	$(BIN)/python -m tests.torture.waiting --runs 10000
	$(BIN)/python -m tests.torture.following --seeds 10000
	$(BIN)/python -m tests.torture.deciders --seeds 10000
	$(BIN)/python -m tests.torture.kills --kills 2000
	$(BIN)/python -m tests.torture.notifications --runs 1000
	$(BIN)/python -m tests.torture.copies
	$(BIN)/python -m tests.torture.temporal_kills --kills 200
	$(BIN)/python -m tests.torture.temporal_kills --kills 40 --seed 1000 --store postgres
	$(BIN)/python -m tests.torture.temporal_points
	$(BIN)/python -m tests.torture.engine_signals
	$(BIN)/python -m tests.torture.engine_signals --engine conductor
	$(BIN)/python -m tests.torture.temporal_scale
	$(BIN)/python -m tests.torture.conductor_kills --kills 200
	$(BIN)/python -m tests.torture.conductor_kills --kills 40 --seed 1000 --store postgres
	$(BIN)/python -m tests.torture.registration
	$(BIN)/python -m tests.registration.boundaries
	PODIUM_PARITY=all $(PYTEST) -n $(WORKERS) -q tests/temporal/test_parity.py tests/conductor/test_parity.py

# Rewrites the "tests" column of the conformance tables from the markers in the tests.
conformance: $(VENV)/dev
	$(BIN)/python -m tests.conformance

clean:
	rm -rf $(VENV) build dist mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
