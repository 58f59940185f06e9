# Everything starts here, on a machine that has only make and Python 3.11 or later.
# The first target that needs it makes .venv from uv.lock; later runs start at once.

.DEFAULT_GOAL := help
.PHONY: help demo test pythons check bench browser peers docs torture mutations format lock clean
.SUFFIXES:

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export VENV
PEERS := rabbitmq-server redis-server postgresql rclone rsync default-jre-headless maven
ARTEMIS := org.apache.activemq:apache-artemis:2.40.0:tar.gz:bin
PEERS_HOME := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dray/peers
BROWSER := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dray/browser

$(READY): pyproject.toml uv.lock tools/bootstrap.py
	@for python in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14; do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
		then exec $$python tools/bootstrap.py; fi; \
	done; \
	echo "dray: Dray needs Python 3.11 or later: install python3 and run make again." >&2; exit 1
	@touch $@

help: ## say what there is
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-15s %s\n", $$1, $$2 }'

demo: $(READY) ## a large transfer between two queue managers, through a kill, into Spark (FILES=dir LOSSY=1)
	@$(BIN)/dray demo $(if $(FILES),--files "$(FILES)") $(if $(filter-out 0,$(LOSSY)),--lossy)

test: $(READY) ## the whole test suite, four files at a time (ARGS="-k name" for less, -n0 for one)
	@$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

pythons: $(READY) ## the quick tests on each Python of this machine, oldest first (ARGS=tests for all)
	@$(BIN)/python tools/pythons.py $(ARGS)

check: $(READY) ## lint, format, types, imports, house rules
	@$(BIN)/ruff check --quiet && echo "ruff check: good"
	@$(BIN)/ruff format --check --quiet && echo "ruff format: good"
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q tests/house

bench: $(READY) ## the benchmarks, paired with this machine's own limits (ARGS passed on)
	@$(BIN)/python -m benches $(ARGS)

browser: ## install what the tests of pages use: chromium of Debian, as root; axe-core and tus-js-client
	@command -v chromium >/dev/null || test "$$(id -u)" = 0 || { echo "dray: make browser installs the" \
		"Debian package chromium, which only root can: sudo make browser" >&2; exit 1; }
	@command -v chromium >/dev/null || apt-get install --no-install-recommends $(ARGS) chromium
	@command -v npm >/dev/null || { echo "dray: axe-core and tus-js-client come from npm: install Node.js" >&2; exit 1; }
	@npm install --silent --no-audit --no-fund --no-save --prefix "$(BROWSER)" axe-core@4.14.1 tus-js-client@4.3.1

peers: $(READY) ## install what `make bench` compares with: as root
	@test "$$(id -u)" = 0 || { echo "dray: make peers installs the Debian packages $(PEERS)," \
		"which only root can: sudo make peers" >&2; exit 1; }
	@echo "dray: installing the Debian packages $(PEERS), which Debian may start as services:" \
		"systemctl disable --now rabbitmq-server redis-server postgresql ends them"
	@RUNLEVEL=1 apt-get install --no-install-recommends $(ARGS) $(PEERS)
	@$(BIN)/python tools/bootstrap.py bench
	@echo "dray: fetching Artemis from Maven Central into $(PEERS_HOME)"
	@mvn -q -B dependency:copy -Dartifact=$(ARTEMIS) -DoutputDirectory=$(PEERS_HOME)
	@tar -xzf $(PEERS_HOME)/apache-artemis-*-bin.tar.gz -C $(PEERS_HOME)

docs: $(READY) ## write what the code can tell (tables, commands, errors, modules), check all pages
	@$(BIN)/python tools/draw_tables.py
	@$(BIN)/python tools/write_reference.py
	@$(BIN)/python tools/check_docs.py

torture: $(READY) ## the tests that take minutes
	@$(BIN)/pytest -m torture $(ARGS)

mutations: $(READY) ## change single lines at random, and see whether a test fails (ARGS="--count 30")
	@$(BIN)/python -m tools.mutations $(ARGS)

format: $(READY) ## put the code into shape
	@$(BIN)/ruff check --quiet --fix-only
	@$(BIN)/ruff format

lock: $(READY) ## bring uv.lock up to pyproject.toml (ARGS=--upgrade for newer versions)
	@UV_SYSTEM_CERTS=1 $(BIN)/uv lock $(ARGS)

clean: ## remove what runs leave behind; .venv and .venvs stay
	@rm -rf build dist demo-out spark-warehouse metastore_db derby.log .coverage .coverage.* \
		.hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@for tree in src tests benches tools; do test ! -d $$tree || \
		find $$tree -name __pycache__ -type d -prune -exec rm -rf {} +; done
