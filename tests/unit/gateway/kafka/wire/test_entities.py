"""An answer is written once, for all versions."""

from __future__ import annotations

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode as KafkaError
from kio.schema.index import schema_name_map

from gateway.kafka.wire.entities import make_entity
from gateway.kafka.wire.messages import encode_body

METADATA = {
    "throttle_time": 5,
    "brokers": [{"node_id": 1, "host": "h", "port": 9, "rack": None}],
    "cluster_id": "c",
    "controller_id": 1,
    "topics": [{"error_code": KafkaError.none, "name": "t", "topic_id": None, "is_internal": False, "partitions": []}],
    "error_code": KafkaError.none,
}


@pytest.mark.parametrize("version", sorted(schema_name_map["metadata"]))
def test_each_version_gets_the_fields_that_it_has(version: int) -> None:
    """One set of values makes every version's answer, which is written."""
    answer = make_entity(load_response_schema(3, version), METADATA)
    assert answer.topics[0].name == "t"
    assert encode_body(answer)
    assert hasattr(answer, "cluster_id") == (version >= 2)


def test_a_name_that_no_version_has_is_a_mistake() -> None:
    """A typing error does not pass as a field that the version lacks; nested ones neither."""
    with pytest.raises(TypeError, match="throttle_tme"):
        make_entity(load_response_schema(3, 0), METADATA | {"throttle_tme": 1})
    with pytest.raises(TypeError, match="leader"):
        make_entity(load_response_schema(3, 0), METADATA | {"topics": [{"name": "t", "leader": 1}]})
