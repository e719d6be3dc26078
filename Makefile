# Every target sets itself up: the first one run creates .venv, later ones reuse it.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
PROFILE ?= cpu
FIG     ?=
# pytest workers; each uses one thread
JOBS    ?= 2

# The kernels that papermill starts come from the same environment.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONNOUSERSITE := 1
# Threads that wait by spinning slow everything down several times as soon as another job wants a core.
export OMP_WAIT_POLICY := PASSIVE

# Tried in this order; the first that is new enough and can create environments is used.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.14; do \
	"$$p" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
	&& { command -v "$$p"; break; }; done)

.PHONY: help venv reproduce test lint types unit figure prose book bench bench-e2e stale lock clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP) ## create .venv and install (done by every other target when needed)

# A stamp rather than the folder: it is written last, so that an interrupted installation is resumed.
$(STAMP): pyproject.toml requirements.lock
	@test -n "$(PYTHON)" || { \
		echo "This needs Python 3.11 or newer with the venv module, and found none." >&2; \
		echo "Install one (Debian/Ubuntu: apt install python3-venv; macOS: brew install python)," >&2; \
		echo "or name it: make $(or $(MAKECMDGOALS),help) PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Installing into $(VENV) with $(PYTHON) (about 2 minutes and 2 GB the first time)"
	@test -x $(BIN)/python && $(BIN)/python -c '' 2>/dev/null || { rm -rf $(VENV); "$(PYTHON)" -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet --constraint requirements.lock setuptools
	@$(BIN)/python -m pip install --quiet --constraint requirements.lock --no-build-isolation --editable '.[dev]'
	@touch $@

reproduce: $(STAMP) ## quick start: train, attack, judge on the embedded images, build the book (5 min, 2 cores)
	$(BIN)/papermill notebooks/quickstart.py
	@$(MAKE) --no-print-directory book

test: lint types unit ## lint, types and all tests (under 15 min, 2 cores)

lint: $(STAMP) ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy on the library
	$(BIN)/mypy

unit: $(STAMP) ## the tests alone; JOBS=4 for more workers
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

figure: $(STAMP) ## run one notebook: make figure FIG=fig5_weight_decay PROFILE=cpu (or smoke, paper)
	@test -n "$(FIG)" && test -f "notebooks/$(FIG).py" || { \
		test -z "$(FIG)" || echo "There is no notebook '$(FIG)'." >&2; \
		echo "Say which notebook: make figure FIG=<name> PROFILE=<smoke|cpu|paper>, name one of:" >&2; \
		ls notebooks/*.py | sed 's|notebooks/|  |; s|\.py$$||' >&2; exit 2; }
	$(BIN)/papermill "notebooks/$(FIG).py" -p profile "$(PROFILE)"

book: $(STAMP) ## build the site from the executed notebooks (no run, no network)
	$(BIN)/jupyter-book build book --quiet
	@echo "The book is at file://$(CURDIR)/book/_build/html/index.html"

prose: $(STAMP) ## bring changed text of notebooks into the book without running them again
	$(BIN)/python .ci/prose.py

bench: $(STAMP) ## speed against the papers' protocol, into benchmarks/results.json (under 10 min)
	$(BIN)/python -m benchmarks

bench-e2e: $(STAMP) ## train + attack + judge at the papers' sizes, into benchmarks/results.json (about 1 h)
	$(BIN)/python -m benchmarks --e2e

stale: $(STAMP) ## list results made by older code, with the command that remakes each
	$(BIN)/python -m reconlib.provenance stale

lock: $(STAMP) ## write requirements.lock from what is installed, after changing a dependency
	$(BIN)/python .ci/lock.py > requirements.lock.new
	mv requirements.lock.new requirements.lock

clean: ## remove the built site, caches and .venv
	rm -rf $(VENV) book/_build book/_runs .mypy_cache .ruff_cache .pytest_cache
