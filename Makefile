# The verbs of this repo. Each does its own set-up: `make test` on a fresh checkout is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Brokers are started hundreds of times: what they import is compiled once, as after `pip install`.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-fast coverage readme java lint bench compat faults simulate stalls mutate docs clean
# How long `make simulate` runs.
MINUTES ?= 20
# Processes that share the tests: most of them wait for servers, so more than there are cores.
TEST_PROCESSES ?= 4
PYTEST := $(BIN)/pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder --durations 20

$(READY): pyproject.toml constraints.txt setup.py $(wildcard src/ottla/*/native/*.p*)
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Ottla needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,spark,lake,plot,registry,avro]'
	@touch $@

demo: java $(READY)
	@$(BIN)/python examples/demo.py

# Lint and types run beside the tests, and are shown after them. `test-all` also runs what
# `make faults` and `make compat` repeat in a longer form.
test: TESTS := -m "not long"
test-all: TESTS :=
test test-all: java $(READY)
	@$(MAKE) --no-print-directory lint > $(VENV)/lint.log 2>&1 & lint=$$!; \
	$(PYTEST) --reruns 2 $(TESTS) tests; tested=$$?; \
	wait $$lint; linted=$$?; cat $(VENV)/lint.log; exit $$((tested + linted))

# What needs neither Java nor seconds of waiting.
test-fast: $(READY)
	@$(PYTEST) -m "not long" tests/test_later.py tests/test_waiting.py $(addprefix tests/,api audit bench broker client config coordinator log records security simulation wire)

coverage: java $(READY)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -m 'not long' tests
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

# Every command and snippet of the README, in a clean environment.
readme: java $(READY)
	@$(BIN)/python -m tools.readme

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
	@$(BIN)/python -m compat $(COMPAT)

faults: $(READY)
	@$(BIN)/python -m faults

simulate: $(READY)
	@$(BIN)/ottla simulate --minutes $(MINUTES)

stalls: $(READY)
	@$(BIN)/python -m tests.stalls

mutate: $(READY)
	@nice $(BIN)/python -m tools.mutate $(MUTATE)

# The site of docs/, in build/site; its tools have a place of their own.
docs:
	@test -x $(VENV)-docs/bin/mkdocs || { $(PYTHON) -m venv $(VENV)-docs && $(VENV)-docs/bin/pip install --quiet 'mkdocs-material>=9.6' 'mkdocstrings[python]>=0.29'; }
	@NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict --quiet

clean:
	rm -rf $(VENV) $(VENV)-docs build *.egg-info src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache src/ottla/*/native/*.so
