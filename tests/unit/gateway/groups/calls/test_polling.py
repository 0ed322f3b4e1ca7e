"""Polls that end in odd moments: memory is given back, and no member is counted out for what took the gateway long."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.engine.fetch_answer import Fetched, FetchLimits
from gateway.groups.calls.groups import JoinRequest
from gateway.groups.calls.polling import Polling, PollRequest
from gateway.groups.offsets.committed import NextOffset
from log_format.errors import ErrorCode, RequestRefused
from tests.support.engine import Gateway, make_gateway, values_of

SESSION_MS = 1_000


def _joining(instance_id: str | None = None) -> JoinRequest:
    return JoinRequest(
        topics=("t",),
        pattern=None,
        assignor="range",
        session_timeout_ms=SESSION_MS,
        client_id=None,
        instance_id=instance_id,
    )


def _wish(member_id: str, generation: int | None, wait_ms: int) -> PollRequest:
    limits = FetchLimits(records_max=10, bytes_max=1 << 20, bytes_min=1, wait_ms_max=wait_ms)
    return PollRequest(
        member_id=member_id,
        generation=generation,
        commit=(),
        positions={("t", 0): 0},
        auto_offset_reset="earliest",
        limits=limits,
    )


@pytest.mark.parametrize("wait_ms", [0, 10_000])
async def test_a_client_that_leaves_while_its_answer_is_checked(monkeypatch: pytest.MonkeyPatch, wait_ms: int) -> None:
    """The records were read, and whether the group is still coordinated here is looked up: then the client is gone."""
    gateway = make_gateway()
    await gateway.append(await gateway.topic(flush_ms=0), [b"x"])
    groups = gateway.engine.groups
    group, joined = await groups.join("g", _joining())
    reached = asyncio.Event()

    async def never(_group: object) -> bool:
        reached.set()
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(groups.coordinator, "is_current", never)
    wish = _wish(joined.member.member_id, 1, wait_ms)
    poll = asyncio.create_task(groups.polling.poll(group, wish, gateway.memory))
    await reached.wait()
    assert gateway.memory.used_bytes > 0
    poll.cancel()
    with pytest.raises(asyncio.CancelledError):
        await poll
    assert gateway.memory.used_bytes == 0


async def test_a_client_that_leaves_in_the_moment_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fetch is done, its answer is not taken yet, and the client goes."""
    gateway = make_gateway()
    await gateway.append(await gateway.topic(flush_ms=0), [b"x"])
    groups = gateway.engine.groups
    group, joined = await groups.join("g", _joining())
    polling: Polling = groups.polling
    fetch = polling._fetching.fetch
    poll: asyncio.Task[Any] | None = None

    async def fetch_and_leave(*arguments: Any) -> Any:
        answer = await fetch(*arguments)
        assert gateway.memory.used_bytes > 0
        # In the same turn of the loop: the poll is told that the fetch is done, and that it is cancelled.
        assert poll is not None
        asyncio.get_running_loop().call_soon(poll.cancel)
        return answer

    monkeypatch.setattr(polling._fetching, "fetch", fetch_and_leave)
    poll = asyncio.create_task(polling.poll(group, _wish(joined.member.member_id, 1, 10_000), gateway.memory))
    with pytest.raises(asyncio.CancelledError):
        await poll
    assert gateway.memory.used_bytes == 0


async def test_what_a_poll_takes_is_not_the_members_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member knows of a generation from the answer on, however long the gateway had known that it would tell it."""
    gateway = make_gateway()
    await gateway.topic(flush_ms=0, partition_count=2)
    groups = gateway.engine.groups
    group, joined = await groups.join("g", _joining())
    first = joined.member
    await groups.join("g", _joining())
    session = group.sessions[first.member_id]
    still = groups.coordinator.is_current
    seen = []

    async def slow(asked: Any) -> bool:
        seen.append(session.learned_ms)
        await asyncio.sleep(0.01)
        return bool(await still(asked))

    monkeypatch.setattr(groups.coordinator, "is_current", slow)
    polled = await groups.polling.poll(group, _wish(first.member_id, 1, 0), gateway.memory)
    assert (polled.rebalanced, polled.generation) == (True, 2)
    assert seen == [None], "it was not told yet"
    assert session.learned_ms is not None, "now it was"
    learned_ms = session.learned_ms
    await groups.polling.poll(group, _wish(first.member_id, 1, 0), gateway.memory)
    assert session.learned_ms == learned_ms, "being told again gives it no more time"


async def test_two_that_join_as_one_instance_at_once(gateway: Gateway) -> None:
    """The later one is the member; the other one is told that it was replaced, as if it had been one for a moment."""
    await gateway.topic(flush_ms=0)
    groups = gateway.engine.groups
    await groups.join("g", _joining("i"))
    joins = await asyncio.gather(*(groups.join("g", _joining("i")) for _ in range(3)), return_exceptions=True)
    refused = [one for one in joins if isinstance(one, RequestRefused)]
    assert [one.code for one in refused] == [ErrorCode.FENCED_MEMBER] * 2
    (joined,) = [one for one in joins if not isinstance(one, BaseException)]
    assert [one.member_id for one in joined[0].row.members] == [joined[1].member.member_id]
    assert len(joined[1].member.former_ids) == 3


async def test_a_group_that_is_deleted_twice_at_once(gateway: Gateway) -> None:
    """One client deletes it, for the other it is not there; a member that joins in that moment is in the re-created group."""
    await gateway.topic(flush_ms=0)
    groups = gateway.engine.groups
    for _ in range(3):
        await groups.coordinator.live("g")
        deletes = [asyncio.create_task(groups.delete("g")) for _ in range(2)]
        join = asyncio.create_task(groups.join("g", _joining()))
        ended = await asyncio.gather(*deletes, return_exceptions=True)
        member = (await join)[1].member
        refused = [one for one in ended if isinstance(one, BaseException)]
        assert all(isinstance(one, RequestRefused) for one in refused), refused
        codes = {one.code for one in refused if isinstance(one, RequestRefused)}
        assert codes <= {ErrorCode.UNKNOWN_GROUP, ErrorCode.GROUP_NOT_EMPTY}
        group = await groups.of_member("g", member.member_id)
        assert group.member(member.member_id)
        await group.leave([member.member_id])


@pytest.mark.parametrize("moment", ["behind the offsets", "behind the positions"])
async def test_what_is_committed_is_no_place_in_a_topic_made_anew_meanwhile(
    monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The topic is made anew between the looks of one poll: its first records are given, not those from the old offset on."""
    gateway = make_gateway()
    await gateway.append(await gateway.topic(flush_ms=0), [b"old 0", b"old 1"])
    groups = gateway.engine.groups
    await groups.committed.commit("g", [NextOffset(topic="t", partition=0, offset=1)], None, None)
    group, joined = await groups.join("g", _joining())

    async def make_anew() -> None:
        await gateway.engine.administration.delete("t")
        await gateway.append(await gateway.topic(flush_ms=0), [b"new 0", b"new 1"])

    before = groups.committed.of_partitions if moment == "behind the offsets" else groups.polling._find_positions

    async def and_then_made_anew(*arguments: Any) -> Any:
        found = await before(*arguments)
        await make_anew()
        return found

    if moment == "behind the offsets":
        monkeypatch.setattr(groups.committed, "of_partitions", and_then_made_anew)
    else:
        monkeypatch.setattr(groups.polling, "_find_positions", and_then_made_anew)
    wish = replace(_wish(joined.member.member_id, 1, 0), positions={})
    polled = await groups.polling.poll(group, wish, gateway.memory)
    (part,) = polled.answer.parts
    assert isinstance(part, Fetched)
    assert values_of(part) == [b"new 0", b"new 1"]
