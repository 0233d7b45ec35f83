# `make demo` and `make test` are all that is needed; each installs what it wants first (Debian packages, .venv from the lock).
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PEER := .cache/peer
BROWSER := .cache/browser
SHELL := /bin/bash
# Some containers forbid compiled files. Without them each worker compiles all tests, and each process of a test all of vgpumgr.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo check test test-suite test-all test-shuffled coverage test-laws test-long test-lab test-docs sessions pictures schemas test-crash test-browser test-collection test-sanity test-kernel test-kernel-commit kernel-images kernel-images-commit test-kills test-gpu soak lint docs bench lock clean
install: $(STAMP)

$(STAMP): pyproject.toml requirements.lock requirements-build.lock tools/install.sh
	bash tools/install.sh $(VENV)
	touch $@

demo: install
	PATH="$(CURDIR)/$(VENV)/bin:$$PATH" timeout 1200 bash tools/demo.sh

lint: install
	$(VENV)/bin/ruff check vgpumgr tests benchmarks tools ansible plugins
	$(VENV)/bin/ruff format --check vgpumgr tests benchmarks tools ansible plugins
	$(PY) tools/words.py
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --python-version 3.10 --cache-dir .mypy_cache/host vgpumgr/host
	$(VENV)/bin/vermin --target=3.9- --no-tips --violations --quiet vgpumgr/host
	$(VENV)/bin/lint-imports --no-cache

# While writing: lint, and the unit tests of what was changed and of its neighbours (tools/changed.py). It proves nothing of the rest.
check: lint
	@files=$$($(PY) tools/changed.py) && if [ -n "$$files" ]; then $(VENV)/bin/pytest -q -n 2 --dist loadfile $$files; else echo "no unit test is near what was changed"; fi

# Of a proof that is a repetition these do enough (tests/dose.py, docs/testing.md). What CI runs after it has targets of its own below.
test: install
	$(MAKE) --no-print-directory -j2 lint test-suite

# Each file's tests together because they share a lab; acceptance, which takes longest, first.
LONG := tests/acceptance/long
SIMULATOR := tests/lab tests/kernel
RUN := $(VENV)/bin/pytest -n 4 --dist loadfile --no-loadscope-reorder

test-suite: compiled
	$(RUN) tests $(addprefix --ignore=,tests/pages tests/crash $(LONG) $(SIMULATOR)) --durations=20 $(PYTEST_ARGS)

# The same tests in another order: no test may need what another one left. SEED=N to see a run again.
test-shuffled: install
	@seed=$${SEED:-$$RANDOM}; echo "make test-shuffled SEED=$$seed"; \
	$(MAKE) --no-print-directory test-suite test-long PYTEST_ARGS="--random-order-bucket=module --random-order-seed=$$seed $(PYTEST_ARGS)"

# In a fresh clone each worker would compile every test for itself: one process does it for all.
.PHONY: compiled
compiled: install
	@[ -d tests/__pycache__ ] || $(VENV)/bin/pytest tests --collect-only -qq >/dev/null

# All that there is, in full doses. It takes hours: docs/testing.md says which part to run before which change.
test-all: export VGPUMGR_EVERY_TURN := yes
test-all: lint coverage test-laws test-suite test-long test-lab test-docs test-kills test-browser test-collection test-sanity test-kernel demo

# The core's branch coverage is part of the promise (95 %); what lies under tests/unit/core counts for it. The tests that name their
# cases are enough for it: the laws (hypothesis) go through the same lines a hundred times, and watched they take five times as long.
coverage: install
	$(VENV)/bin/pytest tests/unit/core -m "not hypothesis" -n 2 --cov=vgpumgr.core --cov-branch --cov-report=term:skip-covered --cov-fail-under=95 -q

# Every law, on new examples.
test-laws: install
	VGPUMGR_DOSE=full $(VENV)/bin/pytest tests/unit tests/lab -m hypothesis -n 2 -q $(PYTEST_ARGS)

# The long stories of acceptance.
test-long: install
	$(RUN) $(LONG) --durations=5 $(PYTEST_ARGS)

# The simulator's own tests: that its driver, its NVML and its hosts are as those that they stand for.
test-lab: install
	$(BESIDE) $(RUN) $(SIMULATOR) --durations=5 $(PYTEST_ARGS)

# What README.md and docs/ tell a reader to type: run in labs, and compared with what they show (tests/pages). `make sessions` writes
# what is printed into the pages.
test-docs: install
	$(VENV)/bin/pytest -n 4 tests/pages --durations=5 $(PYTEST_ARGS)

sessions: install
	PYTHONPATH=. $(PY) -m tests.pages.rewrite README.md docs/*.md

# The screens of `top` in tests/unit/cli/top/frames, and the pictures of them in docs/pictures.
pictures: install
	PYTHONPATH=. $(PY) -m tests.unit.cli.top.example

# Real processes killed, hosts and connections broken (tests/crash), and every operation broken off (tests/crash/matrix).
test-crash: install
	$(RUN) tests/crash --durations=5 $(PYTEST_ARGS)

# The pages of `serve` in Debian's Chromium. What drives it, and axe-core from npm, are taken once and kept in .cache/browser.
test-browser: $(BROWSER)/.installed
	PYTHONPATH=$(BROWSER)/python $(VENV)/bin/pytest tests/browser -m browser --durations=5 $(PYTEST_ARGS)

$(BROWSER)/.installed: requirements-browser.lock tests/browser/package-lock.json | install
	bash tools/install.sh $(VENV) chromium fonts-dejavu-core $$(command -v npm >/dev/null || echo npm)
	mkdir -p $(BROWSER)
	cp tests/browser/package*.json $(BROWSER)
	npm ci --prefix $(BROWSER) --ignore-scripts --no-audit --no-fund --silent
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --upgrade --target $(BROWSER)/python -r requirements-browser.lock
	touch $@

# The host program on this machine's own NVIDIA GPU: reads only, and says what it does not tell. Not a part of `make test`.
test-gpu: install
	$(VENV)/bin/pytest tests/gpu -m gpu -s $(PYTEST_ARGS)

# The Ansible collection: the real ansible-playbook against simulated hosts.
test-collection: install
	$(VENV)/bin/pytest tests/collection/plays -m collection -n 3 --dist loadfile --durations=5 $(PYTEST_ARGS)

# The collection built, installed and judged by Ansible's own tools. What ansible-test wants of PyPI is taken once and kept in
# .cache/collection; after that no network is used.
test-sanity: install
	$(VENV)/bin/pytest tests/collection/test_collection.py -m collection --durations=5 $(PYTEST_ARGS)

# The product against real kernels: host VMs of Debian 12 and 13 under QEMU, with software emulation only. Their images are made
# of Debian packages and kept in .cache/kernel; needs root. Two host VMs run beside each other (tests/kernel/conftest.py shares out).
test-kernel: install kernel-images
	$(VENV)/bin/pytest tests/kernel -m kernel -n 2 --dist loadscope --no-loadscope-reorder -o timeout=1800 --durations=10 $(PYTEST_ARGS)

# Of these, what CI runs for each commit: the contract and a vGPU's life, on one kernel by turns (tests/kernel/turn.py).
test-kernel-commit: install kernel-images-commit
	$(VENV)/bin/pytest tests/kernel -m kernel --each-commit -n 2 --dist loadscope --no-loadscope-reorder -o timeout=1800 --durations=10 $(PYTEST_ARGS)

kernel-images: install
	$(PY) -m tests.kernel.image

kernel-images-commit: install
	$(PY) -m tests.kernel.image commit

# docs/cli.md from the commands' own texts; a test fails where it is not what they say.
docs: install
	$(PY) tools/cli_reference.py

# The examples of docs/schemas, from what the commands print (tests/acceptance/examples.py); a test fails where they are other.
schemas: install
	PYTHONPATH=. $(PY) -m tests.acceptance.examples

# What is a repetition, in full doses: every operation broken off at every moment in every way (tests/crash/matrix), real processes
# killed (tests/crash), random stories (tests/model). How many kills there were stands at the end.
test-kills: install
	VGPUMGR_DOSE=full $(VENV)/bin/pytest tests/crash tests/model tests/unit/host/steps/test_kills.py -n 2 --dist loadfile --durations=10 $(PYTEST_ARGS)

# Two hosts among the worst of neighbours (tests/model/hostile.py), SOAK_MINUTES long; SOAK_SEED to see a run again, SOAK_WITH for
# some of the neighbours only.
soak: install
	@seed=$${SOAK_SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; minutes=$${SOAK_MINUTES:-30}; \
	echo "make soak SOAK_SEED=$$seed SOAK_MINUTES=$$minutes"; \
	SOAK_SEED=$$seed SOAK_MINUTES=$$minutes $(VENV)/bin/pytest tests/model/test_soak.py -m soak -n 2 -q $(PYTEST_ARGS) \
	|| { echo "failed: make soak SOAK_SEED=$$seed SOAK_MINUTES=$$minutes"; exit 1; }

# Ratios against a peer in the same run, and one table of them all at the end; nothing here is a test. BENCH: names, for some of them.
# Where pyinfra cannot be installed, its rows are missing.
bench: install
	-$(MAKE) --no-print-directory $(PEER)/.installed
	$(PY) -m benchmarks $(BENCH)

$(PEER)/.installed: requirements-peer.lock
	python3 -m venv $(PEER)
	$(PEER)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-peer.lock
	touch $@

# The lock files are made anew from pyproject.toml, with hashes, for Python 3.11 and later on Linux.
lock:
	$(VENV)/bin/pip install --quiet --disable-pip-version-check uv
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--extra lab --extra plan --extra web --group dev pyproject.toml -o requirements.lock
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--group build -o requirements-build.lock
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--group peer -o requirements-peer.lock
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--group browser -o requirements-browser.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
