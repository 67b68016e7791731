# One command each, and the same commands in continuous integration. `make help` lists them.
# Everything happens in environments inside this directory; nothing is installed outside it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
DEBUG_VENV := .venv-debug
DEBUG_PYTHON := $(CURDIR)/$(DEBUG_VENV)/bin/python
DEBUG_TREE := build/debug
BENCH_VENV := .venv-bench
BIN := $(VENV)/bin
JOBS ?= auto
PYTEST_ARGS ?=
BENCH_ARGS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

# An interpreter will do if it is new enough, can make environments and has its C headers.
SUITABLE := import ensurepip, os, sys, sysconfig, venv; \
	sys.exit(sys.version_info < (3, 11) or \
	not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
CANDIDATES := python3 python3.11 python3.12 python3.13 python3.14
FIND_PYTHON = for candidate in $(CANDIDATES); do \
	if "$$candidate" -c '$(SUITABLE)' 2>/dev/null; then echo "$$candidate"; exit 0; fi; done; \
	echo "No Python 3.11 or newer with venv and C headers is on the PATH." >&2; \
	echo "On Debian or Ubuntu: apt install python3 python3-venv python3-dev gcc make" >&2; exit 1

PROJECT_FILES := pyproject.toml setup.py
NATIVE_SOURCES := $(wildcard lsmerge_native/*.pyx lsmerge_native/*.pxd lsmerge_native/include/*)
NATIVE_MODULES := $(patsubst lsmerge_native/%.pyi,lsmerge_native.%,$(wildcard lsmerge_native/*.pyi))
PYTHON_SOURCES := lsmerge lsmerge_native pyspark_lsmerge tests bench .ci setup.py $(wildcard examples)

.PHONY: help venv build lint test debug-test demo bench docs-check clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# setuptools warns of every editable installation; Cython and the compiler are not affected.
EDITABLE := -m pip install --quiet --editable

# --- environments -------------------------------------------------------------------------------

venv: $(VENV)/.installed ## make .venv with the library, the tests' and the linters' needs

$(VENV)/.installed: $(PROJECT_FILES)
	@echo "== making $(VENV) (a minute or two: fetches packages, compiles the kernels)"
	@python=$$($(FIND_PYTHON)); [ -x $(BIN)/python ] || "$$python" -m venv $(VENV)
	@# Cython first: were it newer than what the installation compiles, `build` would start anew.
	@$(BIN)/python -m pip install --quiet --upgrade pip "setuptools>=77" "cython>=3.1"
	@PYTHONWARNINGS=ignore $(BIN)/python $(EDITABLE) ".[test,test-spark,lint]"
	@touch $@

build: $(VENV)/.built ## compile the native kernels in place

$(VENV)/.built: $(VENV)/.installed $(NATIVE_SOURCES)
	@echo "== compiling the kernels that changed"
	@$(BIN)/python setup.py --quiet build_ext --inplace --parallel 2
	@touch $@

# --- checks -------------------------------------------------------------------------------------

lint: build ## ruff, mypy --strict, stubtest, cython-lint, documentation links
	@echo "== ruff"
	@$(BIN)/ruff check --quiet $(PYTHON_SOURCES)
	@$(BIN)/ruff format --quiet --check $(PYTHON_SOURCES) || \
		{ echo "run: $(BIN)/ruff format ." >&2; exit 1; }
	@echo "== mypy"
	@$(BIN)/mypy --no-error-summary
	@echo "== stubtest"
	@$(BIN)/stubtest --concise --mypy-config-file pyproject.toml \
		--allowlist .ci/stubtest_allowlist.txt --ignore-unused-allowlist $(NATIVE_MODULES)
	@echo "== cython-lint"
	@PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint lsmerge_native
	@$(MAKE) docs-check

docs-check: $(VENV)/.installed ## links and examples of the documentation
	@echo "== documentation"
	@$(BIN)/python .ci/check_docs.py

test: lint ## everything a change must pass: lint and the whole suite
	@echo "== tests"
	@# Tests of one group, as those of Spark are, run in one process; all others as they come.
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

debug-test: ## the suite on kernels compiled with bounds checks, apart from the release build
	@echo "== debug build in $(DEBUG_TREE)"
	@rm -rf $(DEBUG_TREE) && mkdir -p $(DEBUG_TREE)
	@tar -c --exclude=./build --exclude='./.venv*' --exclude=./.git --exclude='*.so' \
		--exclude=__pycache__ --exclude='*.egg-info' . | tar -x -C $(DEBUG_TREE)
	@python=$$($(FIND_PYTHON)); [ -x $(DEBUG_PYTHON) ] || "$$python" -m venv $(DEBUG_VENV)
	@$(DEBUG_PYTHON) -m pip install --quiet --upgrade pip
	@cd $(DEBUG_TREE) && PYTHONWARNINGS=ignore LSMERGE_DEBUG=1 $(DEBUG_PYTHON) $(EDITABLE) ".[test]"
	@echo "== tests, debug build"
	@# Bounds are met by few examples as by many; the search for rare ones is that of the release build.
	@# Spark brings no kernel that the other tests do not run.
	@cd $(DEBUG_TREE) && LSMERGE_EXAMPLES=2 $(DEBUG_PYTHON) -m pytest -n $(JOBS) --ignore tests/spark $(PYTEST_ARGS)

# --- to look at ---------------------------------------------------------------------------------

demo: build ## a short tour of a table on local disk, and of Spark where Java is found
	@$(BIN)/python examples/tour.py
	@$(BIN)/python examples/spark_tour.py

bench: build $(BENCH_VENV)/.installed ## lsmerge beside its peers; BENCH_ARGS="--rows 100000"
	@$(BENCH_VENV)/bin/python -m bench.compare $(BENCH_ARGS)

$(BENCH_VENV)/.installed: $(PROJECT_FILES) bench/peers.py bench/registry.py | build
	@echo "== making $(BENCH_VENV)"
	@$(BIN)/python -m bench.peers
	@touch $@

clean: ## remove everything that was built or installed here
	@rm -rf build dist *.egg-info $(VENV) $(DEBUG_VENV) $(BENCH_VENV) $(BENCH_VENV)-*
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find lsmerge_native -name '*.so' -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
