"""The floor of clients that wait for each answer: the two PUTs of a commit, by the store's client alone, one after another."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Final

from benchmarks.pace.done import Done, done
from benchmarks.pace.places import Counted, Place
from tests.kafka_clients.tried.programs import Missing

SEGMENT_BYTES: Final = 2_500
COMMIT_BYTES: Final = 900
"""Sizes of the objects of a flush of one record of 100 B."""


def commit_floor(place: Place, load: str, seconds: float) -> Iterator[Done]:
    """Put a segment and then, if absent, a commit: nothing else, by the gateway's client of the store."""
    if place.store is None:
        raise Missing("a broker has no store")
    store, prefix = place.store.opened(), f"floor/{uuid.uuid4().hex}"
    latencies_ms: list[float] = []
    started = time.perf_counter()
    while (begun := time.perf_counter()) < started + seconds or not latencies_ms:
        number = len(latencies_ms)
        store.put(f"{prefix}/segments/{number}", bytes(SEGMENT_BYTES))
        store.put_if_absent(f"{prefix}/log/{number:020}.json", bytes(COMMIT_BYTES))
        latencies_ms.append((time.perf_counter() - begun) * 1000)
    counted = Counted()
    counted.seconds = time.perf_counter() - started
    counted.requests = Counter({("PUT", "segment"): len(latencies_ms), ("PUT", "commit"): len(latencies_ms)})
    yield done(load, len(latencies_ms), counted.seconds, counted, latencies_ms)
