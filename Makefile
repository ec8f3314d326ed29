# The two commands of the README: `make demo` and `make test`. Every target sets everything up first.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --editable ./client
EVERYTHING := test,bench,experiments,dask,serve,client,postgres,parquet,frames,docs

.PHONY: demo paper scoreboard bakeoff serve test test-lowest test-wheel dist docs bench clean

demo: .venv/installed
	$(BIN)/syndicated demo --out results/demo

paper: .venv/installed
	$(BIN)/syndicated reproduce all --out results/paper

scoreboard: .venv/installed
	$(BIN)/syndicated scoreboard --out results/scoreboard
	cp results/scoreboard/scoreboard.md results/scoreboard/scoreboard.svg results/scoreboard/scoreboard-trade-off.svg docs/

bakeoff: .venv/installed
	$(BIN)/syndicated bakeoff --out results/bakeoff
	cp results/bakeoff/bakeoff.md docs/

serve: .venv/serve
	$(BIN)/syndicated serve

# Kernels are compiled beside the type checker, which uses one core: the tests would have to wait for them.
test: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/syndicated compile & $(BIN)/mypy && wait
	$(BIN)/pytest -n 3 --dist worksteal --cov

# The lowest versions that pyproject.toml allows, against what calls other packages most. They may warn of newer neighbours.
test-lowest: .venv-lowest/installed
	.venv-lowest/bin/pytest -n 2 -W ignore::DeprecationWarning tests/core tests/policies tests/tuners tests/experiments tests/features tests/client \
	    tests/cli tests/service/http

# Both distributions, as a release has them.
dist:
	rm -rf dist
	$(PYTHON) -m venv .venv-build
	.venv-build/bin/pip install --quiet build twine
	.venv-build/bin/python -m build --outdir dist
	.venv-build/bin/python -m build --outdir dist client
	.venv-build/bin/twine check dist/*

# The wheels in dist/ against the tests of what they do. PYTHONSAFEPATH: what is imported is the wheel, not the checkout.
test-wheel:
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/pip install --quiet dist/syndicated_client-*.whl "$$(echo dist/syndicated-*.whl)[$(EVERYTHING)]"
	PYTHONSAFEPATH=1 .venv-wheel/bin/pytest -n 2 --override-ini pythonpath=tests tests/policies tests/tuners tests/features tests/client \
	    tests/cli tests/evaluate tests/service/http

# The documentation site. A broken link, or a page that is not in the navigation, is an error.
docs: .venv/test
	$(BIN)/python -m sphinx -W --keep-going --quiet docs build/site

# FREE_THREADED=PYTHON: an interpreter without the GIL that syndicated is installed for, too.
bench: .venv/bench
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/performance.py --page docs/performance.md $(if $(FREE_THREADED),--free-threaded $(FREE_THREADED))

clean:
	rm -rf .venv .venv-build .venv-lowest .venv-wheel dist results build client/build *.egg-info client/*.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

.venv/installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable ".[experiments]"
	touch $@

.venv/serve: .venv/installed
	$(INSTALL) --editable ".[serve,client]"
	touch $@

.venv/test: .venv/installed
	$(INSTALL) --editable ".[$(EVERYTHING)]"
	touch $@

.venv/bench: .venv/installed
	$(INSTALL) --editable ".[bench,serve,client]"
	touch $@

.venv-lowest/installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest --resolution lowest-direct \
	    --editable ./client --editable ".[$(EVERYTHING)]"
	touch $@
