# Each target sets up what it needs; see .ci/setup. PYTHON chooses the interpreter for .venv.
PYTHON ?= python3
export PYTHON

.PHONY: demo test test-thorough lint bench docs

demo:    ## write a small dataset, mount it, and show what is in it
	.ci/setup demo
	.venv/bin/zarrfuse demo

# Two processes run the tests; one with ARGS="-n 0". What the many processes that tests start have
# compiled of Python stays for the next one.
PYTEST = env -u PYTHONDONTWRITEBYTECODE .venv/bin/python -m pytest -n 2 --dist worksteal

test:    ## run the tests, of what is random or many a sample; make test ARGS="-k name"
	.ci/setup test
	$(PYTEST) $(ARGS)

test-thorough: ## run the tests with everything that is sampled by `make test`
	.ci/setup test
	$(PYTEST) --thorough $(ARGS)

lint:    ## style, types, and that imports point down
	.ci/setup lint
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench:   ## compare with bindfs, the bare file system and zarr-python; ARGS="--rounds 3 --json FILE"
	.ci/setup bench
	.venv/bin/python -m benchmarks $(ARGS)

docs:    ## build the documentation site in dist/site
	.ci/setup docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict --config-file .mkdocs.yml
