"""Slow reads of the store, asked a second time: how soon, how often, and which answer counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry

from gateway.stores.hedged import HedgedStore
from log_format.clock import SystemClock
from log_format.errors import ObjectMissing, StoreUnavailable
from log_format.stores.hedged import FIRST_HEDGES, PAIRS_PER_THREAD, READS_PER_HEDGE
from log_format.stores.memory import MemoryStore
from log_format.stores.s3 import S3Store
from tests.support.fake_s3 import FakeS3, fake_s3, point_to
from tests.support.store_proxy import Mode, Proxy

STALL_SECONDS = 5.0


class Staged(MemoryStore):
    """``get_range`` does what is staged, in turn; then it answers at once."""

    def __init__(self, *staged: Callable[[], bytes]) -> None:
        super().__init__()
        self.asked_count = 0
        self._staged = list(staged)
        self._lock = threading.Lock()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        with self._lock:
            self.asked_count += 1
            step = self._staged.pop(0) if self._staged else lambda: b"usual"
        return step()


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set at the end: what a test left stalled goes on."""
    event = threading.Event()
    yield event
    event.set()


def hedged(store: MemoryStore | S3Store, threads: int = 4) -> tuple[HedgedStore, CollectorRegistry]:
    registry = CollectorRegistry()
    return HedgedStore(store, threads=threads, clock=SystemClock(), registry=registry), registry


def hedged_count(registry: CollectorRegistry) -> float:
    return sum(
        registry.get_sample_value("tidelog_store_hedged_reads_total", {"first": name}) or 0
        for name in ("first", "second")
    )


def failing(key: str = "k") -> bytes:
    raise StoreUnavailable(key, "broken", may_have_happened=False)


def seconds_of_reads(store: HedgedStore | S3Store, count: int) -> list[float]:
    took = []
    for _ in range(count):
        began = time.perf_counter()
        assert store.get_range("k", 0, 5) == b"12345"
        took.append(time.perf_counter() - began)
    return took


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeS3, S3Store]]:
    """Behind a proxy that stalls the answer to every 50th request for seconds."""
    with fake_s3() as fake:
        port = urlsplit(fake.url).port
        assert port is not None
        with closing(Proxy(port, STALL_SECONDS, stall_every=50)) as proxy:
            point_to(f"http://127.0.0.1:{proxy.port}", monkeypatch)
            monkeypatch.setenv("AWS_REGION", "us-east-1")
            proxy.set(Mode.STALL)
            yield fake, S3Store("bucket")


def test_readers_of_a_store_that_stalls_some_answers_do_not_feel_it(s3: tuple[FakeS3, S3Store]) -> None:
    """One request in 50 waits for seconds; by a second request no read does, and few reads are asked twice."""
    fake, raw = s3
    assert max(seconds_of_reads(raw, 60)) >= STALL_SECONDS
    before = len(fake.requests)
    store, registry = hedged(raw)
    assert max(seconds_of_reads(store, 200)) < STALL_SECONDS * 0.7
    assert 0 < hedged_count(registry) <= FIRST_HEDGES + 200 / READS_PER_HEDGE
    assert len(fake.requests) - before <= 200 + FIRST_HEDGES + 200 / READS_PER_HEDGE
    time.sleep(STALL_SECONDS)  # the stalled answers come, too, and no connection is left open


def test_a_store_that_is_slow_as_a_whole_is_not_asked_twice_as_often() -> None:
    """Once the first few are used up, one read in 20 may be asked again."""

    def slow() -> bytes:
        time.sleep(0.03)
        return b"slow"

    store = Staged(*[lambda: b"fast"] * 30, *[slow] * 400)
    reads, registry = hedged(store)
    for _ in range(30):
        reads.get_range("k", 0, 5)
    for _ in range(100):
        assert reads.get_range("k", 0, 5) == b"slow"
    assert hedged_count(registry) <= FIRST_HEDGES + 130 / READS_PER_HEDGE


def test_a_failure_counts_only_when_both_fail(released: threading.Event) -> None:
    """The slower request may bring what the faster one could not."""

    def late() -> bytes:
        released.wait(1)
        return b"late"

    def late_failure() -> bytes:
        released.wait(1)
        return failing()

    reads, _ = hedged(Staged(*[lambda: b"fast"] * 30, late, failing, late_failure, failing))
    for _ in range(30):
        reads.get_range("k", 0, 5)
    assert reads.get_range("k", 0, 5) == b"late"
    with pytest.raises(StoreUnavailable):
        reads.get_range("k", 0, 5)


def test_errors_pass_and_a_missing_object_is_an_answer(released: threading.Event) -> None:
    """What a request raises is raised, at once."""

    def missing() -> bytes:
        raise ObjectMissing("k")

    def stalled() -> bytes:
        released.wait(10)
        return b""

    store = Staged(failing, missing, *[lambda: b"fast"] * 30, stalled, missing)
    reads, _ = hedged(store)
    with pytest.raises(StoreUnavailable):
        reads.get_range("k", 0, 5)
    with pytest.raises(ObjectMissing):
        reads.get_range("k", 0, 5)
    for _ in range(30):
        reads.get_range("k", 0, 5)
    began = time.perf_counter()
    with pytest.raises(ObjectMissing):
        reads.get_range("k", 0, 5)
    assert time.perf_counter() - began < 5


def test_requests_that_stall_for_good_leave_threads_for_others(released: threading.Event) -> None:
    """A bounded number of pairs; then nothing is asked twice, and each first request has its thread."""

    def stalled() -> bytes:
        released.wait(20)
        return b"stalled"

    threads = 1
    staged: list[Callable[[], bytes]] = [lambda: b"fast"] * 90
    for _ in range(PAIRS_PER_THREAD):
        staged += [stalled, lambda: b"second"]
    store = Staged(*staged)
    reads, registry = hedged(store, threads)
    for _ in range(90):
        reads.get_range("k", 0, 5)
    assert [reads.get_range("k", 0, 5) for _ in range(PAIRS_PER_THREAD)] == [b"second"] * PAIRS_PER_THREAD
    assert hedged_count(registry) == PAIRS_PER_THREAD
    for _ in range(20):
        assert reads.get_range("k", 0, 5) == b"usual"
    assert hedged_count(registry) == PAIRS_PER_THREAD
