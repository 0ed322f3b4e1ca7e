"""One history of two gateways whose topics have their own commits, are at a journal, or go to and fro, and readers of it.

The test beside it asks for the same offsets and records in each way, by every reader.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import deltalake
import httpx

from gateway.app import create_app
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.engine.bounds import EngineBounds
from gateway.engine_parts import EngineParts, EngineSettings
from gateway.log_engine import LogEngine
from gateway.memory_budget import MemoryBudget
from gateway.settings.settings import Settings
from gateway.telemetry.metrics import Metrics
from log_format.clock import SystemClock
from log_format.stores.local import LocalStore
from tests.support.lone_gateway import lone_gateway

PARTITIONS = 3
STEPS = 50
START_MS = 1_763_683_200_123
TOPICS = ("t", "u")
MOVING = ("own", "shared", "shared", "own", "auto", "shared")
MOVED_EVERY = 4
"""Steps between two moves, where the mode changes."""

KINDS = (*["send"] * 6, *["stamped"] * 3, "again", "at once", "expect", "delete records", "more", "limit", "new")

Row = tuple[int, int, int, str]


class History:
    """What a seed's clients ask of two gateways on one store, and what they are told. ``modes``: where topics go in turn."""

    def __init__(self, root: Path, modes: tuple[str, ...], seed: int) -> None:
        self.store = LocalStore(root, fsync=False)
        self._modes = modes
        self._chosen = random.Random(seed)
        self._engines = [self._engine(name) for name in ("a", "b")]
        self._clients = [self._client(engine) for engine in self._engines]
        self._asked = 0
        self._value = 0
        self._sequence = 0
        self.told: list[Any] = []

    def _engine(self, name: str) -> LogEngine:
        clock = SystemClock()
        return LogEngine(
            EngineParts(
                store=self.store,
                cold_store=self.store,
                ownership=Ownership(name, Peers(clock), "off"),
                clock=clock,
                registry=Metrics().registry,
                request_memory=MemoryBudget(1 << 28, "tests"),
            ),
            EngineSettings(bounds=EngineBounds()),
        )

    def _client(self, engine: LogEngine) -> httpx.AsyncClient:
        app = create_app(lone_gateway(Settings(store="memory://x", gateway_id="a", log_level="error"), engine))
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gateway", timeout=60)

    async def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """By each gateway in turn; refused for the moment, again."""
        for _ in range(20):
            self._asked += 1
            client = self._clients[self._asked % 2]
            answer = await client.request(method, path, json=body, headers=headers)
            if answer.status_code != 503:
                break
        return answer.json() if answer.content else {}

    async def run(self) -> None:
        """All steps. What is at a journal then stays there."""
        for topic in TOPICS:
            await self._make(topic)
        producer = await self.ask("POST", "/v1/producers", {})
        for step in range(STEPS):
            if len(self._modes) > 1 and step % MOVED_EVERY == 0:
                for topic in TOPICS:
                    mode = self._modes[step // MOVED_EVERY % len(self._modes)]
                    await self.ask("PATCH", f"/v1/topics/{topic}", {"config": {"commit.mode": mode}})
            self.told.append(_plain(await self._step(producer)))

    async def drain(self) -> None:
        """All journals into the topics' tables."""
        for engine in self._engines:
            for topic in TOPICS:
                opened = await engine.topics.fresh(topic, engine.clock.monotonic_ms())
                await opened.fresh()
                await opened.moving.drain_all()

    async def end(self) -> None:
        """Of the gateways."""
        for client in self._clients:
            await client.aclose()
        for engine in self._engines:
            await engine.drain()

    async def _make(self, topic: str) -> Any:
        config = {"flush.ms": 0, "commit.mode": self._modes[0], "drain.ms": 1000}
        return await self.ask(
            "POST", "/v1/topics", {"name": topic, "partition_count": PARTITIONS - 1, "config": config}
        )

    async def _step(self, producer: Any) -> Any:
        chosen, topic = self._chosen, self._chosen.choice(TOPICS)
        records = f"/v1/topics/{topic}/records"
        match chosen.choice(KINDS):
            case "send":
                return await self.ask("POST", records, self._records())
            case "stamped":
                headers = self._stamp(producer)
                self._sequence += 1
                return await self.ask("POST", "/v1/records", {"topics": [{"topic": topic, **self._records()}]}, headers)
            case "again":
                headers, body = self._stamp(producer), {"topics": [{"topic": topic, **self._records()}]}
                self._sequence += 1
                first = await self.ask("POST", "/v1/records", body, headers)
                return [first, await self.ask("POST", "/v1/records", body, headers)]
            case "at once":
                return await self.ask(
                    "POST", "/v1/records", {"topics": [{"topic": t, **self._records()} for t in TOPICS]}
                )
            case "expect":
                path = f"/v1/topics/{topic}/partitions/0/records"
                body, headers = {"records": [self._record(0)]}, {"Tidelog-Expected-Offset": str(chosen.randrange(9))}
                return await self.ask("POST", path, body, headers)
            case "delete records":
                before = [{"partition": 0, "offset": chosen.choice((-1, 2, 4))}]
                return await self.ask("POST", f"/v1/topics/{topic}:delete-records", {"before": before})
            case "more":
                return await self.ask("PATCH", f"/v1/topics/{topic}", {"partition_count": PARTITIONS})
            case "limit":
                config = {"max.message.bytes": chosen.choice((12, None))}
                return await self.ask("PATCH", f"/v1/topics/{topic}", {"config": config})
            case _:
                if chosen.random() < 0.5:
                    return {}
                await self.ask("DELETE", f"/v1/topics/{topic}")
                return await self._make(topic)

    def _stamp(self, producer: Any) -> dict[str, str]:
        return {
            "Tidelog-Producer-Id": producer["producer_id"],
            "Tidelog-Producer-Epoch": str(producer["epoch"]),
            "Tidelog-Producer-Sequence": str(self._sequence),
        }

    def _record(self, partition: int) -> dict[str, Any]:
        self._value += 1
        value = f"value-{self._value}" + "x" * self._chosen.choice((0, 0, 0, 20))
        return {"partition": partition, "timestamp": START_MS + self._value, "value": value}

    def _records(self) -> dict[str, Any]:
        partitions = [self._chosen.randrange(PARTITIONS - 1) for _ in range(self._chosen.randrange(1, 5))]
        return {"records": [self._record(partition) for partition in partitions]}

    async def read(self, topic: str) -> list[Row]:
        """All there is, by HTTP."""
        rows: list[Row] = []
        described = await self.ask("GET", f"/v1/topics/{topic}")
        for partition in range(described["partition_count"]):
            offset: Any = "earliest"
            while True:
                path = f"/v1/topics/{topic}/partitions/{partition}/records?offset={offset}&max_records=7"
                answer = await self.ask("GET", path)
                rows += [(partition, one["offset"], one["timestamp"], one["value"]) for one in answer["records"]]
                offset = answer["next_offset"]
                if offset >= answer["high_watermark"]:
                    break
        return rows

    async def polled(self, topic: str) -> list[Row]:
        """All there is, by a group."""
        rows: list[Row] = []
        wanted: dict[str, Any] = {"max_records": 100, "max_wait_ms": 100}
        body, nothing = {**wanted, "topics": [topic]}, 0
        while nothing < 3:
            answer = await self.ask("POST", f"/v1/groups/{topic}-group/poll", body)
            assert "member_id" in answer, answer
            read = [
                {"topic": topic, "partition": p["partition"], "offset": p["next_offset"]} for p in answer["partitions"]
            ]
            body = {**wanted, "member_id": answer["member_id"], "generation": answer["generation"], "commit": read}
            got = [
                (part["partition"], one["offset"], one["timestamp"], one["value"])
                for part in answer["partitions"]
                for one in part["records"]
            ]
            nothing = 0 if got else nothing + 1
            rows += got
        return sorted(rows)


def _plain(answer: Any) -> Any:
    """Without what is different in every history: ids, versions, times, where a topic's commits go."""
    if isinstance(answer, dict):
        kept: tuple[str, ...] = (
            "topic",
            "topics",
            "partitions",
            "partition",
            "base_offset",
            "last_offset",
            "count",
            "duplicate",
        )
        kept += ("error_code", "actual", "expected", "log_start_offset", "partition_count", "name")
        return {key: _plain(value) for key, value in answer.items() if key in kept}
    return [_plain(one) for one in answer] if isinstance(answer, list) else answer


def in_table(root: Path, topic: str, log_starts: dict[int, int]) -> list[Row]:
    """All there is, by a Delta reader."""
    table = deltalake.DeltaTable(str(root / "topics" / topic)).to_pyarrow_table()
    rows = [
        (row["partition"], row["offset"], int(row["timestamp"].timestamp() * 1000 + 0.5), bytes(row["value"]).decode())
        for row in table.to_pylist()
    ]
    return sorted(row for row in rows if row[1] >= log_starts.get(row[0], 0))
