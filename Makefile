# Needs Python 3.11 or newer and make; everything else is installed into .venv, once, and again when pyproject.toml
# changes. STRICT=1 also installs what is heavy (torch, transformers, lightning, XGBoost, Ray, Spark, chromium) and
# makes a missing part a failure instead of a skip.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OLDEST := .venv-oldest
PEERS  := .venv-peers
FUZZ   ?= 50
export THERMOSET_STRICT := $(STRICT)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1
# Tests start hundreds of processes, and pytest rewrites every test file: without bytecode each of them compiles it all
# again.
export PYTHONDONTWRITEBYTECODE :=

comma := ,
HEAVY := $(if $(filter 1,$(STRICT)),$(VENV)/.with-torch $(VENV)/.with-frameworks $(VENV)/.boosting $(VENV)/.engines $(VENV)/.with-chromium)

.DEFAULT_GOAL := help
.PHONY: help demo test quick test-oldest test-pythons fuzz check bench bench-peers release-check lock docs clean format

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "thermoset needs Python 3.11 or newer; got " + sys.version.split()[0] + ". Run: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

# With STRICT=1, as in CI, every package but PyTorch comes from a lock and is checked by its hash; what is installed afterwards
# finds all it needs and may not look for more.
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

# Every dependency at exactly the lower bound in pyproject.toml, the build's included.
$(OLDEST)/.installed: pyproject.toml tools/oldest.py $(if $(HEAVY),$(VENV)/.with-chromium)
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python tools/oldest.py test torch frameworks boosting > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt hatchling editables
	$(OLDEST)/bin/python -m pip install --quiet --constraint $(OLDEST)/constraints.txt --no-build-isolation --editable '.[test$(if $(HEAVY),$(comma)frameworks$(comma)boosting)]'
	@touch $@

$(VENV)/.with-chromium: tools/chromium.sh | $(BIN)/python
	bash tools/chromium.sh
	@touch $@

demo: $(VENV)/.plot $(VENV)/.report ## run a demo on real data and write figures and a report to demo-output/
	@$(BIN)/thermoset demo --out demo-output

# Kernels are kept from run to run: their names tell what they were compiled from, so that none is older than its source.
test quick: export NUMBA_CACHE_DIR := $(or $(NUMBA_CACHE_DIR),$(CURDIR)/$(VENV)/kernels)
test: $(VENV)/.test $(HEAVY) ## run every test and doctest
	$(BIN)/python -m pytest -n auto --dist worksteal -q

quick: $(VENV)/.test ## run the core tests in under a minute: two cases of each, no end-to-end jobs
	$(BIN)/python -m pytest -n auto --dist worksteal -q --quick

fuzz: $(VENV)/.test $(HEAVY) ## fuzz readers, numbers, writers and environments, FUZZ times as long as `make test`
	THERMOSET_FUZZ=$(FUZZ) $(BIN)/python -m pytest -n auto --dist worksteal -q --hypothesis-profile=explore tests/fuzz tests/attacks

SAME := calibration sets sweep predictor
# Old releases call newer ones in deprecated ways, which is no concern of this project.
test-oldest: $(VENV)/.test $(OLDEST)/.installed ## run every test on the oldest supported dependencies, and compare results bit for bit with the newest
	$(BIN)/python tools/digest.py $(SAME) > $(OLDEST)/newest.txt
	$(OLDEST)/bin/python tools/digest.py $(SAME) > $(OLDEST)/oldest.txt
	diff $(OLDEST)/newest.txt $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python -m pytest -n auto --dist worksteal -q -W default::DeprecationWarning --disable-warnings

# Interpreters to try, as names on the PATH or as paths; those of pyenv are found too.
PYTHONS ?= $(shell $(PYTHON) tools/pythons.py 3.11 3.12 3.13)
test-pythons: ## run the quick tests and the demo on every Python from 3.11 to 3.13 that is found
	@test -n "$(PYTHONS)" || { echo "no Python 3.11, 3.12 or 3.13 was found. Run: make test-pythons PYTHONS=/path/to/python3.12"; exit 1; }
	for python in $(PYTHONS); do \
		version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		$(MAKE) --no-print-directory quick demo PYTHON=$$python VENV=.venv-$$version STRICT= || exit 1; \
		echo "Python $$version: quick tests and demo passed"; \
	done

check: $(VENV)/.check $(HEAVY) ## check lint, formatting, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd tests/typed_client && $(CURDIR)/$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.check ## fix lint and formatting with ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench $(VENV)/.with-torch ## measure speed and memory, and write docs/speed.md
	$(BIN)/python -m benchmarks --write

$(PEERS)/.installed: pyproject.toml $(wildcard benchmarks/peers/*.txt)
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --requirement benchmarks/peers/requirements.txt --editable '.[plot]'
	$(PEERS)/bin/python -m pip install --quiet --no-deps --requirement benchmarks/peers/bare.txt
	@touch $@

bench-peers: $(PEERS)/.installed ## compare thermoset with other libraries and write docs/peers.md
	$(PEERS)/bin/python -m benchmarks.peers

release-check: $(VENV)/.release $(VENV)/.check ## build wheel and sdist, and try both in environments that have nothing else
	$(BIN)/python tools/release_check.py

lock: $(VENV)/.release ## write requirements/ci.txt again; with UPGRADE=1 at the newest versions
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --prerelease disallow --generate-hashes $(if $(UPGRADE),--upgrade) \
		--no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-package torch \
		--override requirements/without-torch.txt --extra check --extra frameworks --extra boosting --extra engines \
		--output-file requirements/ci.txt requirements/ci.in pyproject.toml

docs: $(VENV)/.docs ## build the documentation into site/
	$(BIN)/mkdocs build --strict
	@echo "wrote site/index.html"

clean: ## remove everything that can be rebuilt
	rm -rf $(VENV) $(OLDEST) $(PEERS) .venv-3.* build dist site demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
