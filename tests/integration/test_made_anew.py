"""A topic that is deleted and made anew while consumers read it, by a real gateway process: nothing of the new one is skipped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_runs import runner
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.waiting import until
from tidelog import Admin, Consumer, Producer, Record, TopicPartition
from tidelog.calls.groups import GroupCalls
from tidelog.errors import NoCommittedOffset, OffsetOutOfRange

TOPIC = "orders"
PLACE = TopicPartition(TOPIC, 0)


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with running_gateway(tmp_path / "store", tmp_path / "gateway.log") as started:
        yield started


@pytest.fixture
def url(gateway: GatewayProcess) -> str:
    return gateway.url


@pytest.fixture
def filled(url: str) -> Callable[[str, int], None]:
    """Makes the topic anew, with so many records of a kind."""

    def fill(kind: str, count: int) -> None:
        with Admin(url) as admin, Producer(url) as producer:
            if any(topic.name == TOPIC for topic in admin.list_topics()):
                admin.delete_topic(TOPIC)
            admin.create_topic(TOPIC)
            for number in range(count):
                producer.send(TOPIC, b"%s-%d" % (kind.encode(), number))

    return fill


def read(consumer: Consumer, count: int) -> list[bytes | None]:
    records: list[Record] = []
    deadline = time.monotonic() + 20
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(500)
    return [record.value for record in records]


def values(kind: str, count: int) -> list[bytes]:
    return [b"%s-%d" % (kind.encode(), number) for number in range(count)]


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("count", [20, 3])
def test_the_new_topic_is_read_from_its_start(
    url: str, filled: Callable[[str, int], None], reset: str, group: str | None, count: int
) -> None:
    """Alone and in a group, whether the old position is within the new topic or beyond its end, and whatever the reset policy."""
    filled("old", 10)
    with Consumer(TOPIC, bootstrap_servers=url, group=group, auto_offset_reset=reset) as consumer:  # type: ignore[arg-type]
        consumer.position(PLACE) if group is None else consumer.poll(2_000)
        consumer.seek(PLACE, 0)
        assert read(consumer, 10) == values("old", 10)
        filled("new", count)
        assert read(consumer, count) == values("new", count)
        if group is not None:
            consumer.commit()
            assert consumer.committed(PLACE) == {PLACE: count}


def test_several_partitions_are_waited_for_at_once(url: str) -> None:
    """Two topics are waited for by one request as JSON; one of them is made anew."""
    with Admin(url) as admin, Producer(url) as producer:
        for name in ("a", "b"):
            admin.create_topic(name)
            producer.send(name, b"old")
        producer.flush()
        with Consumer("a", "b", bootstrap_servers=url) as consumer:
            assert sorted(read(consumer, 2), key=str) == [b"old", b"old"]
            assert consumer.poll(100) == []
            admin.delete_topic("a")
            admin.create_topic("a")
            for number in range(3):
                producer.send("a", b"new-%d" % number)
            producer.flush()
            assert read(consumer, 3) == values("new", 3)


def test_a_commit_for_the_deleted_topic_is_not_kept(url: str, filled: Callable[[str, int], None]) -> None:
    """What was read before is committed after the topic was made anew: no offset of the new one."""
    filled("old", 10)
    with Consumer(TOPIC, bootstrap_servers=url, group="g", enable_auto_commit=False) as consumer:
        assert len(read(consumer, 10)) == 10
        filled("new", 20)
        consumer.commit()
        assert consumer.committed(PLACE) == {PLACE: None}
    with Consumer(TOPIC, bootstrap_servers=url, group="g") as consumer:
        assert read(consumer, 20) == values("new", 20)


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize(("before", "after"), [(3, 1), (1, 3)])
def test_the_new_topic_has_another_number_of_partitions(url: str, group: str | None, before: int, after: int) -> None:
    """Those that it has are read from their start. A partition that is no more ends nothing."""
    with Admin(url) as admin:

        def fill(kind: str, count: int) -> list[bytes]:
            admin.create_topic(TOPIC, partition_count=count)
            with Producer(url) as producer:
                for partition, number in product(range(count), range(4)):
                    producer.send(TOPIC, b"%s-%d-%d" % (kind.encode(), partition, number), partition=partition)
            return [b"%s-%d-%d" % (kind.encode(), *each) for each in product(range(count), range(4))]

        old = fill("old", before)
        with Consumer(TOPIC, bootstrap_servers=url, group=group, auto_offset_reset="earliest") as consumer:
            assert sorted(read(consumer, len(old)), key=str) == old
            admin.delete_topic(TOPIC)
            new = fill("new", after)
            assert sorted(read(consumer, len(new)), key=str) == new
            left = {TopicPartition(TOPIC, one) for one in range(after)}
            until(lambda: consumer.poll(100) == [] and consumer.assignment() == left)
            if group is not None:
                consumer.commit()
        if group is not None:
            assert [(part.committed_offset, part.lag) for part in admin.group_lag(group).topics[0].partitions] == [
                (4, 0)
            ] * after


def test_lag_is_that_of_the_new_topic(url: str, filled: Callable[[str, int], None]) -> None:
    """What a group had committed of the old one counts for nothing."""
    filled("old", 10)
    with Admin(url) as admin:
        admin.commit_group_offsets("g", {PLACE: 10})
        assert admin.group_lag("g").total == 0
        for count in (20, 3):
            filled("new", count)
            assert sum(part.lag or 0 for topic in admin.group_lag("g").topics for part in topic.partitions) in (
                0,
                count,
            )
            with Consumer(TOPIC, bootstrap_servers=url, group="g", auto_offset_reset="earliest") as consumer:
                assert consumer.committed(PLACE) == {PLACE: None}
                assert read(consumer, count) == values("new", count)
                consumer.commit()
            (topic,) = admin.group_lag("g").topics
            assert [(part.committed_offset, part.lag) for part in topic.partitions] == [(count, 0)]


@pytest.mark.parametrize("group", [None, "g"])
def test_without_a_policy_it_is_an_error(url: str, filled: Callable[[str, int], None], group: str | None) -> None:
    """With ``auto_offset_reset="none"`` the caller decides."""
    filled("old", 10)
    if group is not None:
        with Admin(url) as admin:
            admin.commit_group_offsets(group, {PLACE: 0})
    with Consumer(TOPIC, bootstrap_servers=url, group=group, auto_offset_reset="none") as consumer:
        if group is None:
            consumer.seek(PLACE, 0)
        assert len(read(consumer, 10)) == 10
        filled("new", 20)
        with pytest.raises(NoCommittedOffset if group is not None else OffsetOutOfRange):
            read(consumer, 20)
        consumer.seek(PLACE, 5)
        assert read(consumer, 15) == values("new", 20)[5:]


def test_a_transaction_commits_no_offset_of_a_topic_that_is_no_more(
    url: str, filled: Callable[[str, int], None]
) -> None:
    """The topic is made anew between the read and the transaction: what the group had is not taken for a place in the new one."""
    filled("old", 10)
    with Admin(url) as admin:
        admin.create_topic("out")
    with (
        Consumer(
            TOPIC, bootstrap_servers=url, group="g", auto_offset_reset="earliest", enable_auto_commit=False
        ) as consumer,
        Producer(url, transactional_id="copy") as producer,
    ):
        assert read(consumer, 10) == values("old", 10)
        positions, who = consumer.positions(), consumer.group_metadata()
        filled("new", 20)
        with producer.transaction():
            producer.send("out", b"copied")
            producer.send_offsets_to_transaction(positions, who)
        assert read(consumer, 20) == values("new", 20)
        with producer.transaction():
            producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
        assert consumer.committed(PLACE) == {PLACE: 20}
    with Consumer("out", bootstrap_servers=url, auto_offset_reset="earliest") as consumer:
        assert read(consumer, 1) == [b"copied"]


@pytest.mark.parametrize(("before", "after"), [(2, 2), (3, 1)])
def test_collect_goes_on_in_the_new_topic(url: str, tmp_path: Path, before: int, after: int) -> None:
    """Each line that comes later is there once. What lay in the deleted topic went with it, and is not sent again."""
    collect = partial(runner(url), "collect", tmp_path / "*.log", "-t", TOPIC, "--state", tmp_path / "state", "--once")
    log = tmp_path / "app.log"
    with Admin(url) as admin:
        admin.create_topic(TOPIC, partition_count=before)
        log.write_text("".join(f"old-{number}\n" for number in range(50)))
        assert collect().exit_code == 0
        for turn in range(2):
            admin.delete_topic(TOPIC)
            admin.create_topic(TOPIC, partition_count=after)
            with log.open("a") as appended:
                appended.writelines(f"new-{turn}-{number}\n" for number in range(20))
            ran = collect()
            assert ran.exit_code == 0, ran.output
            with Consumer(TOPIC, bootstrap_servers=url, auto_offset_reset="earliest") as consumer:
                found = [value.decode() for value in read(consumer, 20) if value is not None]
                assert consumer.poll(300) == []
            assert sorted(found) == sorted(f"new-{turn}-{number}" for number in range(20))


@pytest.mark.parametrize("subscribes", [True, False])
def test_what_is_committed_is_no_place_in_a_topic_made_anew_behind_the_look(
    url: str, filled: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch, subscribes: bool
) -> None:
    """The consumer has asked for the group's offsets, and before it reads the topic is another one: its start is read."""
    filled("old", 10)
    with Admin(url) as admin:
        admin.commit_group_offsets("g", {PLACE: 5})
    asked = GroupCalls.offsets

    def and_then_made_anew(*arguments: Any) -> Any:
        found = asked(*arguments)
        if PLACE in found:
            filled("new", 20)
        return found

    monkeypatch.setattr(GroupCalls, "offsets", and_then_made_anew)
    with Consumer(*[TOPIC] * subscribes, bootstrap_servers=url, group="g") as consumer:
        if not subscribes:
            consumer.assign([PLACE])
        assert read(consumer, 20) == values("new", 20)
