# cellmesh: `make lab` to use it, `make test` to check it. Needs only a C compiler, Python >= 3.11 (with venv) and make.
#
# Everything else (CMake, Ninja, JupyterLab, Node.js where the machine has none) comes through pip into $(VENV).

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
    if $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; break; fi; done)
endif
VENV ?= .venv
LAB_ARGS ?=
W ?= *

# By this name in recipes that `make -n` is not to run.
make := $(MAKE)
py := $(abspath $(VENV))/bin/python
pip := $(py) -m pip --disable-pip-version-check --quiet
# What changes the environment: two of pip at a time would undo each other's work.
alone := flock $(VENV)/.lock
packages := $(alone) $(py) scripts/packages.py install
pins := scripts/packages.py $(wildcard scripts/pins/*.txt)
# The repository has a folder named cellmesh: Python must not take it for the installed package. What the tests need is
# not compiled before somebody imports it, and then it must be kept.
run := PYTHONDONTWRITEBYTECODE= PYTHONSAFEPATH=1 $(py)
sources := $(shell find cellmesh objstore scheduler kernel_ext labextension -name node_modules -prune -o \
    -name __pycache__ -prune -o -path objstore/core/out -prune -o -path labextension/built -prune -o \
    -path kernel_ext/panel/static -prune -o -path labextension/lib -prune -o -print 2>/dev/null) \
    $(wildcard package.json package-lock.json)

.PHONY: help venv pins check-newest install install-test tree-tools lab lint check test test-c test-py test-notebooks test-ts test-ui nightly dev devtree bench check-ray bench-cluster bench-libraries bench-panel bench-engines \
    screenshots frontend browser clean
.DELETE_ON_ERROR:

help:
	@echo 'make lab              set everything up and open JupyterLab on copies of notebooks/, in build/notebooks (LAB_ARGS=...)'
	@echo 'make check            static checks and all quick tests, in some minutes: the loop to work in'
	@echo 'make test             set everything up and run every test; at the end it says what could not be run'
	@echo
	@echo 'make lint             static checks alone: rules, types and formats of Python, C and TypeScript, documents, generated pages'
	@echo 'make test-c           the C core alone                     make test-ts    the TypeScript units'
	@echo 'make test-py          Python, with ARGS for pytest         make test-ui    the panel in JupyterLab and Chromium'
	@echo 'make test-notebooks   every notebook in a real kernel      make nightly    sanitizers, torture, repeats (an hour)'
	@echo
	@echo 'make dev              editable install: Python edits count at once; run it again after C or TypeScript edits'
	@echo 'make devtree          build/dev for PYTHONPATH: no pip, no CMake, C rebuilt in seconds'
	@echo 'make frontend         build the panel and the widget again'
	@echo 'make bench            side by side with Ray and plain pools (W=name: one workload); make bench-panel: the panel; make bench-cluster: three machines; make bench-libraries: Tune, Train, RL, groups; bench-engines: on Ray and Dask'
	@echo 'make check-ray        programs of Ray, on Ray and on compat.ray: the same output, the same exceptions (ARGS: names, --record)'
	@echo 'make screenshots      take the pictures in docs/images again from the real thing'
	@echo 'make pins             pin the newest versions of everything that tests and make lab install (scripts/pins)'
	@echo 'make check-newest     quick tests with the newest of everything: says which package broke what'
	@echo 'make clean            remove what was built; PYTHON=... and VENV=... choose the interpreter and the environment'

# ---- set-up
$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo 'No Python >= 3.11 with the venv module was found. Install one (Debian: apt-get install' \
	    'python3 python3-venv) or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3'; exit 1; }
	$(PYTHON) -m venv $(VENV)

venv: $(VENV)/bin/python

# What the build backend itself asks for: CMake, Ninja and Node.js only where the machine lacks them.
$(VENV)/.build-tools: pyproject.toml $(pins) scripts/build_backend.py scripts/frontend.py | $(VENV)/bin/python
	@echo 'Installing the build tools ...'
	@$(packages) build
	@touch $@

$(VENV)/.wheel: $(VENV)/.build-tools CMakeLists.txt pyproject.toml $(sources)
	@echo 'Building cellmesh (a minute or two) ...'
	@rm -rf build/dist
	@MAKEFLAGS= $(pip) wheel --no-build-isolation --no-deps -C build-dir=build/wheel -C cmake.define.CELLMESH_DEVELOPER=ON -w build/dist .
	@touch $@

$(VENV)/.installed: $(VENV)/.wheel $(VENV)/.dependencies
	@$(alone) $(pip) install --no-deps --force-reinstall build/dist/cellmesh-*.whl
	@touch $@

$(VENV)/.test-tools: $(VENV)/.build-tools
	@echo 'Installing the test tools ...'
	@$(packages) test
	@touch $@

# What cellmesh and its notebooks depend on, without cellmesh: enough for build/dev (scripts/devtree.py).
$(VENV)/.dependencies: $(VENV)/.build-tools
	@echo 'Installing what cellmesh depends on ...'
	@$(packages) dependencies notebooks
	@touch $@

$(VENV)/.lint-tools: $(VENV)/.build-tools
	@echo 'Installing the tools for static checks ...'
	@$(packages) lint
	@touch $@

install: $(VENV)/.installed
install-test: $(VENV)/.installed $(VENV)/.test-tools $(VENV)/.lint-tools
# For the tree in build/dev: nothing is installed again after an edit.
tree-tools: $(VENV)/.dependencies $(VENV)/.test-tools $(VENV)/.lint-tools

lab: install
	@mkdir -p build/notebooks && cp -n notebooks/*.ipynb build/notebooks/  # one's own copies: running them changes them
	$(abspath $(VENV))/bin/jupyter lab --ServerApp.root_dir=$(CURDIR)/build/notebooks \
	    --LabApp.default_url=/lab/tree/01-quickstart.ipynb $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB_ARGS)

# ---- tests
lint: tree-tools
	$(run) scripts/run_tests.py --lint $(ARGS)

check: tree-tools
	$(run) scripts/run_tests.py --check $(ARGS)

# The wheel is built while pip, which computes in one process, installs the rest, and the tests in C run meanwhile. The
# static checks before the others: what they find need not be found by a test.
test: venv
	$(run) scripts/run_tests.py --install '$(make) --no-print-directory -j2 install-test devtree' $(ARGS)

nightly: install-test
	$(run) scripts/run_tests.py --nightly

test-c:
	$(MAKE) -C objstore/core check

test-py: install-test
	$(py) scripts/apt.py
	$(run) -m pytest --ignore tests/notebooks --ignore tests/ui $(ARGS)

test-notebooks: install-test
	$(run) -m pytest tests/notebooks $(ARGS)

test-ts: $(VENV)/.build-tools
	$(run) scripts/run_tests.py --only typescript

test-ui: install-test
	$(run) scripts/run_tests.py --only panel

# Pin the newest versions of everything that tests and `make lab` install, for $(PYTHON).
pins: $(VENV)/bin/python
	$(py) scripts/packages.py pin

# Quick tests with the newest of everything, in an environment of its own; says which package broke what.
check-newest: tree-tools
	$(run) scripts/check_newest.py

browser: $(VENV)/bin/python
	$(py) scripts/browser.py --install

# ---- development
frontend: $(VENV)/.build-tools
	$(py) scripts/frontend.py build --force

dev: $(VENV)/.dependencies
	$(py) scripts/frontend.py build
	$(pip) install --no-build-isolation --no-deps -C build-dir=build/editable -C cmake.define.CELLMESH_DEVELOPER=ON --editable .
	@touch $(VENV)/.wheel $(VENV)/.installed

devtree: $(VENV)/.build-tools
	$(py) scripts/devtree.py

screenshots: install-test browser
	$(run) docs/tools/screenshots.py

# ---- benchmarks. Ray needs an environment of its own: its dependencies must not mix with what users get.
.venv-bench-ray/bin/ray:
	$(PYTHON) -m venv .venv-bench-ray
	.venv-bench-ray/bin/python -m pip --disable-pip-version-check --quiet install 'ray[client]==2.60.0' numpy

# What runs cells in several processes, in one of their own too. torch first: of the index that says which one.
.venv-bench-ranks/bin/ipcluster:
	$(PYTHON) -m venv .venv-bench-ranks
	.venv-bench-ranks/bin/python -m pip --disable-pip-version-check --quiet install torch==2.13.0
	.venv-bench-ranks/bin/python -m pip --disable-pip-version-check --quiet install torch==2.13.0 numpy ipykernel==7.4.0 \
	    jupyter_client ipyparallel==9.2.0 nbdistributed==0.1.0 torchmonarch==0.7.0

# RLlib, and environments in C++.
.venv-bench-rl/bin/ray:
	$(PYTHON) -m venv .venv-bench-rl
	.venv-bench-rl/bin/python -m pip --disable-pip-version-check --quiet install torch==2.13.0
	.venv-bench-rl/bin/python -m pip --disable-pip-version-check --quiet install torch==2.13.0 'ray[rllib]==2.60.0' envpool==1.2.5

# Dask as an engine needs one for its tests.
.venv-dask/bin/dask:
	$(PYTHON) -m venv .venv-dask
	.venv-dask/bin/python scripts/packages.py install dask

$(VENV)/.bench-tools: $(VENV)/.build-tools
	@$(packages) bench
	@touch $@

bench: $(VENV)/.installed $(VENV)/.bench-tools .venv-bench-ray/bin/ray
	$(py) benchmarks/bench.py --only '$(W)' $(ARGS)

# What programs of Ray print and raise, on Ray and here: ARGS='actors/*' for some of them, ARGS=--record after adding one.
check-ray: $(VENV)/.installed .venv-bench-ray/bin/ray
	$(run) tests/compat/check_ray.py $(ARGS)

bench-cluster: $(VENV)/.installed
	$(py) benchmarks/cluster.py $(ARGS)

bench-libraries: $(VENV)/.installed $(VENV)/.test-tools $(VENV)/.bench-tools .venv-bench-ray/bin/ray .venv-bench-ranks/bin/ipcluster \
    .venv-bench-rl/bin/ray
	.venv-bench-ray/bin/python -m pip --disable-pip-version-check --quiet install 'ray[tune]==2.60.0' scikit-learn
	$(run) benchmarks/libraries/bench.py $(ARGS)

bench-engines: $(VENV)/.installed .venv-bench-ray/bin/ray .venv-dask/bin/dask
	$(py) benchmarks/engines.py $(ARGS)

bench-panel: install-test browser
	$(run) benchmarks/panel.py $(ARGS)

clean:
	rm -rf build dist labextension/built labextension/lib kernel_ext/panel/static objstore/core/out $(VENV)/.wheel $(VENV)/.installed
	find . -name __pycache__ -not -path './.venv*' -not -path './node_modules/*' -prune -exec rm -rf {} +
