# What one types. Everything is set up once: a second run of any target sets up nothing again.
#
#   PYTHON=python3.12     use this interpreter instead of the newest of 3.13, 3.12, 3.11
#   TIDELOG_CACHE=dir     where MinIO is kept (default ~/.cache/tidelog)
#   WORKERS=5             processes that share the tests; the third and the fifth take only tests that can wait (tests/support/spread.py)
#   ARGS="..."            passed on to demo, gateway, test (pytest) and bench

SHELL := /bin/sh
# Tests start hundreds of processes: each would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help setup dist demo test quick conformance-auth kafka-clients kafka-suites catalogs browser simulate torture torture-modes torture-kafka torture-queues torture-rights torture-typed torture-maintenance torture-spark torture-pipeline large-transactions gateway minio minio-server lint lint-infra docker kubernetes bench clean

STAMP := .venv/.tidelog-set-up
PACKAGES := tidelog gateway log_format compaction spark_pipeline
CHECKED := $(PACKAGES) tests benchmarks examples

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

setup: $(STAMP) ## Make .venv with everything, and get the Spark jars

$(STAMP): requirements.lock pyproject.toml
	@sh scripts/setup.sh
	@touch $@

demo: $(STAMP) ## Replay 336,776 flights: HTTP in, Delta on disk, HTTP and Spark out
	.venv/bin/tidelog demo $(ARGS)

test: minio-server browser $(STAMP) ## Run every check and every test (needs Go once, to build MinIO, and Chromium)
	@nice $(MAKE) --no-print-directory lint & lint=$$!; \
	.venv/bin/python -P scripts/run_tests.py -n $(or $(WORKERS),5) --dist loadfile $(ARGS); tests=$$?; \
	wait $$lint && exit $$tests

quick: $(STAMP) ## Check what changed within a minute: style, types, unit and property tests that the change concerns
	@.venv/bin/python scripts/quick.py $(BASE)

conformance-auth: $(STAMP) ## Run the black-box suite with auth=on, as a caller with the rights that it needs (part of test)
	.venv/bin/pytest tests/conformance/http_api -k least-rights $(ARGS)

kafka-clients: $(STAMP) ## Run programs written for Kafka, unchanged, against a gateway, and a broker (needs Maven, a JDK, Go, Rust, npm; kcat, PostgreSQL)
	@sh scripts/kafka_clients.sh install
	.venv/bin/python -m tests.kafka_clients --beside $(ARGS)

kafka-suites: $(STAMP) ## Run Kafka clients' own tests against a gateway (needs Go), more with ARGS="--kafkajs CHECKOUT --librdkafka CHECKOUT …"
	.venv/bin/python -m tests.kafka_clients.suites $(ARGS)

catalogs: minio-server $(STAMP) ## Read a topic by name, and its Delta table, with DuckDB, Spark, Trino, Flink and others, Iceberg's own kit, a real Hive Metastore (needs Maven, a JDK; Trino Java 24)
	@sh scripts/catalogs.sh install
	.venv/bin/python -m tests.catalogs $(ARGS)

simulate: $(STAMP) ## Run SEEDS (default 10000) histories of the log's core and of whole gateways under misfortune, and without any
	TIDELOG_SIMULATION_SEEDS=$(or $(SEEDS),10000) TIDELOG_SERVICE_SEEDS=$(or $(SEEDS),10000) TIDELOG_GROUP_SEEDS=$(or $(SEEDS),10000) \
		TIDELOG_CALM_SEEDS=$(or $(SEEDS),10000) TIDELOG_CALLS_SEEDS=$(or $(SEEDS),10000) TIDELOG_REGISTERING_SEEDS=$(or $(SEEDS),10000) \
		TIDELOG_JOURNAL_SEEDS=$(or $(SEEDS),10000) \
		TIDELOG_MODES_SEEDS=$(or $(SEEDS),10000) TIDELOG_QUEUE_SEEDS=$(or $(SEEDS),10000) TIDELOG_OFFERS_SEEDS=$(or $(SEEDS),10000) \
		TIDELOG_DELAYS_SEEDS=$(or $(SEEDS),10000) TIDELOG_KAFKA_SEEDS=$(or $(SEEDS),10000) TIDELOG_TYPED_SEEDS=$(or $(SEEDS),10000) \
		TIDELOG_RESTLESS_SEEDS=$(or $(SEEDS),10000) TIDELOG_TABLE_SEEDS=$(or $(SEEDS),10000) TIDELOG_WIDER_TABLE_SEEDS=$(or $(SEEDS),10000) .venv/bin/pytest -n 2 \
		tests/simulation/test_*_simulation.py tests/simulation/test_simulation.py \
		-k "guarantees or every_answer or nothing_changed or what_they_promise or come_once or some_order_gives" $(ARGS)

torture: minio-server $(STAMP) ## Kill, freeze and cut off real processes for SECONDS (default 300), then judge
	.venv/bin/python tests/torture --seconds $(or $(SECONDS),300) $(ARGS)

torture-modes: minio-server $(STAMP) ## As torture, while topics move between their own commits and journals
	.venv/bin/python tests/torture --modes --seconds $(or $(SECONDS),300) $(ARGS)

torture-kafka: minio-server $(STAMP) ## As torture, with clients by Kafka's protocol beside those over HTTP
	.venv/bin/python tests/torture --kafka --seconds $(or $(SECONDS),300) $(ARGS)

torture-queues: minio-server $(STAMP) ## As torture, for the workers of a queue and delayed records
	.venv/bin/python tests/torture --queues --seconds $(or $(SECONDS),300) $(ARGS)

torture-rights: minio-server $(STAMP) ## Change rights and rotate tokens for SECONDS (default 300), kill gateways, then judge who was let in
	.venv/bin/python tests/torture --rights --seconds $(or $(SECONDS),300) $(ARGS)

torture-typed: minio-server $(STAMP) ## Typed topics with schemas that evolve, killed gateways and maintenance for SECONDS (default 300), then judge each row
	.venv/bin/python tests/torture --typed --seconds $(or $(SECONDS),300) $(ARGS)

torture-maintenance: minio-server $(STAMP) ## Kill maintenance for SECONDS (default 300) beside gateways, readers and Spark, then judge
	.venv/bin/python tests/torture --maintenance --seconds $(or $(SECONDS),300) $(ARGS)

torture-spark: minio-server $(STAMP) ## Kill Spark's drivers RESTARTS (default 20) times, and gateways, then judge what its sink wrote
	.venv/bin/python tests/torture --spark --restarts $(or $(RESTARTS),20) $(ARGS)

torture-pipeline: minio-server $(STAMP) ## Kill a pipeline's driver RESTARTS (default 8) times, then judge silver, dead letters and gold
	.venv/bin/python tests/torture --pipeline --restarts $(or $(RESTARTS),8) $(ARGS)

large-transactions: minio-server $(STAMP) ## Commit Kafka transactions of MEBIBYTES (default 2048) on MinIO and of BATCHES (100000), and measure the gateway's memory
	TIDELOG_LARGE_MEBIBYTES=$(or $(MEBIBYTES),2048) TIDELOG_LARGE_BATCHES=$(or $(BATCHES),100000) \
		.venv/bin/pytest -s --timeout 900 tests/integration/kafka/test_large_transactions.py -k "on_minio or many_batches" $(ARGS)

dist: $(STAMP) ## Build the wheel and the source archive, and their checksums, in dist/
	rm -rf dist
	.venv/bin/python -m hatchling build -t sdist -t wheel -d dist
	cd dist && if command -v sha256sum >/dev/null; then sha256sum tidelog-*; else shasum -a 256 tidelog-*; fi > SHA256SUMS

gateway: $(STAMP) ## Serve the topics in ./data
	.venv/bin/tidelog serve --store ./data $(ARGS)

minio: minio-server $(STAMP) ## Run MinIO and a gateway on it, until Ctrl-C
	@.venv/bin/python scripts/minio_and_gateway.py $(ARGS)

lint: $(STAMP) ## Check style, types and which package imports which
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python scripts/sentences.py --check

lint-infra: $(STAMP) ## Check infra/ by its formats' own tools (fetched once), and apply it to an emulated AWS
	@sh scripts/lint_infra.sh

docker: minio-server $(STAMP) ## Run compose.yaml on Docker, and kill gateways under load (root; apt-get install docker.io debootstrap)
	.venv/bin/python infra/docker/line.py $(or $(DIRECTORY),$(or $(TIDELOG_CACHE),$(HOME)/.cache/tidelog)/docker) $(ARGS)

kubernetes: minio-server $(STAMP) ## Run infra/kubernetes and the chart on a Kubernetes of its own, and disturb it under load (root, Go; its --help says what else)
	.venv/bin/python infra/cluster/line.py $(or $(DIRECTORY),$(or $(TIDELOG_CACHE),$(HOME)/.cache/tidelog)/kubernetes) $(ARGS)

minio-server:
	@sh scripts/minio.sh install

browser:
	@sh scripts/chromium.sh install

bench: minio-server $(STAMP) ## Measure (results and how to read them: benchmarks/README.md)
	@sh scripts/kafka.sh install || echo "Without Kafka beside it." >&2
	.venv/bin/python -m benchmarks $(ARGS)

clean: ## Remove what set-up, tests and tools made; ./data stays
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log
	find $(CHECKED) -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
