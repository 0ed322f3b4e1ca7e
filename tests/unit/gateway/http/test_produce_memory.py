"""The memory of a produce request that is put in order a second time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gateway.http.body import Body
from gateway.memory_budget import MemoryBudget, Reservation
from gateway.routes import produce
from log_format.errors import BackOff
from log_format.records.schema import BATCH_SCHEMA
from log_format.topic.append import Batch
from log_format.topic.producers import ProducerStamp, out_of_order

STAMP = ProducerStamp("p", 0, 1)
RECORDS = pa.table({"timestamp": [0], "key": [None], "value": [b"x" * 1000], "headers": [None]}, schema=BATCH_SCHEMA)


class Turns:
    """Notes how much memory is counted whenever a request waits for its turn."""

    def __init__(self, memory: MemoryBudget) -> None:
        self.memory = memory
        self.used_bytes: list[int] = []

    async def turn(self, _stamp: ProducerStamp, _deadline_ms: int) -> None:
        self.used_bytes.append(self.memory.used_bytes)


class Engine:
    """Refuses the first try, as a commit does that finds the request ahead; the writer gives the memory back each time."""

    clock = SimpleNamespace(monotonic_ms=lambda: 0)

    def __init__(self, *, drains_second: bool) -> None:
        self._tries = 0
        self._drains_second = drains_second

    def append(self, _topic: Any, _batch: Batch, reservation: Reservation) -> None:
        self._tries += 1
        if self._tries == 2 and self._drains_second:
            raise BackOff("draining")
        reservation.release()

    async def acknowledged(self, _topic: Any, _pending: None) -> str:
        if self._tries == 1:
            raise out_of_order(STAMP, 0)
        return "acknowledged"


@pytest.mark.parametrize("drains_second", [False, True])
def test_what_waits_again_is_counted_again(drains_second: bool) -> None:
    """From its first turn to its last a request's records are within the budget, and afterwards nothing is."""
    memory = MemoryBudget(1_000_000, "bodies")
    turns = Turns(memory)
    body = Body(b"", None, memory.reserve(RECORDS.nbytes))
    batch = Batch(topic_id="t", records=RECORDS, partitions=np.zeros(1, np.int32), record_bytes_max=1000, stamp=STAMP)
    topic: Any = SimpleNamespace(sequencing=turns)
    engine: Any = Engine(drains_second=drains_second)

    async def scenario() -> None:
        await produce._acknowledged(engine, topic, batch, body, lambda *_: batch, memory=memory)

    if drains_second:
        with pytest.raises(BackOff):
            asyncio.run(scenario())
    else:
        asyncio.run(scenario())
    assert turns.used_bytes == [RECORDS.nbytes, RECORDS.nbytes]
    assert memory.used_bytes == 0
