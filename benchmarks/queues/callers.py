"""Cheap callers of a queue: prepared requests over raw asyncio connections, in processes of their own.

An answer is read for what a settlement needs: each lease's topic, partition, and first and last offset.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from benchmarks.harness.load import TIMEOUT_SECONDS, Connection, request
from benchmarks.harness.scenario import Running

JSON: Final = {"Content-Type": "application/json"}


class _Record(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    lease: str


class _Received(msgspec.Struct):
    records: list[_Record]


_decode: Final = msgspec.json.Decoder(_Received).decode
_encode: Final = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Found:
    """What callers did: records, latencies in ms, CPU seconds of their processes."""

    records: int = 0
    refused: int = 0
    took_s: float = 0.0
    cpu_s: float = 0.0
    receive_ms: list[float] = field(default_factory=list)
    settle_ms: list[float] = field(default_factory=list)


def work(port: int, queue: str, *, processes: int, callers: int, batch: int, seconds: float) -> Found:
    """Let callers receive and accept in turn, until each gets an empty answer.

    Args:
        port: of the gateway.
        queue: its name.
        processes: of the callers.
        callers: their number.
        batch: the most records that a caller receives at once.
        seconds: after so long no caller receives any more.
    """
    running = [
        Running(_work, port, queue=queue, callers=callers // processes, batch=batch, seconds=seconds)
        for _ in range(processes)
    ]
    found = Found()
    for one in [each.result() for each in running]:
        found.records += one["records"]
        found.refused += one["refused"]
        found.took_s = max(found.took_s, one["took_s"])
        found.cpu_s += one["client_cpu_seconds"]
        found.receive_ms += one["receive_ms"]
        found.settle_ms += one["settle_ms"]
    return found


async def _work(_channel: Any, port: int, queue: str, callers: int, batch: int, seconds: float) -> dict[str, Any]:
    found = Found()
    loop = asyncio.get_running_loop()
    take = request("POST", f"/v1/queues/{queue}:receive", _encode({"max_records": batch, "max_bytes": 16 << 20}), JSON)
    began = time.perf_counter()

    async def caller() -> None:
        connection = (await loop.create_connection(Connection, "127.0.0.1", port))[1]
        while (sent := time.perf_counter()) < began + seconds:
            status, body = await asyncio.wait_for(connection.ask(take), TIMEOUT_SECONDS)
            received = time.perf_counter()
            records = _decode(body).records if status == 200 else []
            if not records:
                found.refused += status != 200
                break
            settle = request("POST", f"/v1/queues/{queue}:settle", _settlements(records), JSON)
            began_settle = time.perf_counter()
            status, body = await asyncio.wait_for(connection.ask(settle), TIMEOUT_SECONDS)
            found.settle_ms.append((time.perf_counter() - began_settle) * 1000)
            found.receive_ms.append((received - sent) * 1000)
            if status == 200 and b'"settled":false' not in bytes(body):
                found.records += len(records)
            else:
                found.refused += 1
        connection.close()

    await asyncio.gather(*(caller() for _ in range(callers)))
    return {
        "records": found.records,
        "refused": found.refused,
        "took_s": time.perf_counter() - began,
        "receive_ms": found.receive_ms,
        "settle_ms": found.settle_ms,
    }


def _settlements(records: Sequence[_Record]) -> bytes:
    """Return the body that accepts all, one range for each lease: its records are neighbours, in order."""
    ranges: dict[str, dict[str, Any]] = {}
    for one in records:
        known = ranges.get(one.lease)
        if known is None:
            known = ranges[one.lease] = {
                "topic": one.topic,
                "partition": one.partition,
                "first_offset": one.offset,
                "lease": one.lease,
                "action": "accept",
            }
        known["last_offset"] = one.offset
    return _encode({"settlements": list(ranges.values())})
