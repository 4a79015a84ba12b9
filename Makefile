# Two commands: `make demo` runs the main job, `make test` the test suite.
# Both set up everything they need in .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow fuzz check wheel install zoo tables clean help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(STAMP)  ## make .venv with pomp and its development tools

$(STAMP): pyproject.toml constraints.txt
	@echo "Making a virtual environment in $(VENV) with $$($(PYTHON) --version)."
	@$(PYTHON) -m venv $(VENV)
	@echo "Installing pomp, what it needs and its tools: 0.4 GB to download, minutes;"
	@echo "where pip chooses a torch with CUDA libraries, several GB."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@
	@echo "Installed: the command is $(BIN)/pomp."

demo: install  ## show a machine, then learn one for Up-N-Down (minutes); again: go on, or show it
	@echo "A machine that comes with pomp, and one of its episodes (not compiled: at once):"
	@NUMBA_DISABLE_JIT=1 PYTHONWARNINGS=ignore $(BIN)/pomp play UpNDown/text --print
	@mkdir -p demo
	@if test -d demo/UpNDown; then \
	  echo "The search in demo/UpNDown, gone on with if it was stopped:"; \
	  set -- --out demo/UpNDown --resume; \
	else \
	  echo "Now pomp searches one of its own, in 20 rounds; the files will be in demo/UpNDown:"; \
	  set -- UpNDown --out demo/UpNDown; \
	fi; \
	echo "$(BIN)/pomp train $$*"; $(BIN)/pomp train "$$@"

test: install  ## run the test suite (minutes)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: install  ## run the long tests too
	$(BIN)/python -m pytest -m 'slow and not cuda'

fuzz: install  ## files changed, calls misused, runs killed at random (MINUTES=60)
	$(BIN)/python tests/fuzz/trials.py --minutes $(or $(MINUTES),60)

check: install  ## lint, format, types, layers, and what tools/check_house.py counts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_house.py

wheel: install  ## build wheel and sdist; use the wheel in an empty environment (PYTHONS=others)
	$(BIN)/python tools/check_wheel.py $(PYTHONS)

zoo: install  ## put machines of trainings (RUNS=folders) into the package, where they are better
	$(BIN)/python -c 'import sys, pathlib, pomp.machine.zoo as zoo; \
	  [print(run, *zoo.add_to_zoo(pathlib.Path(run))) for run in sys.argv[1:]]' $(RUNS)

tables: install  ## write the tables of README.md and docs/RESULTS.md from results/
	$(BIN)/python tools/write_tables.py

clean:  ## remove everything the other targets made
	rm -rf $(VENV) demo build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
