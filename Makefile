# Every target sets up what it needs by itself; the second time that takes no time. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := benchmarks/.venv

.DEFAULT_GOAL := help
.PHONY: help install lock crawl test test-unit lint format kafka-up kafka-down wheel tools docs bench-flat bench-frontier bench-fetch bench-robots torture clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

install: $(STAMP) ## set up .venv with the locked dependencies and .venv/bin/headrace

$(STAMP): requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "headrace needs Python 3.11 or newer: make PYTHON=python3.11 …" >&2; exit 2; }
	@echo "installing the locked dependencies into $(VENV) (once)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
  --no-header --quiet

lock: install ## write requirements.lock anew from pyproject.toml, and those of the image from it
	$(COMPILE) pyproject.toml --group dev --upgrade -o requirements.lock
	$(COMPILE) pyproject.toml --constraints requirements.lock --no-annotate --upgrade -o deploy/requirements.lock
	echo hatchling | $(COMPILE) - --constraints requirements.lock --no-annotate --upgrade -o deploy/build.lock

# What is typed may hold what a shell or make would take for its own (& ; ' ( $): a recipe reads it from its environment,
# and a blank, which no URL has, stands between two of them.
unexport URL CONTACT
export GIVEN_URL = $(value URL)
export GIVEN_CONTACT = $(value CONTACT)

crawl: install ## crawl URL=… CONTACT=you@… ; without URL, a demo site served on loopback
ifdef URL
	@set -f; $(BIN)/headrace crawl $$GIVEN_URL $${GIVEN_CONTACT:+--contact "$$GIVEN_CONTACT"}
else
	@$(BIN)/python -m benchmarks.web.demo
endif

test: install ## the whole suite, on a real Kafka broker too
	@$(BIN)/python -m pytest

test-unit: install ## the tests that need no broker
	@$(BIN)/python -m pytest -m "not kafka"

lint: install ## ruff, import rules, mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	@$(BIN)/mypy

format: install ## rewrite the sources as `lint` wants them
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

kafka-up: install ## start a real local broker, empty; prints kafka://127.0.0.1:PORT; NODES=3 for three
	@$(BIN)/python -m deploy.kafka up $(if $(NODES),--nodes $(NODES))

kafka-down: install ## end that broker and delete what it kept
	@$(BIN)/python -m deploy.kafka down

.PHONY: bench
bench: install $(PEERS)/.installed ## whole crawls beside Scrapy and Colly, about ten minutes; JSON=F, PLOT=F, ROUNDS=N, PAGES=N a host
	@$(BIN)/python -m benchmarks.whole --peers $(PEERS)/bin/python $(if $(JSON),--json $(JSON)) $(if $(PLOT),--plot $(PLOT)) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PAGES),--pages $(PAGES))

bench-flat: install ## one long crawl, whether its pages stay as cheap, half an hour; PAGES=N (default 1,000,000), FOLDER=where, JSON=F
	@$(BIN)/python -m benchmarks.flat $(if $(PAGES),--pages $(PAGES)) $(if $(FOLDER),--folder $(FOLDER)) $(if $(JSON),--json $(JSON))

bench-frontier: install ## what links, releases and restarts cost the frontier; FULL=1 with 10 M known URLs, JSON=F
	@$(BIN)/python -m benchmarks.frontier $(if $(FULL),--full) $(if $(JSON),--json $(JSON))

bench-fetch: install $(PEERS)/.installed ## what a page costs the fetcher, beside Scrapy's downloader; JSON=F
	@$(BIN)/python -m benchmarks.fetch --peers $(PEERS)/bin/python $(if $(JSON),--json $(JSON))

bench-robots: install $(PEERS)/.installed ## robots.txt parsers side by side, on our cases and on real files; JSON=F
	@$(BIN)/python -m benchmarks.robots --real $(PEERS)/real --peers $(PEERS)/bin/python $(if $(JSON),--json $(JSON))

torture: install $(PEERS)/.installed ## crawls under kill -9, judged; CASES="kafka kafka3 embedded scrapy", SEED=N, KILLS=N, PAGES=N, JSON=F
	@$(BIN)/python -m benchmarks.torture $(CASES) --peers $(PEERS)/bin/python $(if $(SEED),--seed $(SEED)) \
	  $(if $(KILLS),--kills $(KILLS)) $(if $(PAGES),--pages $(PAGES)) $(if $(JSON),--json $(JSON))

$(PEERS)/.installed: benchmarks/peers.txt
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@echo "installing what we compare with into $(PEERS) (once)" >&2
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	@touch $@

COMPOSE := docker compose
FLEET := deploy/preflight.sh && $(COMPOSE)
RUN_IT := $(FLEET) run --rm --no-deps --quiet-pull headrace
COUNTS := $(if $(FRONTIERS),frontier=$(FRONTIERS)) $(if $(FETCHERS),fetcher=$(FETCHERS)) \
  $(if $(PARSERS),parser=$(PARSERS)) $(if $(STORERS),storer=$(STORERS))

.PHONY: up down logs scale seed status
up: ## the fleet with Docker: Kafka, PostgreSQL, the four services, Prometheus, Grafana; wants .env (see .env.example)
	@$(FLEET) build
	@$(COMPOSE) run --rm --no-deps headrace config check
	@$(COMPOSE) up --detach --remove-orphans
	@echo "Grafana: http://$$($(COMPOSE) port grafana 3000)  Prometheus: http://$$($(COMPOSE) port prometheus 9090)  next: make seed URL=…"

down: ## end the fleet; what it keeps stays in its volumes
	@$(FLEET) --profile tools down --remove-orphans

logs: ## follow the fleet's log; SERVICE=fetcher for one
	@$(FLEET) logs --follow --tail 100 $(SERVICE)

scale: ## as many as you say: FETCHERS=4, FRONTIERS=N, PARSERS=N, STORERS=N
	@test -n "$(strip $(COUNTS))" || { echo "headrace: say how many: make scale FETCHERS=4 (FRONTIERS, PARSERS, STORERS)" >&2; exit 2; }
	@for count in $(COUNTS); do [[ $$count =~ =[0-9]+$$ ]] || { echo "headrace: $$count is no number of services" >&2; exit 2; }; done
	@$(FLEET) up --detach --no-deps --no-recreate $(COUNTS:%=--scale %) $(foreach count,$(COUNTS),$(firstword $(subst =, ,$(count))))

seed: ## give the fleet a URL to start from: URL=https://…
	@[[ $$GIVEN_URL =~ [^[:space:]] ]] || { echo "headrace: say what to crawl: make seed URL=https://example.org/" >&2; exit 2; }
	@set -f; $(RUN_IT) seed $$GIVEN_URL

status: ## how far the fleet is; ARGS=--json for scripts
	@$(RUN_IT) status $(ARGS)

wheel: install ## build dist/headrace-*.whl
	@$(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python

tools: install ## the real Prometheus that tests ask, into .venv/bin (Debian)
	@.ci/tools $(BIN)

docs: install ## write the pages of docs/ that are derived from code
	@$(BIN)/python docs/render.py

clean: ## delete the environment and caches
	rm -rf $(VENV) $(PEERS) dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
