"""A request's only record takes a way of its own to the segment: the bytes and the refusals are those of the way of many."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from gateway.codec.incoming import IncomingRecords
from gateway.codec.json_body import decode_json
from gateway.codec.raw_body import decode_raw
from gateway.routes.batch import Routing, batch_of
from log_format.errors import RequestRefused
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append, Batch
from log_format.topic.config import TopicConfig
from log_format.topic.state import TopicState
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FaultyStore
from tests.support.topic_bench import TopicBench

ROUTING = Routing(partition=None, turn=5, arrived_at_ms=1_763_683_200_000)
BODIES = [
    b'{"records":[{"value":"v"}]}',
    b'{"records":[{"value":null,"key":"k"}]}',
    b'{"records":[{"value":"","key":""}]}',
    b' {"records" : [ {"key":null,"value":"a\\"\\u00e4","timestamp":7} ] } ',
    b'{"records":[{"value":"-0,","timestamp":null}]}',
    '{"records":[{"value":"ä€𐍈","key":"ключ"}]}'.encode(),
]


@pytest.fixture
def bench() -> TopicBench:
    clock = ManualClock()
    return TopicBench(FaultyStore(MemoryStore(clock=clock)), clock)


def whole(incoming: IncomingRecords) -> IncomingRecords:
    """The same as a table, so that it takes the way of many."""
    return incoming.with_records(incoming.records)


def outcome(incoming: IncomingRecords, state: TopicState, routing: Routing) -> Any:
    """The batch's places and rows, or the refusal."""
    try:
        batch = batch_of(incoming, state, routing).batch
    except RequestRefused as refusal:
        return refusal.code, refusal.detail, refusal.fields
    assert batch is not None
    rows = [batch.records.column(name).to_pylist() for name in batch.records.column_names]
    return batch.counts, batch.record_bytes_max, batch.partition_count, batch.partitions.tolist(), rows


@pytest.mark.parametrize("body", BODIES)
def test_a_plain_record_stays_plain(body: bytes) -> None:
    """Text, null, escapes and white space: all of it is as the way of many has it."""
    assert decode_json(body).single is not None
    two = decode_json(body.replace(b"}]", b'},{"value":1}]').replace(b"} ]", b'},{"value":1}]'))
    assert two.single is None
    assert decode_json(body).records.to_pylist() == two.records.to_pylist()[:1]


@pytest.mark.parametrize(
    "member",
    [
        '"value":1',
        '"value":{}',
        '"value_base64":"YQ=="',
        '"value":"v","partition":1',
        '"value":"v","headers":[]',
        '"value":"v","offset":1',
        '"value":"v","deliver_after_ms":5',
        '"value":"v","expires_at":5',
    ],
)
def test_any_other_record_does_not(member: str) -> None:
    """It has what a plain record has no room for."""
    assert decode_json(b'{"records":[{%b}]}' % member.encode()).single is None


@pytest.mark.parametrize("member", ['"value":"a","value":"b"', '"value":"a","key":"b","key":null', '"value":"a","x":1'])
def test_a_repeated_or_unknown_member_is_refused(member: str) -> None:
    """The short way accounts for each string, too."""
    with pytest.raises(RequestRefused):
        decode_json(b'{"records":[{%b}]}' % member.encode())


def test_the_batch_is_that_of_many(bench: TopicBench) -> None:
    """By key, by turn, by route; the client's time and the gateway's; every refusal."""
    state = bench.create(8).log.state
    configs: list[dict[str, Any]] = [
        {},
        {"message.timestamp.type": "LogAppendTime"},
        {"cleanup.policy": "compact"},
        {"max.message.bytes": 1},
    ]
    incoming = [decode_json(body) for body in BODIES] + [decode_raw(b"raw", key="k", timestamp=9), decode_raw(b"")]
    for one, config, partition in product(incoming, configs, (None, 3)):
        topic = replace(state, config=TopicConfig.parse(config))
        routing = ROUTING._replace(partition=partition)
        assert outcome(one, topic, routing) == outcome(whole(one), topic, routing)


def test_the_segment_is_that_of_many(bench: TopicBench) -> None:
    """Single records beside tables, in the order in which they came: byte for byte the same segment."""
    state = bench.create(8).log.state
    many = decode_json(b'{"records":[{"value":"m0"},{"value":"m1","key":"k"},{"value":"m2","headers":{"a":"b"}}]}')
    incoming = [decode_json(body) for body in BODIES]
    incoming = [*incoming[:2], many, *incoming[2:4], many, many, *incoming[4:]]

    def segment(requests: list[IncomingRecords]) -> bytes:
        batches: list[Batch] = []
        for turn, one in enumerate(requests):
            batch = batch_of(one, state, ROUTING._replace(turn=turn)).batch
            assert batch is not None
            batches.append(batch)
        staged = Append(batches, lambda: "id").stage(state, state.next_offsets)
        assert staged is not None
        return staged.data

    assert segment(incoming) == segment([whole(one) for one in incoming])
    assert segment(incoming[:2]) == segment([whole(one) for one in incoming[:2]])
