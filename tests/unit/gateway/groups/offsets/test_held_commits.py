"""A commit that a gateway has in its hands while its member goes on elsewhere puts no offset back (G7)."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.app import create_app
from gateway.groups.bounds import GroupBounds
from gateway.groups.calls.groups import JoinRequest
from gateway.groups.offsets.committed import NextOffset
from gateway.kafka.call import PendingAnswer
from gateway.kafka.calls import group_offsets
from gateway.kafka.wire.frames import ConnectionEnded
from gateway.settings.settings import Settings
from log_format import layout
from log_format.stores.memory import MemoryStore
from tests.support.engine import Gateway, make_gateway
from tests.support.faulty_store import FaultyStore, Gate
from tests.support.lone_gateway import lone_gateway

LATE, NEWER = 5, 8
"""The offset of the commit that is held, and the one that its member commits elsewhere meanwhile."""
JOINING = JoinRequest(
    topics=("t",), pattern=None, assignor="range", session_timeout_ms=10_000, client_id=None, instance_id=None
)
BOUNDS = GroupBounds(lease_ms=0)
LOOK = layout.commit_key("t", 2)
"""What a look at the topic asks for: whether it has a commit behind that of the records."""


class Sender:
    """A member's client, and the gateway that has its commit. ``gone``: it has closed its connection."""

    def __init__(self, gateway: Gateway, member_id: str, generation: int) -> None:
        self.gone = asyncio.Event()
        self._gateway, self._member_id, self._generation = gateway, member_id, generation

    async def puts(self) -> int:
        """By HTTP; the status of the answer, 0 without one."""
        return await self._asks("PUT", "/v1/groups/g/offsets", {"offsets": [self._offset()]})

    async def polls(self) -> int:
        """By a poll that waits for nothing."""
        return await self._asks("POST", "/v1/groups/g/poll", {"commit": [self._offset()], "max_wait_ms": 0})

    async def commits_by_kafka(self) -> int:
        """By the consumer protocol; 200 where it was done."""
        call: Any = SimpleNamespace(
            version=9,
            engine=self._gateway.engine,
            session=SimpleNamespace(state={}, check_connected=self._check_connected),
            owner="",
            reader=None,
            require=lambda *_: None,
            allows=lambda *_: True,
            answer=lambda **members: members,
        )
        entry = SimpleNamespace(
            partition_index=0, committed_offset=LATE, committed_leader_epoch=-1, committed_metadata=""
        )
        request = SimpleNamespace(
            group_id="g",
            member_id=self._member_id,
            generation_id_or_member_epoch=self._generation,
            topics=[SimpleNamespace(name="t", partitions=[entry])],
        )
        try:
            answer: Any = await group_offsets.offset_commit(call, request)
        except ConnectionEnded:
            return 0
        answer = await answer.answer if isinstance(answer, PendingAnswer) else answer
        code = answer["topics"][0]["partitions"][0]["error_code"].value
        return 503 if code else 200

    async def _check_connected(self) -> None:
        if self.gone.is_set():
            raise ConnectionEnded("the client is gone")

    def _offset(self) -> dict[str, Any]:
        return {"topic": "t", "partition": 0, "offset": LATE}

    async def _asks(self, method: str, path: str, body: dict[str, Any]) -> int:
        settings = Settings(store="memory://held", gateway_id="a", log_level="error")
        app = create_app(lone_gateway(settings, self._gateway.engine))
        data = json.dumps(body | {"member_id": self._member_id, "generation": self._generation}).encode()
        bodies, statuses = [data], []

        async def receive() -> dict[str, Any]:
            if bodies:
                return {"type": "http.request", "body": bodies.pop(), "more_body": False}
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            statuses.append(message.get("status", 0))

        headers = [(b"host", b"a"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        await app(scope, receive, send)  # type: ignore[arg-type]
        return max(statuses, default=0)


async def _member() -> tuple[Gateway, Gateway, Sender]:
    """Two gateways of one store, a member by the first one."""
    objects = MemoryStore()
    first, second = (make_gateway(FaultyStore(objects), group_bounds=BOUNDS) for _ in range(2))
    await first.append(await first.topic("t", flush_ms=0), [b"x"] * NEWER)
    group, joined = await first.engine.groups.join("g", JOINING)
    return first, second, Sender(first, joined.member.member_id, group.row.generation)


async def _committed(gateway: Gateway) -> int | None:
    rows = await gateway.engine.groups.committed.of_partitions("g", [("t", 0)])
    return rows["t", 0].offset if rows else None


@pytest.mark.parametrize("way", ["puts", "polls", "commits_by_kafka"])
async def test_a_commit_is_none_once_its_sender_has_gone(way: str) -> None:
    """Its member may have committed more by another gateway, which a gateway that comes to take the group over can't tell.

    So the gateway takes the group over first, looks whether the sender is there, and then decides. One whose sender is there
    is committed.
    """
    gateway, _, sender = await _member()
    with Gate(gateway.store, "get", LOOK) as gate:
        commit = asyncio.create_task(getattr(sender, way)())
        await gate.wait_until_reached()
        sender.gone.set()
        gate.open()
        assert await commit == 0
    assert await _committed(gateway) is None
    sender.gone.clear()
    assert await getattr(sender, way)() == 200
    assert await _committed(gateway) == LATE


@pytest.mark.parametrize("way", ["puts", "polls", "commits_by_kafka"])
async def test_a_commit_is_none_once_another_gateway_has_the_group(way: str) -> None:
    """Whether or not its gateway hears that the sender has gone: its claim is of before the look at the topic."""
    gateway, other, sender = await _member()
    with Gate(gateway.store, "get", LOOK) as gate:
        commit = asyncio.create_task(getattr(sender, way)())
        await gate.wait_until_reached()
        newer = NextOffset(topic="t", partition=0, offset=NEWER)
        await other.engine.groups.committed.commit("g", [newer], sender._member_id, sender._generation)
        gate.open()
        assert await commit == 503
    assert await _committed(gateway) == NEWER
