# Commands, each with all of its own set-up:
#   make demo      train a plain and a defended classifier on film reviews, attack both, write a report
#   make test      check style, types and behaviour
#   make results   tables and plots out of the packed records in results; no GPU
PYTHON ?= python3
VENV ?= .venv
READY := $(VENV)/ready

.PHONY: demo test results
.DEFAULT_GOAL := demo

demo: $(READY)
	$(VENV)/bin/dualmask quickstart --out demo

test: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest

results: $(READY)
	$(VENV)/bin/python tools/results_page.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dualmask needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Choose one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

# Replays TextAttack's attacks in an environment of their own (1.6 GB), then ours, and compares every query
TEXTATTACK ?= .venv-textattack

.PHONY: parity
parity: $(READY) $(TEXTATTACK)/ready
	$(TEXTATTACK)/bin/python tools/parity_textattack.py
	$(VENV)/bin/python tools/parity.py

$(TEXTATTACK)/ready: tools/textattack-requirements.txt
	$(PYTHON) -m venv $(TEXTATTACK)
	$(TEXTATTACK)/bin/pip install --quiet --constraint constraints.txt torch==2.13.0
	$(TEXTATTACK)/bin/pip install --quiet --no-deps --requirement tools/textattack-requirements.txt
	touch $(TEXTATTACK)/ready
