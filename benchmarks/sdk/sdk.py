"""Our SDK beside Kafka's clients: records per second, and CPU per record over client, gateway or broker, and store, in one run.

By default Kafka's broker keeps records in the page cache and does not compress. Ours stores them before it acknowledges, and
compresses. So both our settings of compression are measured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.harness.client import SENT_COLUMNS, Sent, run
from benchmarks.harness.options import Options
from benchmarks.harness.processes import gateway, make_topic
from benchmarks.harness.report import Table
from benchmarks.harness.stores import store
from benchmarks.kafka import produce as kafka_produce
from benchmarks.kafka.broker import broker

RECORDS = 1_000_000
VALUE_BYTES = 100
FORMS = ("one-by-one", "tables")
COMPRESSIONS = ("zstd", "uncompressed")


def measure(_options: Options) -> Iterator[Table]:
    """Yield one table: every system with records of ``VALUE_BYTES``."""
    title = f"SDK beside Kafka's clients, {VALUE_BYTES} B values, no keys, 8 partitions"
    table = Table(title, list(SENT_COLUMNS))
    for name in ("directory", "minio"):
        for sent in _ours(name):
            table.add(*sent.cells())
    try:
        with broker() as kafka:
            for sent in kafka_produce.measure(kafka, records=RECORDS, value_bytes=VALUE_BYTES):
                table.add(*sent.cells())
    except FileNotFoundError as missing:
        table.notes.append(f"Without Kafka: {missing}.")
    yield table


def _ours(name: str) -> Iterator[Sent]:
    with store(name) as place, gateway(place.uri, place.environment) as server:
        for form in FORMS:
            for compression in COMPRESSIONS:
                topic = f"{form}-{compression}"
                make_topic(server.port, topic, config={"compression.type": compression})
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.sdk.client",
                    form,
                    f"http://127.0.0.1:{server.port}",
                    topic,
                ]
                yield run(
                    f"Tidelog, {place.label}, {form}, {compression}",
                    [*command, str(RECORDS), str(VALUE_BYTES)],
                    [server, *place.servers],
                    records=RECORDS,
                    value_bytes=VALUE_BYTES,
                )
