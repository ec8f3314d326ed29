# The two commands of the README: `make demo` and `make test`. Every target sets everything up first.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo paper scoreboard serve test bench clean

demo: .venv/installed
	$(BIN)/syndicated reproduce figure2 --environment simulation --policy LinUCB --out results/demo

paper: .venv/installed
	$(BIN)/syndicated reproduce all --out results/paper

scoreboard: .venv/installed
	$(BIN)/syndicated scoreboard --out results/scoreboard
	cp results/scoreboard/scoreboard.md results/scoreboard/scoreboard.svg docs/

serve: .venv/serve
	$(BIN)/syndicated serve

test: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2

bench: .venv/bench
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv results build *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/serve: .venv/installed
	$(BIN)/pip install --quiet --editable ".[serve]"
	touch $@

.venv/test: .venv/installed
	$(BIN)/pip install --quiet --editable ".[test,bench,dask,serve,postgres,parquet]"
	touch $@

.venv/bench: .venv/installed
	$(BIN)/pip install --quiet --editable ".[bench]"
	touch $@
