"""Consumers of one group against real gateways: members come and go, and a gateway dies."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_runs import runner
from tests.support.gateway_process import GatewayProcess, running_gateways
from tests.support.waiting import until
from tidelog import Admin, Consumer, Producer, TopicPartition
from tidelog.errors import GroupNotEmpty, NoCommittedOffset, StaleGeneration, UnknownGroup

PARTITIONS = 6
PATIENCE_S = 90


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[list[GatewayProcess]]:
    """Two on one directory."""
    with running_gateways() as started:
        for number in range(2):
            log = tmp_path / f"gateway-{number}.log"
            started.append(GatewayProcess(tmp_path / "store", log))
        yield started


@pytest.fixture
def urls(gateways: list[GatewayProcess]) -> list[str]:
    urls = [gateway.url for gateway in gateways]
    with Admin(urls) as admin:
        admin.create_topic("t", PARTITIONS, {"flush.ms": 20})
    return urls


class Reader:
    """A member in a thread of its own. ``seen`` is shared by all: (partition, offset), in the order in which they came."""

    def __init__(self, urls: list[str], seen: list[tuple[int, int]], **settings: object) -> None:
        self.consumer = Consumer(
            "t",
            bootstrap_servers=urls,
            group="g",
            session_timeout_ms=6_000,
            auto_commit_interval_ms=200,
            **settings,  # type: ignore[arg-type]
        )
        self.count = 0
        self._seen = seen
        self._ending = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Leave the group."""
        self._ending.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with self.consumer:
                while not self._ending.is_set():
                    for record in self.consumer.poll(200, 50):
                        self._seen.append((record.partition, record.offset))
                        self.count += 1
        except BaseException as error:  # noqa: BLE001 - raised by end
            self._error = error


class Load:
    """Sends until it is stopped; ``sent`` is what was acknowledged."""

    def __init__(self, urls: list[str]) -> None:
        self.sent: set[tuple[int, int]] = set()
        self._urls = urls
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        with Producer(self._urls) as producer:
            while not self._ending.is_set():
                futures = [producer.send("t", "v", partition=number % PARTITIONS) for number in range(60)]
                places = [future.result() for future in futures]
                self.sent |= {(place.partition, place.offset) for place in places}
                self._ending.wait(0.02)


def test_members_that_come_and_go_miss_and_double_nothing(urls: list[str]) -> None:
    """While records flow members join and leave: together they get each record once, each partition's in order."""
    seen: list[tuple[int, int]] = []
    load = Load(urls)
    readers = [Reader(urls, seen)]
    until(lambda: readers[0].count > 100, PATIENCE_S)
    readers.append(Reader(urls, seen, assignor="range"))
    until(lambda: readers[1].count > 100, PATIENCE_S)
    readers.append(Reader(urls[::-1], seen))
    until(lambda: readers[2].count > 100, PATIENCE_S)
    readers[0].end()
    before = [reader.count for reader in readers]
    until(lambda: all(now.count > count + 100 for now, count in zip(readers[1:], before[1:], strict=True)), PATIENCE_S)
    load.end()
    until(lambda: len(seen) >= len(load.sent), PATIENCE_S)
    for reader in readers[1:]:
        reader.end()
    by_partition = defaultdict(list)
    for partition, offset in seen:
        by_partition[partition].append(offset)
    assert set(seen) == load.sent
    assert all(offsets == list(range(len(offsets))) for offsets in by_partition.values())


def test_a_dead_gateway_is_survived(gateways: list[GatewayProcess], urls: list[str]) -> None:
    """Whichever of the two coordinates: it is killed, the members go on at the other one, and no record is missing."""
    seen: list[tuple[int, int]] = []
    load = Load(urls)
    readers = [Reader(urls, seen), Reader(urls[::-1], seen)]
    until(lambda: all(reader.count > 100 for reader in readers), PATIENCE_S)
    gateways[0].kill()
    before = [reader.count for reader in readers]
    until(lambda: all(reader.count > count + 200 for reader, count in zip(readers, before, strict=True)), PATIENCE_S)
    load.end()
    until(lambda: load.sent <= set(seen), PATIENCE_S)
    for reader in readers:
        reader.end()
    with Admin(urls) as admin:
        offsets = admin.group_offsets("g")
        ends = admin.offsets("t")
        assert {place.partition: each.offset for place, each in offsets.items()} == {
            number: each.high_watermark for number, each in ends.items()
        }


def test_administering_a_group(urls: list[str]) -> None:
    """Lists, descriptions, lag, resets and deletion, as a real gateway answers them."""
    place = TopicPartition("t", 0)
    with Admin(urls) as admin, Producer(urls) as producer:
        for number in range(10):
            producer.send("t", f"{number}", partition=0, timestamp_ms=number)
        producer.flush()
        with Consumer("t", bootstrap_servers=urls, group="a/b c", client_id="me", enable_auto_commit=False) as consumer:
            until(lambda: len(consumer.poll(200, 4)) == 4, PATIENCE_S)
            consumer.commit(metadata="four")
            described = admin.describe_group("a/b c")
            assert (described.members[0].client_id, len(described.members[0].assignment)) == ("me", PARTITIONS)
            assert consumer.lag()[place] == 6
            with pytest.raises(GroupNotEmpty):
                admin.reset_group("a/b c", "earliest", topics=["t"])
            with pytest.raises(StaleGeneration):
                admin.commit_group_offsets("a/b c", {place: 0})
        assert (admin.group_offsets("a/b c")[place].offset, admin.group_offsets("a/b c")[place].metadata) == (4, "four")
        assert [(each.group, each.state) for each in admin.list_groups()] == [("a/b c", "Empty")]
        assert admin.group_lag("a/b c").total == 6
        (shown,) = json.loads(runner(urls[0])("lag", "--over", "100ms", "--json").stdout)["groups"]
        assert (shown["group"], shown["state"], shown["lag"], shown["consumed_per_second"]) == ("a/b c", "Empty", 6, 0)
        assert shown["caught_up_in_ms"] is None
        screen = json.loads(runner(urls[0])("top", "--every", "100ms", "--json").stdout)
        assert [(one["topic"], one["record_count"], one["lag"]) for one in screen["topics"]][:1] == [("t", 10, 6)]
        assert [one["group"] for one in screen["groups"]] == ["a/b c"]
        for arguments, expected in (
            ({"to": "latest"}, 10),
            ({"shift": -3}, 7),
            ({"to": 5}, 5),
            ({"timestamp_ms": 8}, 8),
            ({"to": "earliest"}, 0),
        ):
            assert admin.reset_group("a/b c", partitions=[place], **arguments)[place].offset == expected
        admin.commit_group_offsets("a/b c", {place: 9})
        strict = Consumer("t", bootstrap_servers=urls, group="new", auto_offset_reset="none")
        with strict, pytest.raises(NoCommittedOffset):
            strict.poll(10_000)
        with Consumer(bootstrap_servers=urls, group="a/b c", topic_pattern="t|u.*") as consumer:
            until(lambda: consumer.poll(200), PATIENCE_S)
            assert consumer.positions()[place] == 10
        admin.delete_group("a/b c")
        admin.delete_group("a/b c", missing_ok=True)
        for call in (admin.describe_group, admin.group_lag, admin.delete_group):
            with pytest.raises(UnknownGroup):
                call("a/b c")
        assert admin.group_offsets("a/b c") == {}
