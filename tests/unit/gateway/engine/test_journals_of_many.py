"""Several gateways that write to one journal: each puts its own objects, one commits them; and what gets lost on the way."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.open_journal import OpenJournal
from gateway.engine.open_topic import OpenTopic
from log_format.errors import OutcomeUnknown, RequestRefused, TidelogError
from log_format.journal.committed_versions import CommittedVersions
from log_format.journal.entries import Close
from log_format.journal.reclaim import Reclaim
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Batch
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.producer_id import PLAIN, issue
from log_format.topic.producers import ProducerStamp
from tests.support.engine import Gateway, batch_of, values_of
from tests.support.faulty_store import Gate
from tests.support.journal_wires import Late, Wires, loses_answer, loses_request, wired_gateways
from tests.support.waiting import turns_up

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}
PRODUCER = issue(PLAIN, 1, "a" * 20, b"key")


class World:
    """Gateways of one store with one topic, which all of them know."""

    def __init__(self, gateways: list[Gateway], wires: list[Wires]) -> None:
        self.gateways = gateways
        self.wires = wires
        self.topics: list[OpenTopic] = []

    @classmethod
    async def made(cls, count: int = 2, **bounds: int) -> World:
        world = cls(*wired_gateways(MemoryStore(), count, **bounds))
        await world.gateways[0].topic("t", 2, **SHARED)
        for gateway in world.gateways:
            topic = await gateway.engine.open_topic("t")
            await topic.fresh()
            world.topics.append(topic)
        await world.append(0, b"first")
        for topic in world.topics:
            await topic.fresh()
        return world

    async def append(self, number: int, value: bytes, partition: int = 0) -> Any:
        return await self.gateways[number].append(self.topics[number], [value], partition)

    async def submit(self, number: int, batch: Batch) -> Any:
        return await self.topics[number].appending.await_acknowledgement(self.topics[number].submit(batch, None))

    def journal(self, number: int) -> OpenJournal:
        return self.gateways[number].engine.journals.get(0)

    async def values(self, partition: int = 0) -> list[bytes]:
        """What a reader from the store finds, the same at each gateway."""
        found = []
        for gateway in self.gateways:
            gateway.forget_tail()
            found.append(values_of(await gateway.fetch(partition=partition)))
        assert all(one == found[0] for one in found)
        return found[0]

    def commits(self) -> list[list[str]]:
        """The paths that each commit adds."""
        store = self.gateways[0].store.objects
        keys = sorted(info.key for info in store.list("system/journals/0/_delta_log/") if info.key.endswith(".json"))
        lines = [[json.loads(line) for line in store.get(key).splitlines()] for key in keys]
        return [[line["add"]["path"] for line in one if "add" in line] for one in lines]


async def objects_of_all_share_a_commit() -> None:
    world = await World.made(3)
    before = len(world.commits())
    with Gate(world.gateways[0].store, "put_if_absent") as gate:
        first = asyncio.create_task(world.append(0, b"a"))
        await gate.wait_until_reached()
        others = [asyncio.create_task(world.append(number, b"bc"[number - 1 : number])) for number in (1, 2)]
        await turns_up(lambda: all(wire.offer_bytes for wire in world.wires[1:]))
        await asyncio.sleep(0.05)  # they reach the owner
    places = await asyncio.gather(first, *others)
    assert places[0] == (AppendedRange(0, 1, 1),)
    assert sorted(place.base_offset for (place,) in places) == [1, 2, 3]
    assert [len(adds) for adds in world.commits()[before:]] == [1, 2]
    assert sorted(await world.values()) == [b"a", b"b", b"c", b"first"]
    for number in range(3):
        await world.topics[number].moving.drain_all()
    assert sorted(await world.values()) == [b"a", b"b", b"c", b"first"]


async def only_names_travel() -> None:
    world = await World.made()
    assert await world.append(1, b"x" * 200_000, 1) == (AppendedRange(1, 0, 1),)
    assert sum(world.wires[1].offer_bytes) < 2_000
    assert world.gateways[1].store.calls["put_if_absent"] == 0
    assert not [
        key for operation, key in world.gateways[0].store.requests if operation == "put" and b"x" in key.encode()
    ]
    assert world.journal(1).state.version == world.journal(0).state.version
    assert await world.values(1) == [b"x" * 200_000]


async def a_lost_request_is_committed_by_its_sender() -> None:
    world = await World.made()
    world.wires[1].wire = loses_request
    assert await world.append(1, b"mine") == (AppendedRange(0, 1, 1),)
    assert await world.append(0, b"theirs") == (AppendedRange(0, 2, 1),)
    assert await world.values() == [b"first", b"mine", b"theirs"]


async def a_lost_answer_is_found_in_the_log() -> None:
    world = await World.made()
    world.wires[1].wire = loses_answer
    assert await world.append(1, b"once") == (AppendedRange(0, 1, 1),)
    assert sum(len(adds) for adds in world.commits()) == 2
    assert await world.values() == [b"first", b"once"]


async def an_owner_that_wakes_up_late_takes_nothing_twice() -> None:
    world = await World.made()
    late = world.wires[1].wire = Late()
    assert await world.append(1, b"once") == (AppendedRange(0, 1, 1),)
    (outcome,) = await late.deliver()
    assert isinstance(outcome, OutcomeUnknown)
    assert sum(len(adds) for adds in world.commits()) == 2
    assert await world.values() == [b"first", b"once"]


async def an_owner_that_wakes_up_late_takes_nothing_that_was_refused() -> None:
    """The sender's own commit says that the object is given up, even where it has nothing else to say."""
    world = await World.made()
    late = world.wires[1].wire = Late()
    batches = [batch_of(world.topics[1], [value]) for value in (b"kept", b"refused")]
    batches[1].expected_offset = 3
    outcomes = await asyncio.gather(*(world.submit(1, batch) for batch in batches), return_exceptions=True)
    assert outcomes[0] == (AppendedRange(0, 1, 1),)
    assert isinstance(outcomes[1], RequestRefused)
    await world.append(0, b"next")
    # Now the refused record would have its offset, if the first were not there twice.
    (outcome,) = await late.deliver()
    assert not hasattr(outcome, "bases")
    alone = batch_of(world.topics[1], [b"alone"])
    alone.expected_offset = 4
    with pytest.raises(RequestRefused):
        await world.submit(1, alone)
    await world.append(0, b"last")
    (outcome,) = await late.deliver()
    assert not hasattr(outcome, "bases")
    assert await world.values() == [b"first", b"kept", b"next", b"last"]


async def what_is_refused_never_appears() -> None:
    world = await World.made()
    batches = [batch_of(world.topics[1], [value]) for value in (b"one", b"refused", b"two")]
    batches[1].expected_offset = 77
    outcomes = await asyncio.gather(*(world.submit(1, batch) for batch in batches), return_exceptions=True)
    assert outcomes[0] == (AppendedRange(0, 1, 1),)
    assert isinstance(outcomes[1], RequestRefused)
    assert outcomes[2] == (AppendedRange(0, 2, 1),)
    assert await world.values() == [b"first", b"one", b"two"]


async def a_request_that_comes_by_two_gateways_is_stored_once() -> None:
    world = await World.made(3)
    for sequence in range(3):
        outcomes = []
        for number in (1, 2, 0):
            batch = batch_of(world.topics[number], [b"%d" % sequence])
            batch.stamp = ProducerStamp(PRODUCER, 0, sequence)
            outcomes.append(await world.submit(number, batch))
        places = (AppendedRange(0, 1 + sequence, 1),)
        assert outcomes == [places, Duplicate(places), Duplicate(places)]
    assert await world.values() == [b"first", b"0", b"1", b"2"]


async def a_closed_number_takes_nothing() -> None:
    """The sender does not know yet that the topic is being changed."""
    world = await World.made(overtake_ms=50)
    here = world.topics[0].log.state.attachment
    assert here is not None
    assert world.topics[0].state.topic_id is not None
    await world.journal(0).commit_entries(Close(world.topics[0].state.topic_id, here.number))
    assert await world.append(1, b"after") == (AppendedRange(0, 1, 1),)
    changed = world.topics[1].log.state.attachment
    assert changed is not None
    assert changed.number > here.number
    assert await world.values() == [b"first", b"after"]


async def who_has_forgotten_takes_nothing() -> None:
    """The owner can't know whether an object was taken up before; its sender can't know what became of it."""
    world = await World.made()
    journal = world.journal(0)
    journal.state.committed._after = journal.state.version + 1
    assert await world.append(1, b"mine") == (AppendedRange(0, 1, 1),)
    assert world.gateways[1].store.calls["put_if_absent"] == 1

    async def forgets(take: Callable[[], Awaitable[Any]]) -> Any:
        theirs = world.journal(1).state
        theirs.committed._after = theirs.version + 1
        return await loses_request(take)

    world.wires[1].wire = forgets
    journal.state.committed._after = 0
    with pytest.raises(OutcomeUnknown):
        await world.append(1, b"in doubt")
    assert await world.values() == [b"first", b"mine"]


async def news_wake_waiting_readers() -> None:
    world = await World.made(3, journal_poll_ms=30_000)
    for reader, writer in ((1, 0), (2, 1), (0, 2)):
        offset = (await world.gateways[reader].fetch(offset="latest")).records.next_offset
        wanted = [FetchFrom(topic="t", partition=0, offset=offset)]
        waiting = asyncio.create_task(world.gateways[reader].fetch_all(wanted, wait_ms=20_000))
        await asyncio.sleep(0.05)
        await world.append(writer, b"next")
        started = time.monotonic()
        assert (await waiting).record_count == 1
        assert time.monotonic() - started < 10


SCENARIOS: list[Callable[[], Awaitable[None]]] = [
    objects_of_all_share_a_commit,
    only_names_travel,
    a_lost_request_is_committed_by_its_sender,
    a_lost_answer_is_found_in_the_log,
    an_owner_that_wakes_up_late_takes_nothing_twice,
    an_owner_that_wakes_up_late_takes_nothing_that_was_refused,
    what_is_refused_never_appears,
    a_request_that_comes_by_two_gateways_is_stored_once,
    a_closed_number_takes_nothing,
    who_has_forgotten_takes_nothing,
    news_wake_waiting_readers,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_several_gateways(scenario: Callable[[], Awaitable[None]]) -> None:
    """What is acknowledged is there once, what is refused never appears, whatever gets lost between gateways."""
    await scenario()


def _is_never_known(self: CommittedVersions, path: str, offered_at: int) -> None:
    """Knows of no object that it was taken up."""


def _forgets_in_silence(self: CommittedVersions, path: str, offered_at: int) -> int | None:
    """Takes what it has forgotten for what never was."""
    return self._versions.get(path)


def _gives_nothing_up(self: Reclaim, state: Any, now_ms: int) -> Any:
    """Commits another object, and leaves the first to the owner."""
    version = state.taken.version_of(self._offer.path, self._offer.offered_at)
    proposal = self._append.propose(state, now_ms)
    return proposal if version is None else type(proposal)(operation="WRITE", actions=(), result=version)


async def _hears_nothing(self: OpenJournal, version: int) -> None:
    """Does not look."""


async def _believes_the_silence(self: Any, append: Any, offer: Any) -> Any:
    """Takes a lost answer for a refusal."""
    return await self._commit(append)


_RECLAIM = "log_format.journal.reclaim.Reclaim.propose"
_JUDGE = "log_format.journal.batch_judge"
_TAKEN = "log_format.journal.committed_versions.CommittedVersions.version_of"
PLANTED: dict[str, tuple[Callable[[], Awaitable[None]], str, Any]] = {
    "a lost answer is not looked for": (
        a_lost_answer_is_found_in_the_log, "gateway.engine.journal_writer.JournalWriter._reclaim", _believes_the_silence,
    ),
    "a late owner takes all": (an_owner_that_wakes_up_late_takes_nothing_twice, _TAKEN, _is_never_known),
    "an object is not given up": (
        an_owner_that_wakes_up_late_takes_nothing_that_was_refused, _RECLAIM, _gives_nothing_up,
    ),
    "forgets in silence": (who_has_forgotten_takes_nothing, _TAKEN, _forgets_in_silence),
    "an offer is not judged": (what_is_refused_never_appears, f"{_JUDGE}.BatchJudge.verdict", lambda *_: None),
    "a closed number is taken": (a_closed_number_takes_nothing, f"{_JUDGE}._is_closed", lambda *_: False),
    "no news": (news_wake_waiting_readers, "gateway.engine.open_journal.OpenJournal.notice_commit", _hears_nothing),
    "each object has its own commit": (
        objects_of_all_share_a_commit, "gateway.engine.offered_objects._OffersSchedule.take", lambda *_: 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
async def test_a_planted_fault_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these scenarios can fail."""
    scenario, target, fault = PLANTED[name]
    monkeypatch.setattr(target, fault)
    with pytest.raises((AssertionError, TidelogError, pytest.fail.Exception)):
        await asyncio.wait_for(scenario(), 30)


@pytest.mark.parametrize("partition", [0, 1])
async def test_an_offer_that_is_taken_up_is_what_was_offered(partition: int) -> None:
    """A batch of it was refused meanwhile, so its sender has encoded another object: outcomes and the sender's tail are those of
    the offer all the same, with as many runs as the other object or with more."""
    world = await World.made()
    late = world.wires[1].wire = Late()
    batches = [batch_of(world.topics[1], [b"one"], 0), batch_of(world.topics[1], [b"two"], partition)]
    batches[0].expected_offset = 2
    with Gate(world.gateways[1].store, "put_if_absent") as gate:
        sent = asyncio.gather(*(world.submit(1, batch) for batch in batches), return_exceptions=True)
        await gate.wait_until_reached()
        await world.append(0, b"next")
        (taken,) = await late.deliver()
        assert hasattr(taken, "bases")
    second = (AppendedRange(0, 3, 1),) if partition == 0 else (AppendedRange(1, 0, 1),)
    assert await sent == [(AppendedRange(0, 2, 1),), second]
    await world.topics[1].fresh()
    assert values_of(await world.gateways[1].fetch(partition=0)) == await world.values()
