"""Copies of large logs: what passes through memory has a bound, and what gateways delete meanwhile is copied before they do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from log_format import layout
from log_format.clock import SystemClock
from log_format.inspection.backup import BYTES_AT_ONCE, COPIES_AT_ONCE, copy_log
from log_format.scheduled.due import DueNotice, put_notice
from log_format.store import ObjectInfo, ObjectStore
from log_format.stores.memory import MemoryStore
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FaultyStore
from tests.support.topic_bench import TopicBench
from tests.support.waiting import eventually

CLOCK = SystemClock()
SEGMENTS = 3 * COPIES_AT_ONCE


class Large(FaultyStore):
    """Its segments pass for objects of ``size_bytes``. ``most``: how many were read side by side."""

    size_bytes = 0
    most = 0

    def __init__(self, objects: ObjectStore) -> None:
        super().__init__(objects)
        self.lock, self.reading = threading.Lock(), 0
        self.full = threading.Barrier(COPIES_AT_ONCE)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        for info in super().list(prefix, start_after=start_after):
            yield replace(info, size_bytes=self.size_bytes) if layout.SEGMENTS in info.key else info

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        if layout.SEGMENTS not in key:
            return super().get(key, bytes_max=bytes_max)
        with self.lock:
            self.reading += 1
            self.most = max(self.most, self.reading)
        try:
            if self.size_bytes == 0:
                self.full.wait(30)
            else:
                threading.Event().wait(0.01)
            return super().get(key, bytes_max=bytes_max)
        finally:
            with self.lock:
                self.reading -= 1


@pytest.mark.parametrize(("size_bytes", "most"), [(0, COPIES_AT_ONCE), (BYTES_AT_ONCE // 2, 2), (BYTES_AT_ONCE * 2, 1)])
def test_what_is_copied_at_once_fits_its_memory(size_bytes: int, most: int) -> None:
    """Small objects side by side, large ones fewer at a time, and one that is larger than all of it alone."""
    bench = TopicBench(FaultyStore(), ManualClock())
    topic = bench.create()
    for number in range(SEGMENTS):
        bench.append(topic, {0: [b"%d" % number]})
    source = Large(bench.store.objects)
    source.size_bytes = size_bytes
    assert [each.problems for each in copy_log(source, MemoryStore(), CLOCK)] == [()]
    assert source.most == most


def test_windows_that_gateways_delete_meanwhile_are_in_the_copy() -> None:
    """A copy that takes longer than windows live: those by which delayed records came into the topic are there all the same."""
    bench = TopicBench(FaultyStore(), ManualClock())
    bench.append(bench.create(topic_id="id"), {0: [b"a"]})
    put_notice(bench.store, DueNotice(CLOCK.now_ms(), bench.name, "id", "name"))
    window = f"{layout.scheduled_root(bench.name, 'id')}windows/{0:020d}.json"
    target, source = MemoryStore(), FaultyStore(bench.store.objects)

    def take_long(operation: str, key: str) -> None:
        if operation == "get" and layout.SEGMENTS in key:
            source.objects.put(window, b"{}")
            assert eventually(lambda: any(target.list(window)))
            source.objects.delete(window)

    source.before = take_long
    assert [each.problems for each in copy_log(source, target, CLOCK, windows_every_ms=5)] == [()]
    assert target.get(window) == b"{}"
