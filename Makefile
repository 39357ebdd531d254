# Commands, each with all of its own set-up:
#   make demo      train a plain and a defended classifier on film reviews, attack both, write a report
#   make test      check style, types and behaviour in minutes: every test but those marked slow
#   make test-all  all tests, as CI runs them
#   make results   tables and plots out of the packed records in results; no GPU
#   make row       measure a row of the measured table again, such as ROW=mr.gte-small-mlm.ttso., and compare
PYTHON ?= python3
VENV ?= .venv
READY := $(VENV)/ready

.PHONY: demo test test-all lint results row
.DEFAULT_GOAL := demo

demo: $(READY)
	$(VENV)/bin/dualmask quickstart --out demo

# Files of tests are shared out among processes; one file stays in one process, which builds its models once
WORKERS ?= 2
PYTEST = $(VENV)/bin/python -m pytest --numprocesses $(WORKERS) --dist loadfile

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

test: lint
	$(PYTEST) -m "not slow"

test-all: lint
	$(PYTEST)

results: $(READY)
	$(VENV)/bin/python tools/results_page.py

# Data and encoder are fetched; where the encoder is not made yet it is made first, which needs a GPU. ENCODER=gte-small,
# or a folder, takes another one in its place
ROW ?= mr.gte-small-mlm.plain.
GRID ?= experiments/published.toml
OUT ?= again

row: $(READY)
	$(if $(ENCODER),,$(VENV)/bin/python tools/build_encoder.py --unless-made)
	$(VENV)/bin/dualmask bench $(GRID) --only $(ROW) --out $(OUT) $(if $(ENCODER),--source gte-small-mlm=$(ENCODER)) $(BENCH)
	$(VENV)/bin/dualmask compare $(OUT) results/paper_table.jsonl.gz

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
