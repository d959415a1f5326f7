# `make help` lists what people do here.

# release: for first use and daily work. dist: slower to build, a faster program; for images, releases and benchmarks.
PROFILE ?= release
WORKERS ?= 2
SECONDS ?= 60
FOLDER   = $(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
BINARY   = target/$(FOLDER)/openskill
# The program that benchmarks measure and releases contain.
DIST    := target/dist/openskill
VENV    := target/test-venv
HOSTS   := target/bench-venv
MCPO    := target/bench-venv-mcpo
SCHEMATHESIS := target/schemathesis-venv
EVALS   := target/evaluations-venv
SESSIONS := target/sessions-venv
CLIENTS := target/mcp-clients
MCP_CLIENTS := mcp-1.30 mcp-1.9 fastmcp langchain openai-agents pydantic-ai mcp-proxy claude
BROWSER := target/browser-venv
# The Python that runs scripts, the same for everything that is measured.
SCRIPTS  = $${OPENSKILL_PYTHON:-$$($(HOSTS)/bin/python -c 'import sys; print(sys._base_executable)')}

# A virtual environment in a folder with the packages of a file, made again when the file changes.
define make-venv
	@[ -x $(1)/bin/python ] && cmp -s $(2) $(1)/installed.txt || { \
		rm -rf $(1); \
		python3 -m venv $(1) || { echo "python3 -m venv does not work: apt-get install python3-venv" >&2; exit 1; }; \
		$(1)/bin/python -m pip install --quiet -r $(2) || exit 1; \
		cp $(2) $(1)/installed.txt; \
	}
endef

.PHONY: help up serve readers-in-background build program readers gateway proto test check check-readers lint doc eval eval-injections eval-abuse eval-tasks eval-agent eval-sessions eval-research eval-browser eval-identity eval-venv bench build-bench build-dist bench-venv bench-instructions bench-agent bench-operations bench-mcp bench-runners flamegraph fuzz fuzz-mcp soak chaos histories schemathesis mcp-clients test-venv compose-up compose-down sdk client dist release-contract clean need-rust need-python need-valgrind

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: program need-python ## Build, start a gateway on 127.0.0.1:8000 and two workers (WORKERS=N), say what to try
	@# The first call does not wait for the readers: they are ready about two minutes later.
	@$(MAKE) --no-print-directory -j2 serve readers-in-background

serve:
	@exec $(BINARY) up --workers $(WORKERS)

# Without MAKEFLAGS, cargo does not wait for the job slot that `serve` occupies.
readers-in-background:
	-@env -u MAKEFLAGS -u MFLAGS $(MAKE) --no-print-directory readers PROFILE=$(PROFILE)

build: program readers need-python ## Build the programs (PROFILE=dev: in half the time; PROFILE=dist: faster programs)

program: need-rust
	@[ -x $(BINARY) ] || echo "building openskill: the first time takes some minutes"
	@cargo build --locked --profile $(PROFILE) -p openskill

# Workers read source code and PDF files with it. Its target directory is separate because cargo locks the main one.
readers: need-rust
	@cargo build --locked --quiet --profile $(PROFILE) --manifest-path crates/readers/Cargo.toml --target-dir target/readers
	@mkdir -p target/$(FOLDER) && ln -f target/readers/$(FOLDER)/openskill-readers target/$(FOLDER)/

gateway: need-rust ## Build the program of the gateway's image, without a worker: target/release/openskill-gateway
	@cargo build --locked --profile $(PROFILE) -p openskill --no-default-features
	@# Not under the name of the program with a worker: `make build` puts that back at once.
	@# A program that did not change is still the same file under both names, which mv refuses.
	@rm -f $(BINARY)-gateway && mv $(BINARY) $(BINARY)-gateway

test: need-rust need-python lint test-venv ## Everything CI runs except bench-instructions
	$(MAKE) gateway readers PROFILE=dev
	cargo build --locked -p openskill
	$(MAKE) check-readers
	cargo test --locked --workspace --doc
	$(MAKE) doc
	@tests/suite.py

soak: build test-venv ## Repeat storms, bombs, floods and mutations for about an hour, then chaos
	OPENSKILL_BIN=$(BINARY) OPENSKILL_TEST_SOAK=1 OPENSKILL_FUZZ_SECONDS=1200 tests/suite.py --threads 1 --limit 3600 \
		walls::storm walls::bombs hostile_values::flood mcp_servers secrets:: compose::replicas mcp_face::mutated
	@$(MAKE) --no-print-directory chaos

# The crates that differ from BASE. Selecting openskill too makes cargo use the same features of dependencies as other builds.
BASE    ?= HEAD
CHANGED  = $(shell { git diff --name-only $(BASE); git ls-files --others --exclude-standard; } | \
	sed -nE 's#^(crates/)?(agent|builtins|gateway|identity|model|net|proto|readers-protocol|redact|sandbox|skill|store|telemetry|tests|text|worker)/.*#-p openskill-\2#p' | \
	sort -u) -p openskill

check: need-rust ## Format, lint and unit-test the crates that changed (BASE=main: since then), and check the structure
	cargo fmt --all --check
	@git diff --quiet $(BASE) -- crates/readers crates/readers-protocol || $(MAKE) --no-print-directory check-readers
	cargo clippy --locked --quiet $(CHANGED) --all-targets -- -D warnings
	cargo test --locked --quiet $(CHANGED) $(if $(filter openskill-%,$(CHANGED)),--lib) --bins
	cargo test --locked --quiet --workspace --test integration -- structure features

check-readers:
	cargo fmt --check --manifest-path crates/readers/Cargo.toml
	cargo clippy --locked --quiet --manifest-path crates/readers/Cargo.toml --target-dir target/readers --all-targets -- -D warnings
	cargo test --locked --quiet --manifest-path crates/readers/Cargo.toml --target-dir target/readers

lint: need-rust ## Formatting and lints, warnings denied
	cargo fmt --all --check
	cargo fmt --check --manifest-path proto/generate/Cargo.toml
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked -p openskill --no-default-features --all-targets -- -D warnings

doc: need-rust ## Build the documentation of the code, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace --document-private-items

eval: need-rust ## Run recorded calls, the JSON Schema suite and provider profiles (DATA=folder) through it
	@[ -n "$(DATA)" ] || { echo "say where the data is: make eval DATA=folder" >&2; exit 2; }
	cargo run --locked --quiet --release -p openskill-gateway --example evaluate_arguments -- $(DATA)/tool_calls
	cargo run --locked --quiet --release -p openskill-text --example tool_search -- $(DATA)/tool_calls
	cargo run --locked --quiet --release -p openskill-gateway --example json_schema_suite -- $(DATA)/json_schema_2020_12
	cargo run --locked --quiet --release -p openskill --example export_profiles -- \
		$(DATA)/provider_schema_profiles worker/skills $(wildcard $(DATA)/mcp_tools_*.json)

eval-injections: build eval-venv ## Attack the agent with every injection of AgentDojo, by a model that obeys them (LIMIT=N a suite)
	@OPENSKILL_BIN=$(BINARY) LIMIT=$(or $(LIMIT),100000) $(EVALS)/bin/python tests/evaluations/injections.py

eval-tasks: build eval-venv ## Solve tau2's retail tasks through the agent, and compare how the shop ends (LIMIT=N)
	@OPENSKILL_BIN=$(BINARY) LIMIT=$(or $(LIMIT),100000) $(EVALS)/bin/python tests/evaluations/retail.py

eval-agent: build ## Count a model's valid calls (MODEL=url, DATA=folder with MCP tool lists; see docs)
	@OPENSKILL_BIN=$(BINARY) MODEL=$(MODEL) MODEL_NAME=$(MODEL_NAME) DATA=$(DATA) ONLY='$(ONLY)' PROMPTED=$(PROMPTED) \
		python3 tests/evaluations/valid_calls.py

eval-sessions: build-dist need-python ## Compare sessions of Python code with ipykernel, bubblewrap and CPython's tests (ONLY=kernels)
	$(call make-venv,$(SESSIONS),tests/evaluations/requirements-sessions.txt)
	@for part in $(or $(ONLY),kernels starts growth figures cpython); do \
		OPENSKILL_BIN=$(DIST) $(SESSIONS)/bin/python tests/evaluations/sessions.py $$part || exit 1; \
	done

eval-research: build need-python ## Count the answers that research quotes, on pages of SQuAD (DATA=folder with dev-v1.1.json, LIMIT=N)
	@[ -n "$(DATA)" ] || { echo "say where the data is: make eval-research DATA=folder" >&2; exit 2; }
	@OPENSKILL_BIN=$(BINARY) LIMIT=$(or $(LIMIT),500) python3 tests/evaluations/research.py $(DATA)

eval-identity: build-dist need-python ## Measure how exact rate limits are, and the time of refusals, three minutes (ONLY=keys)
	@OPENSKILL_BIN=$(DIST) python3 tests/evaluations/identity.py $(ONLY)

eval-abuse: build ## Have limited principals take all they can of a gateway, kind by kind, ten minutes (ONLY="tasks prompts")
	@SECONDS=15 OPENSKILL_BIN=$(BINARY) python3 tests/evaluations/abuse.py --each $(ONLY)

eval-browser: build-dist need-python ## Play MiniWoB++, press 2,000 elements, time reading, kill and leave browsers alone (ONLY=miniwob, ONLY="browser_clicks browser_speed browser_large browser_ends browser_alone")
	$(call make-venv,$(BROWSER),tests/evaluations/requirements-browser.txt)
	@for part in $(or $(ONLY),miniwob browser_clicks browser_speed browser_large browser_ends browser_alone); do \
		OPENSKILL_BIN=$(DIST) $(BROWSER)/bin/python tests/evaluations/$$part.py || exit 1; \
	done

eval-venv: need-python
	$(call make-venv,$(EVALS),tests/evaluations/requirements.txt)

# The load generator and the chaos driver. Selecting openskill too makes cargo use the same features of dependencies.
BENCH := OPENSKILL_BIN=$(DIST) target/dist/bench

build-dist:
	@$(MAKE) --no-print-directory build PROFILE=dist

build-bench: build-dist
	@cargo build --locked --quiet --profile dist -p openskill -p openskill-tests --bin openskill --bin bench --bin chaos

bench: build-bench bench-venv ## Compare with tonic, FastAPI, FastMCP and mcpo, ten minutes (ARGS="--only fork --rounds 1 --before PATH")
	@$(BENCH) calls --hosts $(HOSTS)/bin/python --mcpo $(MCPO)/bin/mcpo \
		$(if $(findstring --python,$(ARGS)),,--python "$(SCRIPTS)") $(ARGS)

bench-venv: need-python
	$(call make-venv,$(HOSTS),tests/bench/requirements.txt)
	$(call make-venv,$(MCPO),tests/bench/requirements-mcpo.txt)

bench-instructions: need-rust need-valgrind ## Count the instructions of a call, fail if they grew (RECORD=1 records the counts)
	OPENSKILL_RECORD_INSTRUCTIONS=$(RECORD) cargo test --locked --profile dist -p openskill-gateway --lib -- \
		--exact instructions::counts_are_as_recorded --ignored --nocapture

bench-agent: build-bench ## Measure plain calls beside 200 conversations, a minute (ARGS="--chats 50")
	$(BENCH) agent $(ARGS)

bench-operations: build-bench ## Measure stored calls beside plain ones and pgbench, two minutes (ARGS="--stored 10000")
	$(BENCH) operations $(ARGS)

bench-mcp: build-bench bench-venv ## Compare its MCP face with FastMCP, rmcp and mcpo, three minutes (ARGS="--only list,startup")
	@cargo build --quiet --locked --release --manifest-path tests/bench/rmcp/Cargo.toml --target-dir target/bench-rmcp
	@$(BENCH) mcp --hosts $(HOSTS)/bin/python --mcpo $(MCPO)/bin/mcpo \
		--rmcp target/bench-rmcp/release/rmcp-echo $(ARGS)

bench-runners: build-bench ## Compare the runners, six minutes (ARGS="--only fork,process --python PATH --before PATH")
	$(BENCH) runners $(ARGS)

flamegraph: build-bench ## Draw where the gateway spends its time under load, to target/flamegraph.svg (needs perf and inferno)
	@OPENSKILL_BIN=$(DIST) BENCH=target/dist/bench tests/bench/flamegraph.sh

fuzz: need-rust ## Fuzz the reading and repairing of arguments for SECONDS=60 each (needs cargo-fuzz and a nightly compiler)
	cd gateway && for target in parse repair; do \
		cargo +nightly fuzz run --target-dir ../target/fuzz $$target -- -max_total_time=$(SECONDS) -max_len=4096 || exit 1; \
	done

fuzz-mcp: build need-python ## Send mutated messages of MCP to a gateway for SECONDS=60, and check its answers
	OPENSKILL_BIN=$(abspath $(BINARY)) OPENSKILL_FUZZ_SECONDS=$(SECONDS) cargo test --locked -p openskill-tests --test integration -- \
		--nocapture mcp_face::mutated

chaos: build-bench ## Kill, stop, flood and restart it for 15 minutes, and check the invariants (ARGS="--only faults --scale 0.1")
	cargo test --locked --profile dist -p openskill-gateway circuit -- --nocapture
	OPENSKILL_BIN=$(DIST) target/dist/chaos $(ARGS)

histories: build ## Kill gateways, workers and databases while operations run, and check what clients saw, ten minutes (SEED=N, SECONDS=N, CALLS=N, ONLY=kill)
	@cargo build --locked --quiet --profile $(PROFILE) -p openskill -p openskill-tests --bin openskill --bin histories
	@OPENSKILL_BIN=$(BINARY) target/$(FOLDER)/histories --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(CALLS),--calls $(CALLS)) $(if $(ONLY),--only $(ONLY))

schemathesis: build need-python ## Ask a gateway whether it does what its OpenAPI document says, minutes (ARGS="--max-examples 100")
	$(call make-venv,$(SCHEMATHESIS),tests/clients/requirements-schemathesis.txt)
	tests/clients/schemathesis.sh $(BINARY) $(SCHEMATHESIS)/bin/st $(ARGS)

mcp-clients: build $(addprefix mcp-client-venv-,$(MCP_CLIENTS)) ## Run real MCP clients against a gateway (ONLY='fastmcp claude')
	@python3 tests/clients/mcp_clients.py $(BINARY) $(CLIENTS) $(ONLY)

mcp-client-venv-%: need-python
	$(call make-venv,$(CLIENTS)/$*,tests/clients/real/requirements/$*.txt)

test-venv: need-python ## Install what tests need beside Rust: a stand-in for grpcurl, and real MCP servers
	$(call make-venv,$(VENV),tests/readme/requirements.txt)

compose-up: ## Start gateway and workers as containers (WORKERS=N; default: as many as there are now, else 2)
	@$(if $(filter file,$(origin WORKERS)),,WORKERS=$(WORKERS) )deploy/compose.sh up

compose-down: ## Stop and remove the containers
	@deploy/compose.sh down

sdk: need-python ## Build the Python library openskill_sdk as a wheel, to dist/
	@python3 -m pip --version >/dev/null 2>&1 || { echo "pip is missing: apt-get install python3-pip" >&2; exit 1; }
	@python3 -m pip wheel --quiet --no-deps --wheel-dir dist ./worker/skills

client: need-python ## Build the Python client openskill_client as a wheel, to dist/
	@python3 -m pip --version >/dev/null 2>&1 || { echo "pip is missing: apt-get install python3-pip" >&2; exit 1; }
	@python3 -m pip wheel --quiet --no-deps --wheel-dir dist ./proto/python

dist: need-python ## Make all files of a release, to dist/: tarball, wheels, images, symbols, checksums, notes
	@$(MAKE) --no-print-directory gateway PROFILE=dist
	@$(MAKE) --no-print-directory build-dist
	@deploy/dist.sh $(DIST)

proto: need-rust ## Write the messages of the contract as Rust again, after a .proto file changed
	cargo run --locked --quiet --manifest-path proto/generate/Cargo.toml --target-dir target/generate

release-contract: need-rust ## Keep the .proto contract as that of the last release, which later ones must not break
	OPENSKILL_RELEASE_CONTRACT=1 cargo test --locked --quiet -p openskill-tests --test integration -- \
		--exact contract::the_contract_breaks_nobody_who_uses_the_last_release

clean: ## Remove everything that was built
	cargo clean

need-rust:
	@command -v cargo >/dev/null || { echo "Rust is missing: install it from https://rustup.rs (or: apt-get install rustup)" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "A C compiler is missing, Rust links with it: apt-get install build-essential" >&2; exit 1; }

need-valgrind:
	@command -v valgrind >/dev/null || { echo "valgrind is missing, it counts the instructions: apt-get install valgrind" >&2; exit 1; }

need-python:
	@command -v python3 >/dev/null || { echo "Python 3 is missing, the shipped skills need it: apt-get install python3" >&2; exit 1; }
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "Python 3.9 or newer is needed" >&2; exit 1; }
