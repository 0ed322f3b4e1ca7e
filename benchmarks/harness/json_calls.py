"""JSON calls to a gateway over raw asyncio connections, whose answers are timed and counted by kind.

Latencies are in milliseconds from the time when a request was due. They include the wait for a connection.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness.load import request


@dataclass(slots=True)
class Answers:
    """The answers to requests of one kind."""

    latencies_ms: list[float] = field(default_factory=list)
    others: int = 0
    """Answers without success."""


class Gateway:
    """Some connections to one gateway; a request takes a free one."""

    def __init__(self, port: int, connections: int) -> None:
        self._port = port
        self._free: asyncio.LifoQueue[tuple[asyncio.StreamReader, asyncio.StreamWriter] | None] = asyncio.LifoQueue()
        for _ in range(connections):
            self._free.put_nowait(None)
        self.answers: dict[str, Answers] = {}

    async def call(self, kind: str, method: str, path: str, body: Any = None, *, due: float | None = None) -> Any:
        """Ask, and return the answer if successful; None for another one, which is counted."""
        due = time.perf_counter() if due is None else due
        connection = await self._free.get()
        try:
            if connection is None:
                connection = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = connection
            headers = {"Content-Type": "application/json"}
            writer.write(request(method, path, b"" if body is None else json.dumps(body).encode(), headers))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0]) if b"content-length:" in head else 0
            data = await reader.readexactly(length)
            if b"connection: close" in head:
                writer.close()
                connection = None
        except BaseException:
            connection = None
            raise
        finally:
            self._free.put_nowait(connection)
        answers = self.answers.setdefault(kind, Answers())
        if int(head[9:12]) >= 300:
            answers.others += 1
            return None
        answers.latencies_ms.append((time.perf_counter() - due) * 1000)
        return json.loads(data) if data else {}

    async def close(self) -> None:
        """Close all connections."""
        while not self._free.empty():
            connection = self._free.get_nowait()
            if connection is not None:
                connection[1].close()


def counted(answers: dict[str, Answers]) -> dict[str, Any]:
    """Return a scenario's result about its requests: latencies by kind, and the number of failures."""
    others = Counter({kind: found.others for kind, found in answers.items()})
    return {"latencies_ms": {kind: found.latencies_ms for kind, found in answers.items()}, "others": others.total()}
