"""Raw bodies, the choice of partitions, timestamps, and the refusal of large records."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gateway.codec.incoming import IncomingRecords
from gateway.codec.json_body import decode_json
from gateway.codec.ndjson_body import decode_ndjson
from gateway.codec.partitioning import route
from gateway.codec.raw_body import decode_raw
from gateway.codec.record_checks import refuse_large
from log_format.errors import ErrorCode, RequestRefused
from log_format.records.partitioner import partition_for_key
from log_format.records.schema import BATCH_SCHEMA, TIMESTAMP_MS_MAX

NOW_MS = 1_763_683_200_000


def routed(
    incoming: IncomingRecords, route_partition: int | None = None, *, log_append_time: bool = False
) -> tuple[list[int], list[int]]:
    """Partitions and timestamps (ms) in a topic of 8 partitions where it is partition 5's turn."""
    records, partitions = route(
        incoming,
        partition_count=8,
        route_partition=route_partition,
        sticky=5,
        now_ms=NOW_MS,
        log_append_time=log_append_time,
    )
    assert records.schema.equals(BATCH_SCHEMA)
    assert records.column("timestamp").null_count == 0
    assert records.column("value").equals(incoming.records.column("value"))
    assert partitions.dtype == "int32"
    return partitions.tolist(), [t // 1000 for t in records.column("timestamp").cast(pa.int64()).to_pylist()]


def test_a_raw_body_is_one_value_byte_for_byte() -> None:
    """Also an empty one; without parameters there is nothing else."""
    for body in (b"", b"\x00\xff\r\n", b'{"value":1}'):
        incoming = decode_raw(body)
        assert incoming.records.select(["key", "value", "headers"]).to_pylist() == [
            {"key": None, "value": body, "headers": None}
        ]
        assert incoming.partitions is None


def test_raw_parameters() -> None:
    """A key as text or as base64, a partition, a timestamp."""
    assert decode_raw(b"", key="é").records.column("key").to_pylist() == ["é".encode()]
    assert decode_raw(b"", key="").records.column("key").to_pylist() == [b""]
    assert decode_raw(b"", key_base64="/w==").records.column("key").to_pylist() == [b"\xff"]
    assert routed(decode_raw(b"", partition=2, timestamp=TIMESTAMP_MS_MAX)) == ([2], [TIMESTAMP_MS_MAX])


@pytest.mark.parametrize(
    ("parameters", "where"),
    [
        ({"key": "a", "key_base64": "YQ=="}, "key"),
        ({"key_base64": "YQ"}, "key_base64"),
        ({"partition": -1}, "partition"),
        ({"partition": 2**31}, "partition"),
        ({"timestamp": -1}, "timestamp"),
        ({"timestamp": TIMESTAMP_MS_MAX + 1}, "timestamp"),
    ],
)
def test_wrong_raw_parameters_are_named(parameters: dict[str, object], where: str) -> None:
    """By the query parameter that has to be mended."""
    with pytest.raises(RequestRefused) as refused:
        decode_raw(b"", **parameters)  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert [error["where"] for error in refused.value.fields["errors"]] == [where]


BODY = b"""{"records":[{"value":"a","partition":3,"key":"k","timestamp":7},{"value":"b","key":"user-7"},
{"value":"c","key":null},{"value":"d","key":""}]}"""


def test_the_order_of_choice() -> None:
    """The route's partition, else the record's, else the key's hash (an empty key is a key), else the turn."""
    incoming = decode_json(BODY)
    hashes = [partition_for_key(b"user-7", 8), partition_for_key(b"", 8)]
    assert routed(incoming)[0] == [3, hashes[0], 5, hashes[1]]
    assert routed(incoming, 1)[0] == [1, 1, 1, 1]
    assert routed(decode_json(b'{"records":[{"value":"a"},{"value":"b"}]}'))[0] == [5, 5]
    assert routed(decode_json(b'{"records":[{"value":"a","partition":7},{"value":"b","partition":0}]}'))[0] == [7, 0]
    assert routed(decode_json(b'{"records":[]}')) == ([], [])
    many = decode_json(
        BODY.replace(b"]}", b"," + b",".join([b'{"value":"","key":"user-7"},{"value":""}'] * 50) + b"]}")
    )
    assert routed(many)[0] == [3, hashes[0], 5, hashes[1], *[hashes[0], 5] * 50]


def test_timestamps_are_the_clients_or_those_of_arrival() -> None:
    """Absent ones are filled; with LogAppendTime all are replaced."""
    incoming = decode_json(BODY)
    assert routed(incoming)[1] == [7, NOW_MS, NOW_MS, NOW_MS]
    assert routed(incoming, log_append_time=True)[1] == [NOW_MS] * 4
    assert routed(decode_json(b'{"records":[{"value":"a","timestamp":0}]}'))[1] == [0]


def test_a_partition_that_the_topic_lacks_is_named() -> None:
    """A record's partition beyond the topic's is the record's fault, unless the route names the partition."""
    incoming = decode_json(b'{"records":[{"value":"a"},{"value":"a","partition":8},{"value":"a","partition":7}]}')
    with pytest.raises(RequestRefused) as refused:
        routed(incoming)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert [error["where"] for error in refused.value.fields["errors"]] == ["/records/1/partition"]
    assert routed(incoming, 0)[0] == [0, 0, 0]
    with pytest.raises(RequestRefused) as refused:
        routed(decode_ndjson(b'\n{"value":"a","partition":9}'))
    assert refused.value.fields["errors"][0]["where"] == "line 2"


def test_large_records_are_named() -> None:
    """Key, value, header keys and header values count; exactly the limit is taken."""
    incoming = decode_json(
        b'{"records":[{"value":"12345"},{"key":"1","value":"23","headers":{"4":"56"}},{"value":null}]}'
    )
    refuse_large(incoming, 6)
    with pytest.raises(RequestRefused) as refused:
        refuse_large(incoming, 5)
    assert (refused.value.status, refused.value.code) == (413, ErrorCode.RECORD_TOO_LARGE)
    assert refused.value.fields["limit_bytes"] == 5
    assert [error["where"] for error in refused.value.fields["errors"]] == ["/records/1"]
    with pytest.raises(RequestRefused) as refused:
        refuse_large(decode_raw(b"123456"), 5)
    assert refused.value.fields["errors"][0]["where"] == "body"
