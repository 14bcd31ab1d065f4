# Everything for people who work on the project; `make` lists it. Nothing has to be installed first but Python 3.11 and Go.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Where Go's own archive puts it, for shells that do not know.
export PATH := $(PATH):/usr/local/go/bin
PYTHON ?= python3
export PYTHON
VENV := .venv/bin

# What the environment was made from; with another lock it is made anew.
STAMP := .venv/.lock-$(shell sha256sum requirements-dev.lock | cut -c 1-16)
TESTS := $(wildcard tests/unit tests/golden tests/property)
SCRIPTS = $(shell grep -rIlE '^\#!/bin/(ba)?sh' --exclude='*.py' --exclude='*.md' --exclude-dir=__pycache__ .ci hack images localkube)
SHELLCHECK = $(firstword $(wildcard $(VENV)/shellcheck) $(shell command -v shellcheck))

# For pytest: make unit ARGS="-k users", make e2e ARGS="tests/e2e/test_jobs.py -x"
ARGS ?=

.PHONY: help demo test unit e2e soak test-localkube lint lint-code lint-chart bench kube-up kube-down kubeconfig images generate venv packages clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: packages ## A Slurm cluster on this machine, from nothing to finished jobs (KUBECONFIG_DEMO=… on yours)
	@$(PYTHON) -m hack.demo

test: packages ## Lint, unit and end-to-end tests: everything that CI runs
	@$(PYTHON) -m hack.check

# Read once and kept, wherever Python is told to keep nothing: rewriting all assertions takes seconds in each process.
# One process more than there are processors: some tests wait for programs.
unit: export PYTHONDONTWRITEBYTECODE :=
unit: export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/pycache
unit: venv ## Unit, golden and property tests: no cluster, under a minute
	@$(VENV)/python -m pytest -v --numprocesses=$(shell expr $$(nproc) + 1) --dist=worksteal $(TESTS) $(ARGS)

e2e: venv ## End-to-end tests on a real Kubernetes with real Slurm (KUBECONFIG_E2E=… on yours)
	@$(PYTHON) -m hack.e2e $(ARGS)

soak: packages ## Half an hour of Slurm and Kubernetes work on the same nodes, parts killed at random (ARGS="--minutes 5 --seed 7")
	@$(PYTHON) -m hack.soak $(ARGS)

test-localkube: venv ## localkube's own tests, on instances of their own, beside whatever runs
	@$(VENV)/python -m pytest -v --durations=10 tests/localkube $(ARGS)

lint: lint-code lint-chart ## Linters, types, import contracts, generated files, shell scripts, the chart

lint-code: venv
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/mypy
	$(VENV)/lint-imports
	$(VENV)/python hack/generate.py --check
	@$(if $(SHELLCHECK),,echo "shellcheck is not there: scripts are not checked")
	$(if $(SHELLCHECK),$(SHELLCHECK) $(SCRIPTS))

lint-chart: venv
	@helm=$$($(PYTHON) -m hack.local tool helm) && set -x && "$$helm" lint --strict charts/*/
	@$(VENV)/python -m pytest -q tests/unit/charts # make unit leaves them out while helm is being built

bench: venv ## How long a start takes, and what the operator costs when idle, beside the goals
	@$(VENV)/python -m benchmarks $(ARGS)

kube-up: packages ## Start Kubernetes on this machine with the project's images in it, or bring it up to date
	@$(PYTHON) -m hack.local up

kube-down: ## Remove it, and everything that it left on the machine
	@$(PYTHON) -m hack.local down

kubeconfig: ## Print the path of its kubeconfig: export KUBECONFIG=$(make -s kubeconfig)
	@$(PYTHON) -m localkube kubeconfig

images: ## Build the container images; print where their archives lie
	@$(PYTHON) -m images.build

generate: venv ## Write the generated files anew: CRD, chart, reference
	@$(VENV)/python hack/generate.py

clean: ## Remove what was made in this checkout; the cache of programs and images stays
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "what is costly stays in $${LOCALKUBE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/slurmcluster-operator}"

packages:
	@hack/bootstrap packages

venv: $(STAMP)

$(STAMP):
	@hack/bootstrap venv $@
