"""Kafka's own client on a gateway and on a broker, in one run: records per second, and CPU per record of client and server.

The client is confluent-kafka (librdkafka), with the same settings for both; beside it stands Java's ProducerPerformance. Reads at
the tail find the records in the gateway's memory, again and again; those of history come from the store, by a gateway that was
just started. Kafka's records are in the system's memory for both. A second table has a record a second for each of many topics,
by one producer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness.client import SENT_COLUMNS, Sent, run
from benchmarks.harness.options import Options
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.processes import Server, free_port, gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from benchmarks.kafka.broker import Broker, broker, kept, written_logging
from benchmarks.kafka.clients import WARM_UP_RECORDS
from benchmarks.kafka.produce import java

RECORDS = 1_000_000
TAIL_RECORDS = 80_000
"""As many as the tail in memory holds, warm-up included, with their batches as they were sent."""
TAIL_TIMES = 11
"""Reads of them; the first one is not measured."""
PROMPT_BYTES = 4 << 20
"""Java's producer has five requests of 1 MiB under way, and then waits: for ``flush.ms``, unless so many bytes are enough."""
TOPICS = 1_000
TOPICS_SECONDS = 20
VALUE_BYTES = 100
_PROGRAMS = Path(__file__).parent


def measure(_options: Options) -> Iterator[Table]:
    """Yield two tables: produce and both ways to consume; many topics."""
    title = f"Kafka's clients (confluent-kafka), {VALUE_BYTES} B values, no keys, 8 partitions"
    table = Table(title, list(SENT_COLUMNS))
    if not (kept() / "complete").exists():
        table.notes.append(f"Not measured: no Kafka clients in {kept()}; run scripts/kafka.sh install.")
        yield table
        return
    many = Table(
        f"{TOPICS:,} topics, a record of 100 B a second for each, one confluent-kafka producer, acks=all",
        ["system", "records/s", "p50 ms", "p99 ms", "worst ms", "client us/record", "server us/record"],
        notes=["Kafka does not fsync."],
    )
    with directory() as store:
        _ours(table, store)
    with directory() as store, _listening(store) as (server, address):
        _add_many(many, _many_topics("Tidelog", address, server))
    with broker() as kafka:
        _theirs(table, kafka)
        _add_many(many, _many_topics("Kafka", kafka.address, kafka.server))
    yield table
    yield many


@contextmanager
def _listening(store: str) -> Iterator[tuple[Server, str]]:
    address = f"127.0.0.1:{free_port()}"
    with gateway(store, settings=["--kafka-listen", address]) as server:
        yield server, address


def _ours(table: Table, store: str) -> None:
    with tempfile.TemporaryDirectory() as scratch, _listening(store) as (server, address):
        for topic in ("records", "java", "tail"):
            make_topic(server.port, topic)
        make_topic(server.port, "plain", config={"compression.type": "uncompressed"})
        make_topic(server.port, "prompt", config={"flush.bytes": PROMPT_BYTES})
        _add(table, _produced("Tidelog, produce", address, "records", server, RECORDS))
        _add(table, _produced("Tidelog, produce, uncompressed", address, "plain", server, RECORDS))
        ours = Broker(server, address, written_logging(Path(scratch)))
        _add(table, java(ours, "java", RECORDS, VALUE_BYTES, "Tidelog, Java's produce"))
        prompt = f"Tidelog, Java's produce, flush.bytes {PROMPT_BYTES >> 20} MiB"
        _add(table, java(ours, "prompt", RECORDS, VALUE_BYTES, prompt))
        _produced("", address, "tail", server, TAIL_RECORDS - WARM_UP_RECORDS)
        _add(table, _consumed("Tidelog, consume at the tail", address, "tail", server, TAIL_RECORDS, TAIL_TIMES))
    with _listening(store) as (server, address):
        _add(table, _consumed("Tidelog, consume history", address, "records", server, RECORDS))


def _theirs(table: Table, kafka: Broker) -> None:
    for topic in ("records", "java", "tail"):
        kafka.make_topic(topic)
    _add(table, _produced("Kafka, produce", kafka.address, "records", kafka.server, RECORDS))
    _add(table, _consumed("Kafka, consume", kafka.address, "records", kafka.server, RECORDS))
    _add(table, java(kafka, "java", RECORDS, VALUE_BYTES, "Kafka, Java's produce"))
    _produced("", kafka.address, "tail", kafka.server, TAIL_RECORDS - WARM_UP_RECORDS)
    _add(table, _consumed("Kafka, consume the tail", kafka.address, "tail", kafka.server, TAIL_RECORDS, TAIL_TIMES))


def _many_topics(name: str, address: str, server: Server) -> Sent:
    return _run("many_topics.py", name, [address, str(TOPICS), str(TOPICS_SECONDS)], server, TOPICS * TOPICS_SECONDS)


def _add_many(table: Table, sent: Sent) -> None:
    cpu = (sent.cpu_us(sent.client_cpu_seconds), sent.cpu_us(sent.server_cpu_seconds))
    waits = (percentile_text(sent.latencies_ms, fraction, 0) for fraction in (0.5, 0.99, 1))
    table.add(sent.system, f"{sent.rate:,.0f}", *waits, *(f"{one:,.0f}" for one in cpu))


def _produced(name: str, address: str, topic: str, server: Server, records: int) -> Sent:
    return _run(
        "clients.py", name, ["confluent-kafka", address, topic, str(records), str(VALUE_BYTES)], server, records
    )


def _consumed(name: str, address: str, topic: str, server: Server, records: int, times: int = 1) -> Sent:
    measured = records * max(1, times - 1)
    return _run("consume.py", name, [address, topic, str(records), str(times)], server, measured)


def _run(program: str, name: str, arguments: list[str], server: Server, records: int) -> Sent:
    command = [str(kept() / "venv" / "bin" / "python"), str(_PROGRAMS / program), *arguments]
    return run(name, command, [server], records=records, value_bytes=VALUE_BYTES)


def _add(table: Table, sent: Sent) -> None:
    table.add(*sent.cells())
