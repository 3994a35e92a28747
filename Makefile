# Needs Python 3.11 or newer and make; everything else is installed into .venv, once, and again when pyproject.toml
# changes. STRICT=1, as in CI, also installs what is heavy (torch, transformers, lightning, XGBoost, Ray, Spark, chromium)
# and makes a missing part a failure instead of a skip.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PEERS  := .venv-peers
export THERMOSET_STRICT := $(STRICT)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1
# Tests start hundreds of processes, and pytest rewrites every test file: without bytecode each of them compiles it all
# again.
export PYTHONDONTWRITEBYTECODE :=

HEAVY := $(if $(filter 1,$(STRICT)),$(VENV)/.with-torch $(VENV)/.with-frameworks $(VENV)/.boosting $(VENV)/.engines $(VENV)/.with-chromium)

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-long evidence check format docs bench bench-peers planted release clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "thermoset needs Python 3.11 or newer; got " + sys.version.split()[0] + ". Run: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

# With STRICT=1 every package but PyTorch comes from a lock and is checked by its hash; what is installed afterwards finds
# all it needs and may not look for more. requirements/ci.in says how the lock is made.
LOCK := $(if $(filter 1,$(STRICT)),$(VENV)/.locked)
LOCKED := $(if $(LOCK),--no-build-isolation --no-index)
$(VENV)/.locked: requirements/ci.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement requirements/ci.txt
	@touch $@

# One stamp for each extra of pyproject.toml: a target installs what it needs and no more.
EXTRAS := plot report test check docs bench boosting engines release
OPEN := docs bench release# not part of the lock
$(EXTRAS:%=$(VENV)/.%): $(VENV)/.%: pyproject.toml | $(BIN)/python $(LOCK)
	$(BIN)/python -m pip install --quiet $(if $(filter $*,$(OPEN)),,$(LOCKED)) --editable '.[$*]'
	@touch $@

# PyTorch's CPU build; the newest release would bring gigabytes for graphics cards.
$(VENV)/.with-torch: | $(BIN)/python $(LOCK)
	$(BIN)/python -m pip install --quiet 'torch==2.13.0'
	@touch $@

# Hugging Face and Lightning; after torch, so that they take the build that is there.
$(VENV)/.with-frameworks: pyproject.toml $(VENV)/.with-torch | $(BIN)/python
	$(BIN)/python -m pip install --quiet $(LOCKED) --editable '.[frameworks]'
	@touch $@

$(VENV)/.with-chromium: tools/chromium.sh | $(BIN)/python
	bash tools/chromium.sh
	@touch $@

demo: $(VENV)/.plot $(VENV)/.report ## run a demo on real data and write a predictor and a report to demo-output/
	@$(BIN)/thermoset demo --out demo-output

# Compiled kernels are kept from run to run. They are made ready first, so that the time of the tests is that of the tests.
TESTED := quick test test-long evidence
$(TESTED) planted: export NUMBA_CACHE_DIR := $(or $(NUMBA_CACHE_DIR),$(CURDIR)/$(VENV)/kernels)
PYTEST := $(BIN)/python -m pytest -q -n auto --dist worksteal
KERNELS = @$(BIN)/python -c 'import time, thermoset; begin = time.time(); thermoset.warmup(); print(f"kernels ready after {time.time() - begin:.0f} s")'

quick: $(VENV)/.test ## run the first case of the unit tests in under a minute
	$(KERNELS)
	$(PYTEST) --tier quick

test: $(VENV)/.test $(HEAVY) ## run the tests, about 6 minutes on two cores
	$(KERNELS)
	$(PYTEST)
	$(PYTEST) --doctest-modules src README.md

test-long: $(VENV)/.test $(HEAVY) ## run what takes longer: laws over 200 splits, full matrices, browser, kills, docs
	$(KERNELS)
	$(PYTEST) --tier long
	$(PYTEST) docs

evidence: $(VENV)/.test $(VENV)/.bench ## run the simulations behind the claims of the docs, for hours; into evidence-output/
	mkdir -p evidence-output
	$(PYTEST) --tier evidence --hypothesis-profile=explore | tee evidence-output/tests.txt
	$(BIN)/python -m benchmarks drop-500 drop-5000 drop-50000 slide larger cluster vocabulary costs --json evidence-output/measured.json
	$(BIN)/python -m benchmarks.long_tails | tee evidence-output/long-tails.txt

planted: $(VENV)/.test ## plant small faults one at a time and print which the tests catch; FAULTS=30 SEED=0
	$(BIN)/python tools/planted.py --faults $(or $(FAULTS),30) --seed $(or $(SEED),0)

check: $(VENV)/.check $(HEAVY) ## check lint, formatting, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd tests/typed_client && $(abspath $(BIN))/mypy
	$(BIN)/lint-imports

format: $(VENV)/.check ## fix lint and formatting with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs ## build the documentation into site/
	$(BIN)/mkdocs build --strict
	@echo "wrote site/index.html"

bench: $(VENV)/.bench $(VENV)/.with-torch ## measure speed and memory, and write docs/speed.md
	$(BIN)/python -m benchmarks --write

$(PEERS)/.installed: pyproject.toml $(wildcard benchmarks/peers/*.txt)
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --requirement benchmarks/peers/requirements.txt --editable '.[plot]'
	$(PEERS)/bin/python -m pip install --quiet --no-deps --requirement benchmarks/peers/bare.txt
	@touch $@

bench-peers: $(PEERS)/.installed ## compare thermoset with other libraries and write docs/peers.md
	$(PEERS)/bin/python -m benchmarks.peers

release: $(VENV)/.release $(VENV)/.check ## build wheel and sdist, and try both in environments that have nothing else
	$(BIN)/python tools/release.py

clean: ## remove everything that can be rebuilt
	rm -rf $(VENV) $(PEERS) .venv-* build dist site demo-output evidence-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
