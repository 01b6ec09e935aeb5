PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: run test published conformance check docs bench bench-quick ci clean

run: $(STAMP)
	$(BIN)/kimi-gateway serve --http --demo

test: $(STAMP)
	$(BIN)/python -P -m pytest -n 2 tests

# Not in CI: dozens of published servers, listed directly and through one gateway. The first run needs the network.
published: $(STAMP)
	PYTHONPATH=$(CURDIR) $(BIN)/python -P -m tests.real.published

conformance: $(STAMP)
	PYTHONPATH=. $(BIN)/python -P -m tests.conformance.run $(LEGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -P docs/generate.py --check

docs: $(STAMP)
	$(BIN)/python -P docs/generate.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks

bench-quick: $(STAMP)
	$(BIN)/python -m benchmarks --quick

ci:
	bash .ci/run

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[test,check]'
	@touch $@

clean:
	rm -rf .venv build *.egg-info
