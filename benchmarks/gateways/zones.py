"""Bytes between zones: three gateways in three zones, and a producer and a consumer in the first, with the SDK.

Every body at a gateway of another zone has crossed: of the clients, and of gateways that pass requests on. Without zones the
clients go to each topic's owner; with them they name theirs.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence

from benchmarks.harness.metrics import STORE_REQUESTS, metrics
from benchmarks.harness.options import Options
from benchmarks.harness.percentiles import percentile_text
from benchmarks.harness.processes import Server, gateway, make_topic, meet
from benchmarks.harness.report import Table
from benchmarks.harness.stores import directory
from tidelog import Consumer, Producer

ZONES = ("z1", "z2", "z3")
TOPICS = 12
"""So many that each gateway owns some."""
VALUE_BYTES = 1024
RECORDS_PER_SECOND = 400
SETTLES_SECONDS = 8.0
"""Until the clients have learned the gateways."""
_BYTES = ("tidelog_http_received_bytes_total", "tidelog_http_sent_bytes_total")


_COLUMNS = [
    "commits", "the clients' zone", "MiB produced and consumed", "MiB between zones", "share", "send to read p50 ms",
    "GETs a second of the clients' gateway",
]  # fmt: skip


def measure(options: Options) -> Iterator[Table]:
    """Yield one table: topics with their own commits and topics at a journal, without zones and with them."""
    table = Table(
        f"Between zones: {TOPICS} topics, three gateways in three zones, clients in one, records of {VALUE_BYTES} B",
        _COLUMNS,
        notes=["A share of 100 %: each byte crosses once on its way in or out."],
    )
    for mode in ("own", "shared"):
        for zone in (None, ZONES[0]):
            with contextlib.ExitStack() as running, directory() as store:
                servers = [
                    running.enter_context(gateway(store, settings=("--heartbeat-ms", "500", "--zone", name)))
                    for name in ZONES
                ]
                meet(servers)
                table.add(mode, zone or "not named", *_row(servers, mode, zone, max(options.seconds, 10.0)))
    yield table


def _row(servers: Sequence[Server], mode: str, zone: str | None, seconds: float) -> list[str]:
    topics = [f"{mode}-{number}" for number in range(TOPICS)]
    for topic in topics:
        make_topic(servers[0].port, topic, 1, config={"commit.mode": mode, "flush.ms": 250})
    url = f"http://127.0.0.1:{servers[0].port}"
    stopping, latencies_ms, read_bytes = threading.Event(), list[float](), 0

    def consume() -> None:
        nonlocal read_bytes
        with Consumer(*topics, bootstrap_servers=url, zone=zone, auto_offset_reset="earliest") as consumer:
            while not stopping.is_set():
                for record in consumer.poll(500):
                    read_bytes += VALUE_BYTES
                    latencies_ms.append(time.time() * 1000 - record.timestamp)

    reader = threading.Thread(target=consume)
    reader.start()
    sent_bytes = 0
    try:
        with Producer(url, zone=zone, linger_ms=20) as producer:
            before, started, counted = (0.0, 0.0), time.monotonic(), False
            while (passed := time.monotonic() - started) < SETTLES_SECONDS + seconds:
                if passed > SETTLES_SECONDS and not counted:
                    before, counted, sent_bytes, read_bytes = _seen(servers), True, 0, 0
                    latencies_ms.clear()
                for number in range(RECORDS_PER_SECOND // 20):
                    producer.send(topics[number % TOPICS], os.urandom(VALUE_BYTES))
                    sent_bytes += VALUE_BYTES
                time.sleep(0.05)
            producer.flush()
            time.sleep(2)
        after = _seen(servers)
    finally:
        stopping.set()
        reader.join()
    crossed, clients = after[0] - before[0], sent_bytes + read_bytes
    return [
        f"{sent_bytes / 2**20:.1f} and {read_bytes / 2**20:.1f}",
        f"{crossed / 2**20:.2f}",
        f"{crossed / max(1, clients):.0%}",
        percentile_text(latencies_ms, 0.5, 0),
        f"{(after[1] - before[1]) / (seconds + 2):.1f}",
    ]


def _seen(servers: Sequence[Server]) -> tuple[float, float]:
    """Return bytes of bodies at the gateways of other zones, and reads of the store by the clients' own."""
    own, *others = (metrics(server.port) for server in servers)
    return sum(other.total(name) for other in others for name in _BYTES), own.total(STORE_REQUESTS, kind="GET")
