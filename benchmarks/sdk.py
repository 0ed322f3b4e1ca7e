"""Our SDK beside Kafka's clients: records per second, and CPU per record over client, gateway or broker, and store, in one run.

By default Kafka's broker keeps records in the page cache and does not compress. Ours stores them before it acknowledges, and
compresses. So both our settings of compression are measured.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from benchmarks import processes
from benchmarks.kafka import produce as kafka_produce
from benchmarks.kafka.broker import broker
from benchmarks.measured_client import Sent, run
from benchmarks.processes import Server
from benchmarks.produce import make_topic
from benchmarks.report import Table

RECORDS = 1_000_000
VALUE_BYTES = 100
FORMS = ("one-by-one", "tables")
COMPRESSIONS = ("zstd", "uncompressed")


def measure() -> Iterator[Table]:
    """One table: every system with records of ``VALUE_BYTES``."""
    table = Table(
        f"SDK beside Kafka's clients, {VALUE_BYTES} B values, no keys, 8 partitions",
        ["system", "records/s", "client us/record", "server and store us/record", "all, CPU us/record"],
    )
    with processes.directory() as store, processes.gateway(store) as gateway:
        _add(table, _ours(gateway, [gateway], "directory"))
    with contextlib.ExitStack() as stack:
        uri, environment, minio = stack.enter_context(processes.minio())
        gateway = stack.enter_context(processes.gateway(uri, environment))
        _add(table, _ours(gateway, [gateway, minio], "MinIO"))
    try:
        with broker() as kafka:
            _add(table, kafka_produce.measure(kafka, records=RECORDS, value_bytes=VALUE_BYTES))
    except FileNotFoundError as missing:
        table.notes.append(f"Without Kafka: {missing}.")
    yield table


def _ours(gateway: Server, servers: list[Server], where: str) -> Iterator[Sent]:
    for form in FORMS:
        for compression in COMPRESSIONS:
            topic = f"{form}-{compression}"
            make_topic(gateway.port, topic, **{"compression.type": compression})
            command = [sys.executable, "-m", "benchmarks.sdk_client", form, f"http://127.0.0.1:{gateway.port}", topic]
            yield run(
                f"Tidelog on {where}, {form}, {compression}",
                [*command, str(RECORDS), str(VALUE_BYTES)],
                servers,
                records=RECORDS,
                value_bytes=VALUE_BYTES,
            )


def _add(table: Table, results: Iterator[Sent]) -> None:
    for sent in results:
        client, server = sent.cpu_us(sent.client_cpu_seconds), sent.cpu_us(sent.server_cpu_seconds)
        table.add(sent.system, f"{sent.rate:,.0f}", f"{client:.2f}", f"{server:.2f}", f"{client + server:.2f}")
