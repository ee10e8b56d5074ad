# Each target sets up what it needs; see .ci/setup. PYTHON chooses the interpreter for .venv.
PYTHON ?= python3
export PYTHON

.PHONY: demo test lint bench

demo:    ## write a small dataset, mount it, and show what is in it
	.ci/setup demo
	.venv/bin/zarrfuse demo

test:    ## run all tests; extra arguments: make test ARGS="-k name"
	.ci/setup test
	.venv/bin/python -m pytest $(ARGS)

lint:    ## style, types, and that imports point down
	.ci/setup lint
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench:   ## compare with bindfs, the bare file system and zarr-python; ARGS="--rounds 3"
	.ci/setup bench
	.venv/bin/python -m benchmarks $(ARGS)
