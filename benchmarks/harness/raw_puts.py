"""The floor of what commits: raw PUTs of the same sizes to the same store."""

from __future__ import annotations

import time
import uuid
from typing import Final

from log_format.store import ObjectStore

SEGMENT_BYTES: Final = 3_000
COMMIT_BYTES: Final = 900
ROUNDS: Final = 50


def two_puts_ms(store: ObjectStore, rounds: int = ROUNDS) -> list[float]:
    """Return the milliseconds of two raw PUTs, of a small segment and its commit, in each round."""
    took = []
    for number in range(rounds):
        started = time.perf_counter()
        store.put(f"floor/segments/{uuid.uuid4()}", b"s" * SEGMENT_BYTES)
        store.put_if_absent(f"floor/log/{uuid.uuid4()}-{number}", b"c" * COMMIT_BYTES)
        took.append((time.perf_counter() - started) * 1000)
    return took
