"""Where a load runs: at a gateway on a store, with default settings, or at a broker of Apache Kafka."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.harness import processes
from benchmarks.harness.cpu import cpu_seconds
from benchmarks.harness.metrics import STORE_REQUESTS, metrics
from benchmarks.harness.stores import Store, store
from tests.kafka_clients.tried import connect
from tests.kafka_clients.tried.programs import Missing

BROKER: Final = "Kafka"
_CREATE_SECONDS: Final = 30

Requests = Mapping[tuple[str, ...], int]
"""Requests to the store by kind, and by what the object is: those of ``gateway.stores.counted``."""


@dataclass(frozen=True, slots=True)
class Place:
    """``name``: of a store, or ``BROKER``. ``kafka``: ``host:port``. ``http``: the gateway's port; None: a broker has none.
    ``pid``, ``store``: the gateway's process and its store."""

    name: str
    kafka: str
    http: int | None
    pid: int | None = None
    store: Store | None = None

    def make_topic(self, name: str) -> None:
        """Create a topic of one partition, with defaults."""
        administrator = AdminClient({"bootstrap.servers": self.kafka})
        administrator.create_topics([NewTopic(name, 1, 1)])[name].result(_CREATE_SECONDS)

    def asked(self) -> Counter[tuple[str, ...]]:
        """Return the gateway's requests to its store so far, by its own count."""
        return Counter() if self.http is None else metrics(self.http).counts(STORE_REQUESTS, "kind", "of")

    @contextmanager
    def counting(self, counted: Counted) -> Iterator[None]:
        """Count requests, seconds and the gateway's CPU of the block."""
        before, started = self.asked(), time.monotonic()
        cpu_before = self._cpu_seconds()
        try:
            yield
        finally:
            counted.seconds = time.monotonic() - started
            counted.cpu_seconds = self._cpu_seconds() - cpu_before
            counted.requests = self.asked() - before

    def _cpu_seconds(self) -> float:
        return 0.0 if self.pid is None else cpu_seconds(self.pid)


class Counted:
    """What was asked of the store, in how many seconds, and with how many seconds of the gateway's CPU."""

    def __init__(self) -> None:
        self.requests: Requests = {}
        self.seconds = self.cpu_seconds = 0.0


@contextmanager
def gateway(name: str) -> Iterator[Place]:
    """Run a gateway on an empty store of ``STORES``."""
    with ExitStack() as running:
        on = running.enter_context(store(name))
        address = f"127.0.0.1:{processes.free_port()}"
        listening = ["--kafka-listen", address]
        server = running.enter_context(processes.gateway(on.uri, on.environment, listening))
        yield Place(name, address, server.port, server.pid, on)


@contextmanager
def broker() -> Iterator[Place | None]:
    """Run a broker of Apache Kafka; None where its programs, or Java, are missing."""
    with ExitStack() as running:
        directory = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-pace-")))
        try:
            address = running.enter_context(connect.broker(directory))
        except Missing as missing:
            print(f"no {BROKER}: {missing}", flush=True)
            yield None
            return
        yield Place(BROKER, address, None)
