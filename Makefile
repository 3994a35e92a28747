# Needs Python 3.11 or newer and make; everything else is installed into .venv, once, and again when pyproject.toml changes.
# STRICT=1 also installs what is heavy (torch, chromium) and makes a missing part a failure instead of a skip.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export THERMOSET_STRICT := $(STRICT)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

HEAVY := $(if $(filter 1,$(STRICT)),$(VENV)/.with-torch $(VENV)/.with-chromium)

.DEFAULT_GOAL := help
.PHONY: help demo test check bench docs clean format

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "thermoset needs Python 3.11 or newer; got " + sys.version.split()[0] + ". Run: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

# One stamp for each extra of pyproject.toml: a target installs what it needs and no more.
EXTRAS := plot report test check docs bench
$(EXTRAS:%=$(VENV)/.%): $(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

# PyTorch's CPU build; the newest release would bring gigabytes for graphics cards.
$(VENV)/.with-torch: | $(BIN)/python
	$(BIN)/python -m pip install --quiet 'torch==2.13.0'
	@touch $@

$(VENV)/.with-chromium: tools/chromium.sh | $(BIN)/python
	bash tools/chromium.sh
	@touch $@

demo: $(VENV)/.plot $(VENV)/.report ## run the main job on real data and write figures and the report to demo-output/
	@$(BIN)/thermoset demo --out demo-output

test: $(VENV)/.test $(HEAVY) ## run every test and doctest
	$(BIN)/python -m pytest -n auto --dist worksteal -q

check: $(VENV)/.check $(HEAVY) ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.check ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench $(VENV)/.with-torch ## measure speed and memory against peers
	bash benchmarks/peers.sh $(BIN)/python
	$(BIN)/python -m benchmarks

docs: $(VENV)/.docs ## build the documentation into site/
	$(BIN)/mkdocs build --strict --quiet
	@echo "wrote site/index.html"

clean: ## remove everything that can be made again
	rm -rf $(VENV) build dist site demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
