# Every verb sets up what it needs in a local virtual environment, .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo quick test check site bench bench-peers torture release-check format clean

demo: .venv/ready          ## the main job end to end: data, models, comparison, reasons, a report
	$(BIN)/offdiag demo --out demo

quick: .venv/neural        ## the tests that need no seconds of their own: under 90 s on two cores
	$(BIN)/pytest -n 2 --dist loadfile -m 'not slow' --hypothesis-profile quick

test: .venv/neural         ## all tests, also those of the extra `neural`
	$(BIN)/pytest -n 2 --dist loadfile

check: .venv/ready         ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

site: .venv/site           ## the documentation as a site, in the folder `site`: python -m http.server -d site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: .venv/bench         ## benchmarks against peers and limits; writes benchmarks/results and docs/performance.md
	$(BIN)/python benchmarks/run.py

bench-peers: .venv/ready    ## other packages, each in an environment of its own in .peers; writes docs/comparison.md
	$(BIN)/python benchmarks/bench_peers.py

torture: .venv/ready       ## kills, full disks, damaged files and more, for MINUTES of processor time; docs/torture.md
	$(BIN)/python -m tests.torture --minutes $(or $(MINUTES),120)
	$(BIN)/python benchmarks/documents.py

release-check: .venv/ready  ## wheel and sdist in empty environments of every Python that is installed
	$(BIN)/python -m tests.release

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.venv/site: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

.venv/bench: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

# Pinned and before the extra: an index that has a CPU build serves it for the pin, a plain `torch` pulls gigabytes for GPUs.
.venv/neural: .venv/ready
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[neural]'
	@touch $@

clean:
	rm -rf .venv demo site .pytest_cache .mypy_cache .ruff_cache
