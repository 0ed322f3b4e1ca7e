"""Unit tests of a consumer in a group, over the in-process gateway."""

from __future__ import annotations

import gc
import threading
import time
from functools import partial
from typing import Any

import pytest

from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import until
from tidelog import Consumer, Record, TopicPartition
from tidelog.calls.groups import GroupCalls
from tidelog.errors import ClientClosed, FencedMember, NoCommittedOffset, StaleGeneration, UnknownMember

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _has_joined_again(consumer: Consumer) -> bool:
    return consumer.group_metadata().member_id == "m1" or not consumer.poll(50, 1)


def member(gateway: FakeGateway, **settings: Any) -> Consumer:
    return Consumer("t", bootstrap_servers=gateway.url, group="g", **{"enable_auto_commit": False, **settings})


def read(consumer: Consumer, count: int) -> list[Record]:
    found: list[Record] = []
    end = time.monotonic() + 30
    while len(found) < count and time.monotonic() < end:
        found += consumer.poll(200, count - len(found))
    assert len(found) == count
    return found


def test_what_is_lost_is_committed_and_then_acknowledged(gateway: FakeGateway) -> None:
    """The order of a hand-over: commit and ``on_revoked`` under the old generation, then the new one; then nothing more comes."""
    gateway.fill("t", 100, 2)
    told: list[str] = []

    def revoked(places: list[TopicPartition]) -> None:
        told.append(f"revoked {places} at {consumer.position(places[0])}")
        gateway.groups["g"].events.append("revoked")

    with member(
        gateway,
        enable_auto_commit=True,
        on_revoked=revoked,
        on_assigned=lambda places: told.append(f"assigned {places}"),
    ) as consumer:
        records = read(consumer, 150)
        at = {place: 1 + max(r.offset for r in records if r.partition == place.partition) for place in (P0, P1)}
        kept, lost = sorted(at, key=lambda place: -at[place])
        gateway.move("g", "m0", ("t", kept.partition))
        until(consumer._needs_attention)
        assert consumer.poll(300) == []
        assert consumer.assignment() == {kept}
        assert told == [f"assigned {[P0, P1]}", f"revoked {[lost]} at {at[lost]}"]
        commit = f"commit t/0@{at[P0]} t/1@{at[P1]}"
        assert gateway.groups["g"].events == ["join m0", commit, "revoked", "acknowledge 2"]


def test_iteration_hands_nothing_out_after_it_acknowledged(gateway: FakeGateway) -> None:
    """In the middle of what was fetched: records of a partition that is taken away stop before that is acknowledged."""
    gateway.fill("t", 3_000, 2)
    events = []
    with member(gateway, consumer_timeout_ms=300) as consumer:
        for record in consumer:
            events.append((record.partition, "acknowledge 2" in gateway.groups["g"].events))
            if len(events) == 100:
                gateway.move("g", "m0", ("t", 1 - record.partition))
                lost = record.partition
                until(consumer._needs_attention)
    assert (lost, True) not in events
    # At once, and not when what was fetched of it is handed out.
    assert lost not in [partition for partition, _ in events[100:]]
    assert sum(1 for partition, _ in events if partition != lost) == 3_000


def test_what_is_gained_begins_at_the_committed_offset(gateway: FakeGateway) -> None:
    """Partitions that come later are read on from where the group is, those that stay from where this consumer is."""
    gateway.fill("t", 50, 2)
    with member(gateway) as consumer:
        read(consumer, 100)
        gateway.move("g", "m0", ("t", 0))
        until(lambda: consumer.poll(50) == [] and consumer.assignment() == {P0})
        gateway.groups["g"].offsets["t", 1] = 40
        gateway.move("g", "m0", ("t", 0), ("t", 1))
        assert [(record.partition, record.offset) for record in read(consumer, 10)] == [(1, at) for at in range(40, 50)]


def test_only_what_is_dealt_with_is_committed_by_itself(gateway: FakeGateway) -> None:
    """What was handed out last is committed when more is asked for, or by ``close``; not when the block raises."""
    gateway.fill("t", 100)
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 0}
    with member(gateway, **settings) as consumer:
        consumer.poll(5_000, 30)
        assert gateway.groups["g"].offsets == {}
        consumer.poll(5_000, 30)
        until(lambda: gateway.groups["g"].offsets == {("t", 0): 30})
        time.sleep(0.1)
        assert gateway.groups["g"].offsets == {("t", 0): 30}
    assert gateway.groups["g"].offsets == {("t", 0): 60}

    def block() -> None:
        with member(gateway, **settings) as consumer:
            assert consumer.poll(5_000, 10)[0].offset == 60
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    assert gateway.groups["g"].offsets == {("t", 0): 60}
    with member(gateway, **settings) as consumer:
        for record in consumer:
            if record.offset == 70:
                break
    assert gateway.groups["g"].offsets == {("t", 0): 71}
    assert [event for event in gateway.groups["g"].events if "leave" in event] == ["leave m0", "leave m1", "leave m2"]


def test_a_member_that_is_out_joins_again(gateway: FakeGateway) -> None:
    """``UNKNOWN_MEMBER``, from a heartbeat or a commit: ``on_lost``, nothing committed, on from the committed offset."""
    gateway.fill("t", 100)
    for refused_by_commit in (False, True):
        gateway.groups.pop("g", None)
        lost: list[list[TopicPartition]] = []
        gateway.heartbeat_ms = 60_000 if refused_by_commit else 20
        with member(gateway, on_lost=lost.append) as consumer:
            read(consumer, 20)
            consumer.commit()
            read(consumer, 20)
            gateway.groups["g"].refuse["m0"] = (404, "UNKNOWN_MEMBER")
            if refused_by_commit:
                with pytest.raises(UnknownMember):
                    consumer.commit()
            until(partial(_has_joined_again, consumer))
            again = read(consumer, 1) if consumer.positions()[P0] < 21 else None
            assert again is None or again[0].offset == 20
            assert consumer.positions()[P0] == 21
            assert lost == [[P0]]
            assert consumer.group_metadata().member_id == "m1"
            assert gateway.groups["g"].offsets == {("t", 0): 20}


def test_a_session_that_ends_in_a_hand_over_begins_anew(gateway: FakeGateway) -> None:
    """``UNKNOWN_MEMBER`` as the answer to the acknowledgement that the partitions are given up: the poll raises nothing."""
    gateway.fill("t", 100, 2)

    def revoked(_places: list[TopicPartition]) -> None:
        gateway.groups["g"].refuse["m0"] = (404, "UNKNOWN_MEMBER")

    gateway.heartbeat_ms = 20
    with member(gateway, on_revoked=revoked) as consumer:
        read(consumer, 20)
        gateway.heartbeat_ms = 60_000
        gateway.move("g", "m0", ("t", 0))
        until(lambda: consumer.poll(50, 1) is not None and consumer.group_metadata().member_id == "m1")
        read(consumer, 20)


def test_a_fenced_member_does_not_come_back(gateway: FakeGateway) -> None:
    """Another consumer took the ``instance_id``: joining again would make two take it from each other for ever."""
    gateway.fill("t", 10)
    with member(gateway, instance_id="i") as consumer:
        read(consumer, 5)
        gateway.groups["g"].refuse["m0"] = (409, "FENCED_MEMBER")
        until(consumer._needs_attention)
        with pytest.raises(FencedMember):
            consumer.poll(1_000)
        with pytest.raises(ClientClosed):
            consumer.poll(1_000)
    assert gateway.groups["g"].events == ["join m0"]


def test_a_silent_member_counts_itself_out(gateway: FakeGateway) -> None:
    """No heartbeat is answered for a session: others may read by then, so nothing more is handed out before it joined again."""
    gateway.fill("t", 100)
    lost: list[list[TopicPartition]] = []
    with member(gateway, session_timeout_ms=1_000, on_lost=lost.append) as consumer:
        read(consumer, 10)
        gateway.misbehave(r"/heartbeat$", *[gateway.lose(done=False)] * 1_000)
        until(lambda: consumer._group is not None and not consumer._group.may_hand_out)
        assert consumer.ready() == []
        gateway.groups["g"].offsets["t", 0] = 50
        gateway._faults.clear()
        assert read(consumer, 1)[0].offset == 50
        assert lost == [[P0]]


def test_where_a_new_group_begins(gateway: FakeGateway) -> None:
    """``latest`` commits where it begins at once, so that what comes before its first commit is not skipped; ``none`` raises."""
    gateway.fill("t", 10)
    with member(gateway, auto_offset_reset="none") as consumer, pytest.raises(NoCommittedOffset):
        consumer.poll(1_000)
    assert gateway.groups["g"].offsets == {}
    with member(gateway, auto_offset_reset="latest") as consumer:
        assert consumer.poll(100) == []
    assert gateway.groups["g"].offsets == {("t", 0): 10}
    gateway.topics["t"].records[0].append(Record("t", 0, 10, 10, b"k", b"10"))
    with member(gateway, auto_offset_reset="none") as consumer:
        assert [record.offset for record in read(consumer, 1)] == [10]


def test_commits(gateway: FakeGateway) -> None:
    """Positions or what is given, repeated when an answer is lost, refused with the contract's error, told of afterwards."""
    gateway.fill("t", 10, 2)
    with member(gateway) as consumer:
        read(consumer, 20)
        gateway.misbehave(r"PUT .*/offsets$", gateway.lose(done=True), gateway.refuse(503, "UNAVAILABLE"))
        consumer.commit()
        assert consumer.committed() == {P0: 10, P1: 10}
        consumer.commit({P0: 3}, metadata="why")
        assert consumer.committed(P0, TopicPartition("u", 0)) == {P0: 3, TopicPartition("u", 0): None}
        assert consumer.positions() == {P0: 10, P1: 10}
        assert consumer.lag() == {P0: 0, P1: 0}
        consumer.seek_to_committed()
        assert [record.offset for record in read(consumer, 7)] == list(range(3, 10))
        gateway.move("g", "m0", ("t", 0))
        until(consumer._needs_attention)
        consumer.poll(0)
        with pytest.raises(StaleGeneration):
            consumer.commit({P1: 5})
        with pytest.raises(ValueError, match="below 0"):
            consumer.commit({P0: -1})


def test_what_a_callback_raises(gateway: FakeGateway) -> None:
    """It comes out of the poll, and the hand-over goes on with the next; a callback can't poll."""
    gateway.fill("t", 10, 2)
    errors: list[BaseException] = []

    def revoked(places: list[TopicPartition]) -> None:
        try:
            consumer.poll(0)
        except RuntimeError as error:
            errors.append(error)
        if len(places) == 1:
            raise ZeroDivisionError

    with member(gateway, on_revoked=revoked) as consumer:
        read(consumer, 20)
        gateway.move("g", "m0", ("t", 0))
        until(consumer._needs_attention)
        with pytest.raises(ZeroDivisionError):
            consumer.poll(1_000)
        assert consumer.poll(50) == []
        assert gateway.groups["g"].events[-1] == "acknowledge 2"
        assert len(errors) == 1
        gateway.move("g", "m0", ("t", 0), ("t", 1))
        until(lambda: consumer.poll(50) and len(consumer.assignment()) == 2)


def test_closing_from_another_thread(gateway: FakeGateway) -> None:
    """A poll under way ends with ``ClientClosed``; what was handed out is committed, and the member leaves."""
    gateway.fill("t", 10)
    consumer = member(gateway, enable_auto_commit=True)
    read(consumer, 10)
    raised: list[BaseException] = []

    def poll() -> None:
        try:
            consumer.poll(60_000)
        except ClientClosed as error:
            raised.append(error)

    thread = threading.Thread(target=poll)
    thread.start()
    until(lambda: gateway.count("POST /v1/fetch|GET .*/records") > 1)
    consumer.close()
    thread.join(30)
    assert len(raised) == 1
    assert gateway.groups["g"].events == ["join m0", "commit t/0@10", "leave m0"]
    consumer.close()


def test_a_static_member_stays(gateway: FakeGateway) -> None:
    """With an ``instance_id`` closing does not give its partitions away, unless it is told to."""
    gateway.fill("t", 1)
    for leave in (None, True):
        consumer = member(gateway, instance_id="i")
        read(consumer, 1)
        consumer.close(leave=leave)
    assert [event for event in gateway.groups["g"].events if "leave" in event] == ["leave m1"]
    assert gateway.groups["g"].members["m0"].joined["instance_id"] == "i"


def test_a_group_without_members(gateway: FakeGateway) -> None:
    """Partitions assigned by hand are read from the committed offsets, and committed for."""
    gateway.fill("t", 10, 2)
    for expected in (0, 4):
        with Consumer(group="g", bootstrap_servers=gateway.url) as consumer:
            consumer.assign([P1])
            assert [record.offset for record in read(consumer, 4)] == list(range(expected, expected + 4))
    assert gateway.groups["g"].offsets == {("t", 1): 8}
    assert gateway.groups["g"].joined_count == 0


def test_pauses_and_empty_assignments_are_borne(gateway: FakeGateway) -> None:
    """With nothing to read a poll waits and the member lives on."""
    gateway.fill("t", 10, 2)
    with member(gateway, session_timeout_ms=1_000) as consumer:
        read(consumer, 4)
        consumer.pause(P0, P1)
        assert consumer.poll(1_500) == []
        consumer.resume(P0, P1)
        read(consumer, 16)
        gateway.move("g", "m0")
        until(lambda: consumer.poll(100) == [] and consumer.assignment() == set())
        assert consumer.poll(1_200) == []
        gateway.groups["g"].offsets["t", 0] = 9
        gateway.move("g", "m0", ("t", 0))
        assert read(consumer, 1)[0].offset == 9
        assert gateway.groups["g"].joined_count == 1


def test_failures_that_pass_are_borne(gateway: FakeGateway) -> None:
    """Gateways that refuse joins, heartbeats and offsets for a while: polls return nothing, and then the records."""
    gateway.fill("t", 10)
    refusal = gateway.refuse(503, "UNAVAILABLE")
    for pattern in (r"/members$", r"/heartbeat$", r"GET .*/offsets$"):
        gateway.misbehave(pattern, refusal, gateway.lose(done=False))
    with member(gateway) as consumer:
        assert [record.offset for record in read(consumer, 10)] == list(range(10))
    with member(gateway, api_timeout_ms=200) as consumer:
        gateway.misbehave(r"/members$", *[refusal] * 100)
        with pytest.raises(Exception, match="UNAVAILABLE"):
            read(consumer, 1)


def test_a_forgotten_consumer_is_silent(gateway: FakeGateway) -> None:
    """Without references to it its heartbeats end, and the group counts it out."""
    gateway.fill("t", 10)
    consumer = member(gateway)
    read(consumer, 10)
    del consumer
    gc.collect()
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "tidelog-heartbeat"])


def test_calls_out_of_place(gateway: FakeGateway) -> None:
    """Settings that say nothing together, and calls that need a group."""
    for settings, match in (
        ({"topic_pattern": "t"}, "need a group"),
        ({"instance_id": "i"}, "need a group"),
        ({"group": "g", "session_timeout_ms": 10}, "session_timeout_ms"),
        ({"group": "g", "auto_commit_interval_ms": -1}, "auto_commit_interval_ms"),
    ):
        with pytest.raises(ValueError, match=match):
            Consumer(bootstrap_servers=gateway.url, **settings)
    with pytest.raises(ValueError, match="exclude"):
        Consumer("t", bootstrap_servers=gateway.url, group="g", topic_pattern="t")
    with member(gateway) as consumer, pytest.raises(RuntimeError, match="assigns"):
        consumer.assign([P0])
    with Consumer("t", bootstrap_servers=gateway.url) as consumer:
        for call in (consumer.commit, consumer.committed, consumer.group_metadata, consumer.seek_to_committed):
            with pytest.raises(RuntimeError, match="no group"):
                call()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_heartbeats_that_met_a_defect_begin_again_with_the_next_life(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread is gone, the member counts itself out and joins again: and is kept alive again."""
    gateway.fill("t", 0, 2)
    beat = GroupCalls.heartbeat

    def defect(*_: Any) -> None:
        monkeypatch.setattr(GroupCalls, "heartbeat", beat)
        raise ZeroDivisionError

    with member(gateway, session_timeout_ms=1_000) as consumer:
        consumer.poll(10)
        monkeypatch.setattr(GroupCalls, "heartbeat", defect)
        until(lambda: consumer.poll(10) or gateway.groups["g"].joined_count == 2)
        beats = gateway.count("/heartbeat$")
        until(lambda: gateway.count("/heartbeat$") > beats + 3)
