# The verbs of this repo. Each does its own set-up: `make test` on a fresh checkout is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Brokers are started hundreds of times: what they import is compiled once, as after `pip install`.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test java lint bench compat faults simulate mutate clean

$(READY): pyproject.toml constraints.txt setup.py $(wildcard src/ottla/*/native/*.p*)
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Ottla needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,spark,lake]'
	@touch $@

demo: java $(READY)
	@$(BIN)/python examples/demo.py

test: java lint
	@$(BIN)/pytest tests

java:
	@sh tools/java.sh

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(READY)
	@$(BIN)/python -m bench

compat: $(READY)
	@$(BIN)/python -m compat

faults: $(READY)
	@$(BIN)/python -m faults

simulate: $(READY)
	@$(BIN)/python -m tests.simulation --minutes 20

mutate: $(READY)
	@nice $(BIN)/python -m tools.mutate $(MUTATE)

clean:
	rm -rf $(VENV) build *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache src/ottla/*/native/*.so
