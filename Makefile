# Everything a checkout needs: `make demo` and `make test` set themselves up.
# Needs Python 3.11 to 3.14, make, and for the editor targets Node 20 or later.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
EXTENSION := editors/vscode
VSIX := $(EXTENSION)/accelopt.vsix
DEMO_KERNEL ?= examples/legacy/matmul.py
DEMO_OPTIONS ?= --diff --budget-seconds 60
PYTEST_OPTIONS ?= -n auto

.PHONY: help setup demo test lint format golden vsix e2e e2e-vscode e2e-neovim e2e-emacs clean

help:
	@echo "make demo    optimize an example kernel, offline, and show the diff"
	@echo "make test    run the test suite"
	@echo "make lint    style, types, import contracts, extension types"
	@echo "make golden  write the golden files anew from the current results"
	@echo "make vsix    package the VS Code extension"
	@echo "make e2e     drive a real VS Code, Neovim and Emacs (first run: 700 MB in .e2e/);"
	@echo "             make e2e-vscode, e2e-neovim or e2e-emacs drives one of them"
	@echo "make clean   remove what these targets made"

# The first interpreter on the path that is new enough and can make environments.
$(BIN)/python:
	@for candidate in "$${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14; do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then \
	    echo "Creating $(VENV) with $$("$$candidate" --version)"; \
	    exec "$$candidate" -m venv $(VENV); \
	  fi; \
	done; \
	echo "No Python 3.11 to 3.14 with the venv module found (on Debian: apt-get install python3-venv); set PYTHON=/path/to/python3" >&2; \
	exit 1

$(VENV)/.runtime: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -qq --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.runtime

setup: $(VENV)/.dev

demo: $(VENV)/.runtime
	@$(BIN)/accelopt optimize $(DEMO_KERNEL) $(DEMO_OPTIONS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(PYTEST_OPTIONS)

golden: $(VENV)/.dev
	$(BIN)/python -m pytest $(PYTEST_OPTIONS) --update-golden

lint: $(VENV)/.dev $(EXTENSION)/node_modules/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	cd $(EXTENSION) && npm run --silent lint
	cd $(EXTENSION) && node --test --test-reporter=dot test/*.test.mjs

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(EXTENSION)/node_modules/.installed: $(EXTENSION)/package.json $(EXTENSION)/package-lock.json
	@command -v npm >/dev/null || { echo "npm is missing: install Node 20 or later" >&2; exit 1; }
	cd $(EXTENSION) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

VSIX_SOURCES := $(wildcard $(addprefix $(EXTENSION)/,src/*.ts *.json *.mjs *.md images/* LICENSE .vscodeignore))

$(VSIX): $(EXTENSION)/node_modules/.installed $(VSIX_SOURCES)
	cd $(EXTENSION) && npm run --silent package

vsix: $(VSIX)

e2e: e2e-vscode e2e-neovim e2e-emacs

e2e-vscode: $(VSIX) $(VENV)/.runtime
	@VSIX=$(abspath $(VSIX)) PYTHON=$(abspath $(BIN)/python) E2E_HOME=$(abspath .e2e) bash tests/e2e/run.sh

e2e-neovim e2e-emacs: e2e-%: $(VENV)/.runtime
	@$(BIN)/python tests/e2e/$*/drive.py $(abspath .e2e)

clean:
	rm -rf $(VENV) .e2e build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf $(EXTENSION)/node_modules $(EXTENSION)/dist $(EXTENSION)/*.vsix
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
