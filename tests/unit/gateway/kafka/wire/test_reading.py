"""Requests are read by kio's schemas: what kio writes is read back, and no bytes do harm."""

from __future__ import annotations

import resource
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType

from gateway.kafka.calls.table import CALLS
from gateway.kafka.wire.messages import encode_body
from gateway.kafka.wire.reading import ENTRIES_MAX, Malformed, read_entity
from tests.support.cpu_time import is_cheap


def _request_types() -> st.SearchStrategy[type[Any]]:
    """Of all calls in all versions: hundreds of modules, which only this test's worker imports."""
    return st.sampled_from(
        [
            load_request_schema(key, version)
            for key, name in api_key_map.items()
            for version in schema_name_map[name]
            if EntityType.request in schema_name_map[name][version]
            and (key in CALLS or key in (0, 1, 8, 11, 19, 68, 75))
        ]
    )


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.deferred(_request_types), st.binary(max_size=200))
def test_any_bytes_are_read_or_malformed(request_type: type[Any], data: bytes) -> None:
    """Nothing else is raised, and what was read is written as bytes that are read alike."""
    try:
        entity, size = read_entity(request_type, memoryview(data))
    except Malformed:
        return
    assert size <= len(data)
    written = encode_body(entity)
    assert read_entity(request_type, memoryview(written)) == (entity, len(written))


@pytest.mark.parametrize("count", [2**31 - 1, 2**31 - 2, 2**28, ENTRIES_MAX + 1])
def test_an_array_that_lies_takes_neither_time_nor_memory(count: int) -> None:
    """kio's own reader of entities ends the process here: it reserves memory for as many entries as are claimed."""
    metadata = load_request_schema(3, 4)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def refuse() -> None:
        with pytest.raises(Malformed):
            read_entity(metadata, memoryview(count.to_bytes(4, "big") + bytes(300_000)))

    assert is_cheap(refuse, 1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_an_array_that_may_not_be_null_is_not() -> None:
    """A handler that goes through it would meet a defect. Where an array may be null it is read as None."""
    acknowledge, heartbeat = load_request_schema(79, 2), load_request_schema(76, 1)
    # Group and member null, epoch 1, no renewal; then the topics; then no tags.
    before = b"\x00\x00" + (1).to_bytes(4, "big") + b"\x00"
    assert read_entity(acknowledge, memoryview(before + b"\x01\x00"))[0].topics == ()
    with pytest.raises(Malformed):
        read_entity(acknowledge, memoryview(before + b"\x00\x00"))
    beat, _ = read_entity(heartbeat, memoryview(b"\x02g\x02m" + bytes(4) + b"\x00\x00\x00"))
    assert beat.subscribed_topic_names is None
    with pytest.raises(Malformed):
        read_entity(load_request_schema(15, 0), memoryview(b"\xff\xff\xff\xff"))
    assert read_entity(load_request_schema(3, 1), memoryview(b"\xff\xff\xff\xff"))[0].topics is None
