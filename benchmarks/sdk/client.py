"""Tidelog's producer as a process of its own: ``client.py FORM ADDRESS TOPIC RECORDS VALUE_BYTES``.

``FORM``: ``one-by-one`` or ``tables`` (of 50,000 records). It says what clients of ``benchmarks.harness.client`` say.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import pyarrow as pa

from tidelog import Admin, Producer

WARM_UP_RECORDS = 50_000
TABLE_RECORDS = 50_000
LINGER_MS = 5


def _one_by_one(producer: Producer, topic: str, values: list[bytes]) -> Callable[[int], None]:
    different = len(values)

    def send(count: int) -> None:
        for index in range(count):
            producer.send(topic, values[index % different])
        producer.flush()

    return send


def _tables(producer: Producer, topic: str, values: list[bytes]) -> Callable[[int], None]:
    repeated = [values[index % len(values)] for index in range(TABLE_RECORDS)]
    table = pa.table({"value": pa.array(repeated, pa.binary())})

    def send(count: int) -> None:
        for _ in range(count // TABLE_RECORDS):
            producer.send_table(topic, table)
        producer.flush()

    return send


def main() -> None:
    """Warm up, wait for the signal, send, and check that all records are there."""
    form, address, topic, records, value_bytes = sys.argv[1:]
    values = [json.loads(line).encode() for line in sys.stdin.readline().split("\t")]
    if any(len(value) != int(value_bytes) for value in values):
        raise SystemExit("values of another length")
    with Producer(address, linger_ms=LINGER_MS) as producer:
        send = {"one-by-one": _one_by_one, "tables": _tables}[form](producer, topic, values)
        send(WARM_UP_RECORDS)
        print("ready", flush=True)
        sys.stdin.readline()
        started, cpu = time.perf_counter(), time.process_time()
        send(int(records))
        measured = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}
    with Admin(address) as admin:
        stored = sum(partition.high_watermark for partition in admin.describe_topic(topic).partitions)
    if stored != WARM_UP_RECORDS + int(records):
        raise SystemExit(f"{stored} records are stored")
    print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main()
