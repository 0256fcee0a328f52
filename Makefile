PYTHON ?= $(or $(wildcard .venv/bin/python),python3)

# Lint, types and the tests of what was changed since HEAD, or since another commit: `make quick SINCE=main`.
.PHONY: quick
quick:
	$(PYTHON) -m tests.quick $(SINCE)
