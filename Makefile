# make run   describe this machine, build, run the checks, print verdicts and a page
# make test  linters, all pure tests, the programs on the host, whole sessions: what a change breaks first
# make test-all  all other tests, in parts (docs/testing.md): what takes minutes, or installs a toolkit, a scheduler, a browser
# Each does all of its own set-up in .venv; nothing is installed outside the checkout.

PYTHON  ?= python3
SYSTEM  ?= local
MODE    ?= quick
MINUTES ?=
RFMARGS ?=
VENV    := .venv
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: run test test-all architectures bench lint format golden reviewed mutants fuzz venv dev lock kit image-source site pictures dist clean uninstall help
.DEFAULT_GOAL := help

help: ## list of targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10

venv: $(VENV)/.stamp ## the virtual environment for running the suite

$(VENV)/.stamp: pyproject.toml requirements.lock scripts/need.sh tenken/venv.py
	@sh scripts/need.sh $(PYTHON) venv
	@echo "tenken: installing Python packages into $(VENV), up to a minute"
	@$(PYTHON) -E -m venv $(VENV)
	@sh scripts/install.sh $(VENV) requirements.lock .
	@$(VENV)/bin/python -E -m tenken.venv >/dev/null
	@touch $@

dev: $(VENV)/.stamp-dev ## the virtual environment for changing the suite: also pytest, linters and formatters

$(VENV)/.stamp-dev: $(VENV)/.stamp requirements-dev.lock
	@sh scripts/install.sh $(VENV) requirements-dev.lock
	@touch $@

run: $(VENV)/.stamp ## SYSTEM=local MODE=quick MINUTES=12: run the checks within these minutes, print verdicts and the path of the page (V=1: ReFrame's full output)
	@sh scripts/need.sh $(PYTHON) build
	@. $(VENV)/bin/activate && V=$(V) exec sh scripts/run.sh $(SYSTEM) $(MODE) $(if $(MINUTES),-S tenken_minutes=$(MINUTES)) $(RFMARGS)

test: $(VENV)/.stamp ## linters, all pure tests, the programs on the host, whole sessions; installs nothing
	@sh scripts/need.sh $(PYTHON) build
	@. $(VENV)/bin/activate && sh scripts/test.sh

test-all: $(VENV)/.stamp-dev ## all tests that are not in `make test`, or PART='slurm mpi' (some need Debian packages; root installs them, other users get a message)
	@sh scripts/need.sh $(PYTHON) build
	@. $(VENV)/bin/activate && sh scripts/test.sh --parts "$(PART)"

architectures: $(VENV)/.stamp-dev ## compile the CUDA programs for every supported GPU architecture (the tests use two)
	@. $(VENV)/bin/activate && TENKEN_TEST_CUDA_ARCHITECTURES=all pytest tests/programs/test_cuda.py

bench: $(VENV)/.stamp-dev ## detection and cost of the gate, by long Monte Carlo runs (docs/statistics.md)
	@. $(VENV)/bin/activate && python -m tools.bench

lint: $(VENV)/.stamp-dev ## ruff, mypy, codespell, clang-format
	@. $(VENV)/bin/activate && sh scripts/lint.sh

format: $(VENV)/.stamp-dev ## format all sources with ruff and clang-format
	@. $(VENV)/bin/activate && ruff check -q --fix . ; ruff format -q . && \
	    find src tests -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' | xargs -r clang-format -i

golden: $(VENV)/.stamp-dev ## ONLY=h200: update the expected job scripts of all checks; review the diff
	@. $(VENV)/bin/activate && python -m tests.reframe.config.golden $(ONLY)

reviewed: $(VENV)/.stamp-dev ## write the catalogue and the constants of the sources once more; review the diff
	@. $(VENV)/bin/activate && TENKEN_WRITE_REVIEWED=1 pytest -q -p no:cacheprovider tests/unit/core/test_reviewed.py

mutants: $(VENV)/.stamp-dev ## ONLY='stream-*': insert small mistakes into a copy of the sources; the tests must detect each
	@. $(VENV)/bin/activate && python -m tools.mutants $(foreach pattern,$(ONLY),--only '$(pattern)')

fuzz: $(VENV)/.stamp-dev ## SECONDS=600 SEED=1: feed malformed input to every parser, kill 1,000 writers (docs/fuzzing.md)
	@. $(VENV)/bin/activate && python -m tests.fuzz --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) && \
	    python -m tests.fuzz.sanitized 5000 $(SEED) && python -m tools.kills 1000 $(if $(SEED),--seed $(SEED))

lock: $(VENV)/.stamp-dev ## update the pinned dependencies
	. $(VENV)/bin/activate && sh scripts/lock.sh

site: $(VENV)/.stamp-dev ## build the documentation as a site, to be read from the folder: output/site/index.html
	@. $(VENV)/bin/activate && sh scripts/site.sh output/site

pictures: $(VENV)/.stamp-dev ## draw the pictures of the documentation and docs/verified.md from kept records (needs Chromium)
	@. $(VENV)/bin/activate && python -m tools.pictures && python -m tools.verified

dist: $(VENV)/.stamp-dev ## write sdist, wheel and SBOM of a release to dist/ (docs/versions.md)
	@. $(VENV)/bin/activate && sh scripts/dist.sh dist

kit: $(VENV)/.stamp ## KIT_PYTHON=3.12 KIT_CUDA=13 ...: write kit/, from which the suite installs and runs without a network (docs/kit.md)
	$(PYTHON) -m toolchains.kit

image-source: ## write the committed sources for an image of the suite and its toolchain (docs/containers.md)
	@sh toolchains/container/source.sh

clean: ## remove build and run files; archive and pages are kept
	rm -rf .build .cache stage
	[ ! -d output ] || find output -mindepth 1 -maxdepth 1 ! -name pages -exec rm -rf {} +

uninstall: clean ## also remove the virtual environment, and list what is left
	rm -rf $(VENV) *.egg-info
	@echo "left: perflogs (the archive), output/pages, kit, and what ReFrame keeps for you: ~/.reframe"
