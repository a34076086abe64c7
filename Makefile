# The one door for tasks: 'make help' lists them.
#
# Everything is installed into .venv; nothing outside this folder is needed but Python 3.11 or newer and, better, a C
# compiler. MIRRORMQ_PURE=1 installs uncompiled; MIRRORMQ_REQUIRE_ALL=1 makes a missing component an error.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
SOURCES := $(shell find src -name '*.py' -o -path '*/static/*' -type f) pyproject.toml setup.py constraints.txt
NODES ?= 3
BASE_PORT ?= 5671
SEEDS ?= 1000
MINUTES ?= 10
SEED ?=
DATA_DIR ?= .data/cluster
ARGS ?=


.PHONY: help install up check test test-all test-rest static lint type unit unit-pure \
  live live-clusters live-mirrors live-lake live-simulation live-others slow slow-clusters slow-mirrors slow-others \
  sim sim-machine chaos long bench docs clean FORCE

help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/installed ## Install into .venv, compiled where a C compiler works
	@$(BIN)/python -c 'import mirrormq; print("MirrorMQ", mirrormq.build_info(), "is installed in $(VENV)")'

up: install ## Install and start a mirrored cluster of three nodes in the foreground (NODES, BASE_PORT, DATA_DIR); Ctrl-C stops it
	@exec $(BIN)/mirrormq cluster up --nodes $(NODES) --dir "$(DATA_DIR)" --base-port $(BASE_PORT) --mirrored $(ARGS)

check: ## Lint, types and unit tests, for every commit: about two minutes once installed
	@$(MAKE) $(VENV)/tools
	@$(MAKE) -j 2 $(VENV)/installed static
	@$(MAKE) unit

test: ## Install and pass the tests of every feature: check, and the tests with real processes; below 15 minutes
	@$(MAKE) check
	@$(MAKE) live
	@echo "All tests passed."

test-all: ## Pass all tests: also the unit tests uncompiled, the longer fault tests; below 45 minutes
	@$(MAKE) test
	@$(MAKE) test-rest

# What test-all has beyond test.
test-rest:
	@$(MAKE) -j 2 --output-sync=target unit-pure slow
	@echo "The rest of all tests passed."

static: $(VENV)/tools
	@.ci/components
	@$(MAKE) lint
	@$(MAKE) type

lint: $(VENV)/tools ## Check the style with ruff
	@echo "== lint"
	@$(BIN)/ruff check .

type: $(VENV)/tools ## Check the types with mypy, strictly
	@echo "== types"
	@$(BIN)/mypy

unit: $(VENV)/installed $(VENV)/tools ## Run the unit tests on what is installed (compiled, where it could be)
	@echo "== unit tests, as installed"
	@MIRRORMQ_VARIANT=installed $(PYTEST) -q -m "not live and not chaos" $(ARGS)

unit-pure: $(VENV)/installed $(VENV)/tools ## Run the unit tests on the sources, uncompiled
	@echo "== unit tests, uncompiled"
	@MIRRORMQ_VARIANT=uncompiled PYTHONPATH=src $(PYTEST) -q -m "not live and not chaos" $(ARGS)

live: $(VENV)/installed $(VENV)/tools ## Run the tests that start real server processes
	@echo "== tests with real processes: clusters, mirrors, lake, simulation and the others side by side; each is shown when it is done"
	@$(MAKE) -j 5 --output-sync=target live-clusters live-mirrors live-lake live-simulation live-others

LIVE = MIRRORMQ_VARIANT=installed $(PYTEST) -q -p no:cacheprovider -m "live and not chaos" $(ARGS)

live-clusters:
	@$(LIVE) tests/cluster

live-mirrors:
	@$(LIVE) tests/mirror tests/node tests/clients tests/perf

live-lake:
	@$(LIVE) tests/lake tests/page tests/live tests/fuzz

live-simulation:
	@$(LIVE) tests/simnodes

live-others:
	@$(LIVE) $(foreach part,cluster mirror node clients perf lake page live fuzz simnodes,--ignore tests/$(part))

# Tests that repeat a cheaper one in another way or at a larger scale.
SLOW = MIRRORMQ_VARIANT=installed $(PYTEST) -q -p no:cacheprovider -m chaos $(ARGS)

slow: $(VENV)/installed $(VENV)/tools
	@echo "== longer fault tests: clusters, mirrors and the others side by side; they are shown when all are done"
	@$(MAKE) -j 3 --output-sync=target slow-clusters slow-mirrors slow-others

slow-clusters:
	@$(SLOW) tests/cluster tests/clients

slow-mirrors:
	@$(SLOW) tests/mirror

slow-others:
	@$(SLOW) $(foreach part,cluster clients mirror,--ignore tests/$(part))

sim: $(VENV)/installed $(VENV)/tools ## Simulate clusters of whole nodes under faults, SEEDS=n of them; ARGS='--replay n' prints one
	@PYTHONPATH=tests $(BIN)/python -m simnodes.run --seeds $(SEEDS) $(ARGS)

sim-machine: $(VENV)/installed $(VENV)/tools ## Simulate the replication machine alone, SEEDS=n of them
	@PYTHONPATH=tests $(BIN)/python -m sim.run --seeds $(SEEDS) $(ARGS)

chaos: $(VENV)/installed $(VENV)/tools ## Random faults on real nodes and etcd in network namespaces (MINUTES, NODES=3|5, SEED); needs root
	@PYTHONPATH=tests $(BIN)/python -m chaos.run --minutes $(MINUTES) --nodes $(NODES) $(if $(SEED),--seed $(SEED)) $(ARGS)

long: $(VENV)/installed $(VENV)/tools ## Run the fault tests in their full length: hours
	@MIRRORMQ_RACES=10000 MIRRORMQ_LOAD_SECONDS=60 MIRRORMQ_OUTAGE_SECONDS=30 MIRRORMQ_MANY=10000 MIRRORMQ_CRASHES=25 \
	  MIRRORMQ_FAILOVERS=20 MIRRORMQ_WORKER_FAILOVERS=10 MIRRORMQ_SYNC_MESSAGES=300000 MIRRORMQ_MIRRORED=3000 MIRRORMQ_IDLE_SECONDS=30 MIRRORMQ_SCHEMA_EXAMPLES=100 \
	  MIRRORMQ_LAKE_MESSAGES=200000 MIRRORMQ_LAKE_KILLS=10 MIRRORMQ_LAKE_CRASHES=2 MIRRORMQ_LAKE_ROWS=100000 \
	  MIRRORMQ_SEQUENCES=1000000 MIRRORMQ_SOCKET_SEQUENCES=50000 \
	  MIRRORMQ_VARIANT=installed $(PYTEST) -m "chaos or long" --timeout 3600 $(ARGS)
	@MIRRORMQ_STORE=etcd MIRRORMQ_VARIANT=installed $(PYTEST) -m "live and not chaos" --timeout 3600 tests/mirror $(ARGS)

bench: $(VENV)/installed $(VENV)/tools ## Measure a node, beside RabbitMQ where that is installed
	@$(BIN)/python bench/run.py $(ARGS)

docs: $(VENV)/tools ## Check that every link in the documents leads somewhere
	@PYTHONPATH=src $(PYTEST) -q tests/test_repository.py -k document

clean: ## Remove what was built and installed; data stays in .data
	rm -rf build dist $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name '__pycache__' -prune -exec rm -rf {} +
	find src -name '*.egg-info' -prune -exec rm -rf {} +

# The variant is a prerequisite too: the same sources with another compiler are another installation.
$(VENV)/variant: FORCE | $(VENV)/bin/python
	@echo 'CC=$(if $(filter default,$(origin CC)),,$(CC)) PURE=$(MIRRORMQ_PURE)' | cmp -s - $@ || \
	  echo 'CC=$(if $(filter default,$(origin CC)),,$(CC)) PURE=$(MIRRORMQ_PURE)' > $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; '$(PYTHON)' is older or missing. Try: make install PYTHON=python3.11"; exit 1; }
	@echo "Making $(VENV) …"
	@rm -rf $(VENV)
	@trap 'rm -rf $(VENV); exit 130' INT TERM; \
	  $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || $(PYTHON) -m virtualenv -q $(VENV) >/dev/null 2>&1 \
	  || { rm -rf $(VENV); .ci/packages python3-venv && $(PYTHON) -m venv $(VENV); } \
	  || { rm -rf $(VENV); echo "Python cannot make a virtual environment. Install Debian's package python3-venv," \
	       "or virtualenv with pip, and run make again."; exit 1; }

# What is said when pip fails: its own words do not tell what to do.
advise = { echo "pip could not install what is needed; its reason is above. It fetches from the Python Package Index, or from the" \
	"mirror of it that PIP_INDEX_URL names. If $(VENV) is damaged, 'make clean' removes it." >&2; exit 1; }

# Names the requirements of one part of pyproject.toml, for pips that know no way to install them without the package.
requirements = $(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); print(*$(1), sep="\n")'

$(VENV)/requirements: constraints.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing what MirrorMQ needs …"
	@$(PIP) install -c constraints.txt -r <($(call requirements,p["build-system"]["requires"])) \
	  -r <($(call requirements,p["project"]["dependencies"])) || $(advise)
	@touch $@

$(VENV)/tools: $(VENV)/requirements
	@echo "Installing what the tests need …"
	@$(PIP) install -c constraints.txt -r <($(call requirements,sum(p["project"]["optional-dependencies"].values(), []))) || $(advise)
	@touch $@

$(VENV)/installed: $(SOURCES) $(VENV)/requirements $(VENV)/variant
	@if [ "$${MIRRORMQ_REQUIRE_ALL:-}" = 1 ] && [ -z "$${CC:-}" ] && ! command -v cc gcc >/dev/null; then \
	  .ci/packages gcc libc6-dev python3-dev; fi
	@echo "Building MirrorMQ (compiling takes a minute or two) …"
	@$(PIP) install --no-build-isolation --no-deps --force-reinstall .
	@if [ -s build/uncompiled ]; then echo "WARNING: installed uncompiled, and slower: $$(cat build/uncompiled)"; fi
	@touch $@
