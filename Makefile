# Each target makes the environment that it needs under .venvs/; a second call finds it ready.
# Versions stand in requirements/. To choose the interpreters: make test PYTHON=/path/to/python3.12 PYTHON38=/path/to/python3.8

PYTHON ?= 3.11 3.12 3.13 3.10 3.9 3.8
PYTHON38 ?= 3.8

CURRENT := .venvs/current
IPU_MACHINE := .venvs/ipu-machine
INSTALL_INPUTS := pyproject.toml $(wildcard requirements/*.txt) tools/make_env.sh tools/find_python.sh

# Two workers with one thread each: models in the tests are too small to gain from more threads.
PYTEST := -m pytest -n 2 --dist worksteal --timeout 600
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint format test-current test-ipu-machine suite-ipu-machine docs bench clean
.NOTPARALLEL:

help:
	@echo "make demo    train a small network on handwritten digits with Trainer(accelerator=\"ipu\", devices=2)"
	@echo "make test    lint, then the tests on the current stack and on the stack of an IPU machine (Python 3.8)"
	@echo "make lint    ruff, mypy and the import layers"
	@echo "make format  mend what ruff can mend by itself"
	@echo "make docs    the documentation, into docs/_build/html"
	@echo "make bench   steps per second against Lightning on the CPU (ARGS=\"--json FILE\" keeps the figures)"
	@echo "make clean   remove all that these targets made, environments included"

$(CURRENT)/.%: $(INSTALL_INPUTS)
	@tools/make_env.sh $(CURRENT) $* $(PYTHON)
	@touch $@

$(IPU_MACHINE)/.%: $(INSTALL_INPUTS)
	@tools/make_env.sh $(IPU_MACHINE) $* $(PYTHON38)
	@touch $@

demo: $(CURRENT)/.demo
	$(CURRENT)/bin/python examples/digits.py $(ARGS)

test: lint test-current test-ipu-machine

lint: $(CURRENT)/.test,lint
	$(CURRENT)/bin/ruff check .
	$(CURRENT)/bin/ruff format --check .
	$(CURRENT)/bin/mypy
	$(CURRENT)/bin/lint-imports

test-current: $(CURRENT)/.test,lint
	$(CURRENT)/bin/python $(PYTEST) $(ARGS)

test-ipu-machine:
	@if tools/find_python.sh $(PYTHON38) >/dev/null 2>&1; then \
	  $(MAKE) --no-print-directory suite-ipu-machine; \
	elif [ "$${CI:-}" = true ]; then \
	  echo "The IPU-machine stack needs Python 3.8, and none was found on PATH or in pyenv. CI must test it." >&2; exit 1; \
	else \
	  echo; \
	  echo "############################################################################################"; \
	  echo "# NOT TESTED: the stack of an IPU machine (Python 3.8, torch 2.0.1, Lightning 2.3.3).      #"; \
	  echo "# No Python 3.8 was found on PATH or in pyenv. Install one, or: make test PYTHON38=/path   #"; \
	  echo "############################################################################################"; \
	fi

suite-ipu-machine: $(IPU_MACHINE)/.test
	$(IPU_MACHINE)/bin/python $(PYTEST) $(ARGS)

format: $(CURRENT)/.test,lint
	$(CURRENT)/bin/ruff check --fix .
	$(CURRENT)/bin/ruff format .

docs: $(CURRENT)/.docs
	$(CURRENT)/bin/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(CURRENT)/.test,lint
	$(CURRENT)/bin/python benchmarks/train.py $(ARGS)

clean:
	rm -rf .venvs build dist docs/_build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
