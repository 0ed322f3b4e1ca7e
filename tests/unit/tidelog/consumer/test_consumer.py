"""Unit tests of ``tidelog.consumer``, over the in-process gateway."""

from __future__ import annotations

import threading
import time
from typing import Any

import pyarrow as pa
import pytest

from tests.support.fake_gateway import FakeGateway
from tidelog import Consumer, Filter, Producer, Record, TopicPartition, limits
from tidelog.errors import (
    ClientClosed,
    CorruptSegment,
    GatewayUnreachable,
    OffsetOutOfRange,
    UnexpectedAnswer,
    UnknownPartition,
    UnknownTopic,
)


def fill(gateway: FakeGateway, topic: str, partition_count: int, count: int) -> None:
    """``count`` records in each partition, whose timestamps are ten times their offsets."""
    made = gateway.create(topic, partition_count)
    for partition in range(partition_count):
        made.records[partition] = [
            Record(topic, partition, offset, offset * 10, b"k", b"%d-%d" % (partition, offset))
            for offset in range(count)
        ]


def read_all(consumer: Consumer, count: int) -> list[Record]:
    records: list[Record] = []
    while len(records) < count:
        found = consumer.poll(2_000, 70)
        assert found, f"{len(records)} of {count}"
        assert len(found) <= 70
        records += found
    return records


def test_a_filter_leaves_records_out_and_positions_move(gateway: FakeGateway, way: str) -> None:
    """Only what passes comes, by header and by key; the position moves past the rest, so that a group commits it."""
    fill(gateway, "t", 2, 50)
    gateway.topics["t"].records[1] = [
        Record("t", 1, offset, 0, b"k%d" % (offset % 5), b"", (("n", b"%d" % (offset % 7)),)) for offset in range(50)
    ]
    places = [TopicPartition("t", partition) for partition in range(2)]
    for group, wanted, offsets in (
        ("a", Filter(headers={"n": "3"}), range(3, 50, 7)),
        ("b", Filter(headers=[("n", "3"), ("n", "*")], key=b"k0"), (10, 45)),
        ("c", Filter(key="none"), ()),
    ):
        with Consumer("t", bootstrap_servers=gateway.url, filter=wanted, group=group) as consumer:
            found = [record for _ in range(4) for record in consumer.poll(200)]
            assert [record.offset for record in found] == list(offsets)
            assert {record.partition for record in found} <= {1}
            assert [consumer.position(place) for place in places] == [50, 50]
        assert gateway.groups[group].offsets == {("t", 0): 50, ("t", 1): 50}


def test_a_filter_is_checked() -> None:
    """More conditions than a gateway takes, and a name that a gateway would cut, are refused here."""
    with pytest.raises(ValueError, match="17 conditions"):
        Filter(headers=[("a", "b")] * 17)
    with pytest.raises(ValueError, match="colon"):
        Filter(headers={"a:b": "c"})
    assert Filter(headers={"a": "b:c"}, key=b"\xff").member() == {"headers": ("a:b:c",), "key_base64": "/w=="}


def test_every_record_comes_once_and_in_order(gateway: FakeGateway, way: str) -> None:
    """All partitions of a topic, each from its beginning, complete, in the order of offsets."""
    fill(gateway, "t", 3, 500)
    with Consumer("t", bootstrap_servers=gateway.url, fetch_max_bytes=1_000) as consumer:
        records = read_all(consumer, 1_500)
        assert consumer.poll(0) == []
        assert consumer.assignment() == {TopicPartition("t", partition) for partition in range(3)}
        assert [consumer.position(TopicPartition("t", partition)) for partition in range(3)] == [500] * 3
    for partition in range(3):
        own = [record for record in records if record.partition == partition]
        assert own == gateway.topics["t"].records[partition]


def test_bytes_are_exact(gateway: FakeGateway, way: str) -> None:
    """What was sent comes back byte for byte: null, empty, text, no UTF-8, headers with order and duplicates."""
    gateway.create("t")
    odd = b"\xff\x00"
    sent: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
        (None, None, ()),
        (b"", b"", (("a", b"1"), ("a", None), ("b", b""))),
        (odd, odd, ()),
        ("é".encode(), b'{"a": 1}', ()),
    ]
    with Producer(gateway.url) as producer:
        for key, value, headers in sent:
            producer.send("t", value, key=key, headers=headers, timestamp_ms=7)
    with Consumer("t", bootstrap_servers=gateway.url) as consumer:
        found = read_all(consumer, 4)
    if way == "json":  # the fake writes a null header value as "", as its JSON has no null there
        assert found[1].headers[0] == ("a", b"1")
        found[1] = Record("t", 0, 1, 7, b"", b"", sent[1][2])
    assert found == [Record("t", 0, offset, 7, *row) for offset, row in enumerate(sent)]


def test_it_follows_the_end_without_skipping_or_repeating(gateway: FakeGateway, way: str) -> None:
    """A long poll wakes up with the records that came, and each comes once."""
    gateway.create("t", 2)
    found: list[bytes | None] = []
    with Consumer("t", bootstrap_servers=gateway.url) as consumer, Producer(gateway.url, linger_ms=0) as producer:
        assert consumer.poll(50) == []

        def produce() -> None:
            for number in range(100):
                producer.send("t", str(number), partition=number % 2)
                time.sleep(0.002)

        thread = threading.Thread(target=produce)
        thread.start()
        while len(found) < 100:
            found += [record.value for record in consumer.poll(5_000)]
        thread.join()
        began = time.monotonic()
        assert consumer.poll(200) == []
        assert 0.2 <= time.monotonic() - began < 5
    assert sorted(int(value or b"") for value in found) == list(range(100))


def test_iteration_ends_when_nothing_comes_and_positions_follow_it(gateway: FakeGateway, way: str) -> None:
    """``position`` is behind the record that was given last, so that what was not given is not lost."""
    fill(gateway, "t", 2, 300)
    places = [TopicPartition("t", 0), TopicPartition("t", 1)]
    with Consumer("t", bootstrap_servers=gateway.url, consumer_timeout_ms=50) as consumer:
        for count, record in enumerate(consumer, 1):
            assert consumer.position(TopicPartition("t", record.partition)) == record.offset + 1
            if count == 350:
                break
        assert sum(consumer.position(place) for place in places) == 350
        assert sum(1 for _ in consumer) == 250
        assert list(consumer) == []


def test_seeking_in_the_middle_of_an_iteration(gateway: FakeGateway, way: str) -> None:
    """What was fetched before a seek is not given after it; a paused partition is silent."""
    fill(gateway, "t", 2, 100)
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
    with Consumer("t", bootstrap_servers=gateway.url, consumer_timeout_ms=50) as consumer:
        given = []
        for record in consumer:
            given.append((record.partition, record.offset))
            if given[-1] == (0, 10):
                consumer.seek(zero, 90)
            if given[-1] == (1, 5):
                consumer.pause(one)
        assert [offset for partition, offset in given if partition == 0] == [*range(11), *range(90, 100)]
        assert [offset for partition, offset in given if partition == 1] == list(range(6))
        assert consumer.paused() == {one}
        consumer.resume(one)
        assert [record.offset for record in consumer] == list(range(6, 100))


def test_positions_are_found_and_set(gateway: FakeGateway, way: str) -> None:
    """Beginning, end, by time, by offset."""
    fill(gateway, "t", 2, 100)
    gateway.topics["t"].log_starts[1] = 40
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
    with Consumer(bootstrap_servers=gateway.url) as consumer:
        assert consumer.partitions_for_topic("t") == {0, 1}
        assert consumer.beginning_offsets([zero, one]) == {zero: 0, one: 40}
        assert consumer.end_offsets([one]) == {one: 100}
        assert consumer.offsets_for_times({zero: 205, one: 10_000}) == {zero: 21, one: None}
        consumer.assign([zero, one])
        assert (consumer.position(zero), consumer.position(one)) == (0, 40)
        consumer.seek_to_end()
        assert (consumer.position(zero), consumer.position(one)) == (100, 100)
        consumer.seek_to_beginning(one)
        consumer.seek(zero, 98)
        assert [record.offset for record in read_all(consumer, 62)] == [98, 99, *range(40, 100)]
        consumer.assign([one])
        assert consumer.position(one) == 100
        for wrong in (lambda: consumer.seek(zero, 0), lambda: consumer.position(zero), lambda: consumer.pause(zero)):
            with pytest.raises(ValueError, match="not assigned"):
                wrong()
        with pytest.raises(ValueError, match="below 0"):
            consumer.seek(one, -1)
        consumer.pause(one)
        with pytest.raises(ValueError, match="paused"):
            consumer.poll(0)


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
@pytest.mark.parametrize("offset", [3, 1_000])
def test_a_position_outside_the_log(gateway: FakeGateway, way: str, reset: Any, offset: int) -> None:
    """The reset policy decides where to go on; ``none`` raises the contract's error, with the bounds in it."""
    fill(gateway, "t", 1, 100)
    gateway.topics["t"].log_starts[0] = 40
    place = TopicPartition("t", 0)
    with Consumer(bootstrap_servers=gateway.url, auto_offset_reset=reset) as consumer:
        consumer.assign([place])
        if reset == "none":
            with pytest.raises(OffsetOutOfRange, match="no position"):
                consumer.poll(100)
        consumer.seek(place, offset)
        if reset == "earliest":
            assert consumer.poll(2_000)[0].offset == 40
        elif reset == "latest":
            assert consumer.poll(100) == []
            assert consumer.position(place) == 100
        else:
            with pytest.raises(OffsetOutOfRange) as caught:
                consumer.poll(2_000)
            assert caught.value.status == (410 if offset == 3 else 416)
            assert (caught.value.fields["log_start_offset"], caught.value.fields["high_watermark"]) == (40, 100)


def test_arrow_tables_hold_the_same_records(gateway: FakeGateway, way: str) -> None:
    """``poll_arrow`` goes on where ``poll`` stopped, and its tables can be sent again as they are."""
    fill(gateway, "t", 2, 200)
    gateway.create("copy", 2)
    with Consumer("t", bootstrap_servers=gateway.url) as consumer, Producer(gateway.url) as producer:
        first = consumer.poll(2_000, 30)
        tables: list[pa.Table] = []
        while sum(table.num_rows for table in tables) < 370:
            tables.append(consumer.poll_arrow(2_000, max_bytes=2_000))
            assert 1 <= tables[-1].num_rows < 150
            producer.send_table("copy", tables[-1]).result(timeout=10)
        empty = consumer.poll_arrow(10)
        assert empty.num_rows == 0
    whole = pa.concat_tables([*tables, empty])
    assert whole.column_names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    rows = whole.select(["topic", "partition", "offset"]).to_pylist()
    given = [(record.topic, record.partition, record.offset) for record in first]
    places = [*given, *((row["topic"], row["partition"], row["offset"]) for row in rows)]
    assert sorted(places) == [("t", partition, offset) for partition in range(2) for offset in range(200)]
    assert sum(map(len, gateway.values("copy"))) == 370


def test_new_partitions_are_read_from_their_beginning(gateway: FakeGateway) -> None:
    """A topic that grows loses no record to a consumer of the whole topic, even one that began at the end."""
    fill(gateway, "t", 1, 5)
    with Consumer("t", bootstrap_servers=gateway.url, auto_offset_reset="latest") as consumer:
        assert consumer.poll(0) == []
        gateway.topics["t"].grow(2)
        gateway.topics["t"].records[1].append(Record("t", 1, 0, 0, None, b"new"))
        consumer._reader._topics["t"] = time.monotonic() - limits.METADATA_AGE_MS_MAX / 1000
        found: list[Record] = []
        while not found:
            found = consumer.poll(150)
        assert [record.value for record in found] == [b"new"]


def test_faults_that_pass_are_borne(gateway: FakeGateway, way: str, dead_url: str) -> None:
    """Refusals, lost and cut answers, and a dead address cost time, and no record; reading may always be repeated."""
    fill(gateway, "t", 2, 100)
    gateway.misbehave("GET", gateway.lose(done=False), gateway.refuse(503, "UNAVAILABLE"), gateway.cut())
    gateway.misbehave("records|fetch", gateway.refuse(500, "INTERNAL"), gateway.lose(done=True), gateway.cut())
    with Consumer("t", bootstrap_servers=f"{dead_url},{gateway.url}", fetch_max_bytes=500) as consumer:
        records = read_all_patiently(consumer, 200)
    assert len({(record.partition, record.offset) for record in records}) == 200
    with Consumer("t", bootstrap_servers=dead_url, api_timeout_ms=10_000) as consumer:
        began = time.monotonic()
        assert consumer.poll(200) == []
        assert time.monotonic() - began < 5


def read_all_patiently(consumer: Consumer, count: int) -> list[Record]:
    records: list[Record] = []
    deadline = time.monotonic() + 20
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(1_000)
    return records


def test_a_poll_that_does_not_wait_still_asks(gateway: FakeGateway, way: str) -> None:
    """However slow the gateway is: a time-out of 0 is for waiting for records, not for the answer."""
    fill(gateway, "t", 1, 5)
    gateway.misbehave("GET /v1/topics/t$", gateway.stall(0.2))
    gateway.misbehave("records|fetch", gateway.stall(0.2))
    with Consumer("t", bootstrap_servers=gateway.url) as consumer:
        assert len(consumer.poll(0)) == 5


def test_faults_that_do_not_pass_are_raised(gateway: FakeGateway, way: str, dead_url: str) -> None:
    """Nothing is swallowed for ever: gateways that stay away, and errors that waiting does not mend."""
    with Consumer("t", bootstrap_servers=dead_url, api_timeout_ms=300) as consumer, pytest.raises(GatewayUnreachable):  # noqa: PT012
        for _ in range(20):
            consumer.poll(100)
    with Consumer("nowhere", bootstrap_servers=gateway.url) as consumer, pytest.raises(UnknownTopic):
        consumer.poll(100)
    gateway.create("t", 1)
    with Consumer(bootstrap_servers=gateway.url) as consumer:
        consumer.assign([TopicPartition("t", 3)])
        with pytest.raises(UnknownPartition):
            consumer.poll(100)


@pytest.mark.parametrize(
    "body",
    [
        b"no Arrow",
        b"",
    ],
)
def test_answers_that_are_no_records_are_refused(gateway: FakeGateway, body: bytes) -> None:
    """Garbage is never taken for an empty log."""
    fill(gateway, "t", 1, 5)
    gateway.misbehave("records", gateway.answer(200, body, Tidelog_Next_Offset="0", Tidelog_High_Watermark="5"))
    with Consumer("t", bootstrap_servers=gateway.url) as consumer:
        with pytest.raises(UnexpectedAnswer):
            consumer.poll(1_000)
        assert len(consumer.poll(1_000)) == 5


def test_answers_about_other_offsets_are_refused(gateway: FakeGateway, way: str) -> None:
    """A gateway that answers with what was not asked for would make the consumer repeat records, or skip some."""
    fill(gateway, "t", 1, 10)
    place = TopicPartition("t", 0)

    def from_the_beginning(exchange: Any) -> None:
        if exchange.asked.query:
            exchange.asked.query["offset"] = "0"
        else:
            exchange.asked.body = exchange.asked.body.replace(b'"offset":5', b'"offset":0')
        exchange.carry_out()

    gateway.misbehave("records|fetch", from_the_beginning)
    with Consumer(bootstrap_servers=gateway.url) as consumer:
        consumer.assign([place])
        consumer.seek(place, 5)
        with pytest.raises(UnexpectedAnswer, match="offset 5 was requested"):
            consumer.poll(1_000)
        assert consumer.position(place) == 5
        assert [record.offset for record in consumer.poll(1_000)] == [5, 6, 7, 8, 9]


def test_one_damaged_partition_does_not_stop_the_others(gateway: FakeGateway, way: str) -> None:
    """``CORRUPT_SEGMENT`` is raised with its segment, and the records of the other partitions can be read on."""
    fill(gateway, "t", 3, 10)
    gateway.damaged.add(("t", 1))
    records: list[Record] = []
    errors = []
    with Consumer("t", bootstrap_servers=gateway.url) as consumer:
        for _ in range(6):
            try:
                records += consumer.poll(100)
            except CorruptSegment as error:
                errors.append(error)
        assert sorted((record.partition, record.offset) for record in records) == [
            (p, o) for p in (0, 2) for o in range(10)
        ]
        assert errors[0].fields["segment"] == "segments/x.parquet"
        gateway.damaged.clear()
        assert len(consumer.poll(1_000)) == 10


def test_one_thread_at_a_time_and_close_from_any(gateway: FakeGateway) -> None:
    """A second thread is refused loudly; closing ends a poll that waits."""
    gateway.create("t")
    consumer = Consumer("t", bootstrap_servers=gateway.url)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            consumer.poll(30_000)
        except ClientClosed as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while gateway.count("records") == 0:
        time.sleep(0.01)
    with pytest.raises(RuntimeError, match="one thread"):
        consumer.poll(0)
    consumer.close()
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert len(raised) == 1
    with pytest.raises(ClientClosed):
        consumer.poll(0)


def test_settings_out_of_range_are_refused(gateway: FakeGateway) -> None:
    """Named in the error."""
    for wrong in ({"auto_offset_reset": "begin"}, {"max_poll_records": 0}, {"fetch_max_bytes": 1 << 30}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Consumer("t", bootstrap_servers=gateway.url, **wrong)
    with Consumer("t", bootstrap_servers=gateway.url) as consumer, pytest.raises(ValueError, match="max_records"):
        consumer.poll(0, 0)
