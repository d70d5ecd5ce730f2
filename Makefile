# What a person wants, by name: demo, test, check, bench, docs.
# Every target makes its own .venv the first time and works offline from then on: $(VENV)/wheels has what the test of a
# bare install (tests/test_bare_install.py) installs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Python may keep what it compiled, whatever the environment says: the tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-slow test-compiled fuzz check bench docs clean

help:
	@echo "make demo       a live cluster with an accident, audited and drawn; a published table redone"
	@echo "make test       make check, then every test but the slow ones (what CI runs)"
	@echo "make test-slow  the long searches and the kill tests"
	@echo "make test-compiled  the same runs, and tests of pure layers, on all modules as a wheel has them (a few minutes)"
	@echo "make fuzz       a minute of coverage-guided fuzzing of each parser"
	@echo "make check      ruff, its format check and strict mypy"
	@echo "make bench      speed and memory beside the aims and beside peers (a quarter of an hour and more)"
	@echo "make docs       regenerate the reference pages under docs/"
	@echo "make clean      remove what the targets made"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "antecede needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "installing into $(VENV) (once) ..."
	@$(PYTHON) -m venv $(VENV)
	@ANTECEDE_COMPILE=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@ANTECEDE_COMPILE=0 $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --wheel-dir $(VENV)/wheels . 'setuptools>=68'
	@touch $@

demo: $(READY)
	@$(BIN)/antecede demo

# Programs the tests use as a user would: a browser to look at pages with, a broker to stand on. Left out loudly where
# they cannot be had.
# Five tests run at a time, those of a file in one process (tests/scheduling.py): half of their time is waiting.
# `make test JOBS=0` runs all one by one. The first time, one process compiles the tests beside `make check`, which needs
# one core: else each of the five would compile them all.
JOBS ?= 5
test: $(READY)
	@[ -d tests/__pycache__ ] || $(BIN)/python -m pytest --collect-only >/dev/null 2>&1 & \
	  $(MAKE) --no-print-directory check && wait
	@sh tests/system_packages.sh chromium curl mosquitto-clients nats-server nodejs redis-server
	@$(BIN)/python -m pytest -rs --durations 25 --numprocesses $(JOBS)

test-slow: $(READY)
	@$(BIN)/python -m pytest -m slow -o faulthandler_timeout=7200

test-compiled: $(READY)
	@ANTECEDE_COMPILE=1 ANTECEDE_OPTIMISE=1 $(BIN)/python -m pytest -rs tests/test_compiled.py -o timeout=1800 -o faulthandler_timeout=1900

fuzz: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@for parser in wire mqtt blocks roster config http parquet; do echo "== $$parser"; $(BIN)/python -m tests.fuzz.run $$parser -max_total_time=60; done

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: $(READY)
	@sh tests/system_packages.sh nats-server redis-server mosquitto mosquitto-clients
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@for script in simulator compiled sweep audit vcube_ps locamu gossip spark_stream live hostile mqtt mqtt_order logs logs_spark; do echo "== bench/$$script.py"; $(BIN)/python bench/$$script.py; done

docs: $(READY)
	@$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist out
