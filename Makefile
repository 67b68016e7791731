# One command each, and the same commands in continuous integration. `make help` lists them.
# Everything happens in environments inside this directory. Nothing is installed outside it, but for a browser where the
# tests of the report find none and root runs them, as in a container (.ci/browser).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

VENV := .venv
DEBUG_VENV := .venv-debug
DEBUG_PYTHON := $(CURDIR)/$(DEBUG_VENV)/bin/python
DEBUG_TREE := build/debug
ASAN_TREE := build/asan
TSAN_TREE := build/tsan
BENCH_VENV := .venv-bench
BIN := $(VENV)/bin
JOBS ?= auto
PYTEST_ARGS ?=
BENCH_ARGS ?=
LONG_ARGS ?=
# Where Python is told to keep no bytecode, every process that a test starts would compile the library anew.
export PYTHONDONTWRITEBYTECODE :=
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

.PHONY: help venv build lint test test-long test-release coverage debug-test asan tsan demo docs wheel reproducible bench docs-check clean

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
	@PYTHONWARNINGS=ignore $(BIN)/python $(EDITABLE) ".[test,test-interop,test-spark,test-sql,lint]"
	@touch $@

build: $(VENV)/.built ## compile the native kernels in place

# The installation compiles all kernels, in a place that is gone afterwards: the next build would compile them once more.
$(VENV)/.built: $(VENV)/.installed $(NATIVE_SOURCES)
	@if [ -n "$$(find $(NATIVE_SOURCES) -newer $(VENV)/.installed)" ]; then \
		echo "== compiling the kernels that changed"; \
		$(BIN)/python setup.py --quiet build_ext --inplace; fi
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
	@.ci/browser
	@echo "== tests"
	@# What stays together in one process, and what begins: tests/distribution.py.
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

# strace and a mount of one's own are looked for by the programme, and what needs them is named if they are missing.
test-long: build ## the reliability programme, about an hour; LONG_ARGS="--only K1 --every 10"
	@$(BIN)/python -m tests.long --tier long --output build/reliability-long.md $(LONG_ARGS)

test-release: build ## the same before a release, hours
	@$(BIN)/python -m tests.long --tier release --output build/reliability-release.md $(LONG_ARGS)

coverage: build $(VENV)/.coverage ## which lines and branches of lsmerge the suite reaches; as long as the suite, and more
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/python -m coverage run -m pytest -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report

$(VENV)/.coverage: $(VENV)/.installed
	@PYTHONWARNINGS=ignore $(BIN)/python $(EDITABLE) ".[coverage]"
	@touch $@

# Tests that read documents, start programs, or fail calls of the disk: they run no kernel that the others do not run.
NO_KERNELS := spark interop statements cli test_cli_report.py test_report.py test_report_browser.py test_examples.py \
	test_docs.py test_api_docs.py test_migration_docs.py test_missing_packages.py test_layers.py test_suite.py \
	test_options.py test_metrics.py test_memory.py test_object_store.py test_fault_loop.py test_expiry_faults.py \
	test_changelog_retention.py test_failpoints.py test_syscalls.py test_load.py test_schedules.py test_hostile.py \
	test_commit_races.py test_expiry_races.py test_partition_races.py
# What the library and its tests need, without the library, which is compiled where it is tested.
NEEDS := import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*project["dependencies"], *project["optional-dependencies"]["test"], sep="\n")

debug-test: ## the tests that run kernels, compiled with bounds checks, apart from the release build
	@echo "== debug build in $(DEBUG_TREE)"
	@rm -rf $(DEBUG_TREE) && mkdir -p $(DEBUG_TREE)
	@tar -c --exclude=./build --exclude='./.venv*' --exclude=./.git --exclude='*.so' \
		--exclude=__pycache__ --exclude='*.egg-info' . | tar -x -C $(DEBUG_TREE)
	@python=$$($(FIND_PYTHON)); [ -x $(DEBUG_PYTHON) ] || "$$python" -m venv $(DEBUG_VENV)
	@$(DEBUG_PYTHON) -c '$(NEEDS)' > $(DEBUG_TREE)/needs.txt
	@$(DEBUG_PYTHON) -m pip install --quiet --upgrade pip "setuptools>=77" "cython>=3.1" -r $(DEBUG_TREE)/needs.txt
	@cd $(DEBUG_TREE) && LSMERGE_DEBUG=1 $(DEBUG_PYTHON) setup.py --quiet build_ext --inplace
	@echo "== tests, debug build"
	@# Bounds are met by few examples as by many; the search for rare ones is that of the release build.
	@cd $(DEBUG_TREE) && LSMERGE_EXAMPLES=2 $(DEBUG_PYTHON) -m pytest -n $(JOBS) --dist loadgroup \
		$(addprefix --ignore=tests/,$(NO_KERNELS)) $(PYTEST_ARGS)

# A copy of the sources in which kernels are compiled for a sanitizer: $(1) tree, $(2) flags.
define SANITIZED
	@echo "== sanitized build in $(1)"
	@rm -rf $(1) && mkdir -p $(1)
	@tar -c --exclude=./build --exclude='./.venv*' --exclude=./.git --exclude='*.so' \
		--exclude=__pycache__ --exclude='*.egg-info' . | tar -x -C $(1)
	@cd $(1) && CFLAGS="$(2) -fno-omit-frame-pointer" LDFLAGS="$(2)" LSMERGE_DEBUG=1 \
		$(CURDIR)/$(BIN)/python setup.py --quiet build_ext --inplace
endef

# Python itself is not instrumented: the runtime of the sanitizer is loaded before it, and leaks are not looked for.
asan: build ## kernels and decoders under the address and undefined-behaviour sanitizers
	$(call SANITIZED,$(ASAN_TREE),-fsanitize=address$(comma)undefined)
	@cd $(ASAN_TREE) && export LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 PYTHONMALLOC=malloc LSMERGE_EXAMPLES=2; \
		$(CURDIR)/$(BIN)/python -m pytest -q -p no:cacheprovider tests/native tests/test_bad_input.py tests/test_types.py && \
		$(CURDIR)/$(BIN)/python -m tests.long --only H3 --jobs 1 $(LONG_ARGS)

tsan: build ## threads that read and write one table under the thread sanitizer
	$(call SANITIZED,$(TSAN_TREE),-fsanitize=thread)
	@# First a race on purpose: a sanitizer that does not tell of it would tell of none.
	@cd $(TSAN_TREE) && export LD_PRELOAD="$$(gcc -print-file-name=libtsan.so)" ARROW_DEFAULT_MEMORY_POOL=system \
		TSAN_OPTIONS="suppressions=$(CURDIR)/.ci/tsan_suppressions.txt"; \
		! $(CURDIR)/$(BIN)/python -m tests.long.threads canary 2>/dev/null || { echo "no race is seen" >&2; exit 1; }; \
		$(CURDIR)/$(BIN)/python -m tests.long.threads 80

comma := ,

# --- to look at ---------------------------------------------------------------------------------

demo: build ## a short tour of a table on local disk, and of Spark where Java is found
	@$(BIN)/python examples/tour.py
	@$(BIN)/python examples/spark_tour.py

docs: $(VENV)/.docs ## the documentation site, into site/; a warning is an error
	@echo "== documentation site in site/"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/.docs: $(VENV)/.installed
	@PYTHONWARNINGS=ignore $(BIN)/python $(EDITABLE) ".[docs]"
	@touch $@

# Times of files in archives; without it a wheel would differ from day to day.
ifndef SOURCE_DATE_EPOCH
wheel reproducible: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 315619200)
endif

wheel: $(VENV)/.installed ## a wheel, a source archive and an inventory in dist/, tried in an environment of their own
	@echo "== wheel in dist/"
	@rm -rf dist && mkdir dist
	@$(BIN)/python setup.py --quiet sdist >/dev/null
	@# From the archive and in isolation, as at a user's: what it lacks, or what only is here, shows.
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist dist/*.tar.gz
	@$(BIN)/python .ci/check_wheel.py dist build/wheel-trial

reproducible: wheel ## the same wheel built once more, byte for byte
	@rm -rf build/wheel-again && mkdir -p build/wheel-again
	@$(BIN)/python -m pip wheel --quiet --no-deps --no-cache-dir --wheel-dir build/wheel-again dist/*.tar.gz
	@cmp dist/*.whl build/wheel-again/*.whl && echo "the wheel is the same, byte for byte"

bench: build $(BENCH_VENV)/.installed ## lsmerge beside its peers; BENCH_ARGS="--rows 100000"
	@$(BENCH_VENV)/bin/python -m bench.compare $(BENCH_ARGS)

$(BENCH_VENV)/.installed: $(PROJECT_FILES) bench/peers.py bench/registry.py | build
	@echo "== making $(BENCH_VENV)"
	@$(BIN)/python -m bench.peers
	@touch $@

clean: ## remove everything that was built or installed here
	@rm -rf build dist site *.egg-info $(VENV) $(DEBUG_VENV) $(BENCH_VENV) $(BENCH_VENV)-*
	@rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find lsmerge_native -name '*.so' -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
