"""Actions and the bytes of a commit: what is written, what is read, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from log_format.delta.actions import (
    PROTOCOL,
    Action,
    Add,
    CommitInfo,
    MetaData,
    Remove,
    Txn,
    decode_commit,
    encode_commit,
    plain_path,
)
from log_format.delta.table_schema import schema_string
from log_format.errors import CorruptData
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import add_segment, decode_segment_tags, remove_segment

OWN = b'{"commitInfo":{"engineInfo":"tidelog/1"}}\n'
INFO = CommitInfo(timestamp=7, operation="WRITE", operation_parameters={}, engine_info="tidelog/1", txn_id="mine")
RUNS = [Run(0, 5, 8, 3, 100, 1_000, 3_000), Run(2, 0, 1, 1, 50, 500, 500)]
SEGMENT = SegmentRef("segments/a b%.parquet", 400, 300, 12345)


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def add(path: str = "segments/a.parquet", *, data_change: bool = True) -> Add:
    return Add(path=path, size=1, modification_time=1, data_change=data_change)


def remove(path: str = "segments/b.parquet", *, data_change: bool = True) -> Remove:
    return Remove(path=path, deletion_timestamp=1, data_change=data_change)


def test_commit_info_is_the_first_line() -> None:
    """Each action is a line of its own, ``commitInfo`` the first one, and every line ends."""
    data = encode_commit(INFO, [Txn(app_id="0", version=3, last_updated=7)])
    assert data.endswith(b"}\n")
    assert [list(line) for line in lines(data)] == [["commitInfo"], ["txn"]]
    assert lines(data)[1] == {"txn": {"appId": "0", "version": 3, "lastUpdated": 7}}


def test_what_was_encoded_is_decoded() -> None:
    """Every kind of action comes back as it was, in its order."""
    metadata = MetaData(
        id="x", name="n", schema_string=schema_string(RECORD_SCHEMA), configuration={"a": "b"}, created_time=3
    )
    txns = (Txn(app_id="0", version=8, last_updated=7), Txn(app_id="log-start-0", version=2, last_updated=7))
    new = add_segment(SEGMENT, RUNS, modification_time_ms=9, data_change=True)
    old = remove("segments/old.parquet", data_change=False)
    commit = decode_commit(encode_commit(INFO, [PROTOCOL, metadata, new, old, *txns]), "key")
    assert (commit.commit_id, commit.protocol, commit.metadata) == ("mine", PROTOCOL, metadata)
    assert (commit.adds, commit.removes, commit.txns) == ((new,), (old,), txns)


def test_an_add_names_its_segment() -> None:
    """Path, size, footer and runs of a segment survive the way through an ``add``, odd characters included."""
    action = add_segment(SEGMENT, RUNS, modification_time_ms=9, data_change=True)
    assert action.path == "segments/a%20b%25.parquet"
    assert action.tags is not None
    segment, runs = decode_segment_tags(
        action.path, action.size, action.tags["tidelog.runs"], action.tags["tidelog.footer"]
    )
    assert (segment, runs) == (SEGMENT, RUNS)
    assert plain_path(remove_segment(SEGMENT, deletion_timestamp_ms=1, data_change=True).path) == SEGMENT.path


def test_statistics_span_all_runs() -> None:
    """The statistics give count, minima and maxima over all runs, in Delta's own notation."""
    action = add_segment(SEGMENT, RUNS, modification_time_ms=9, data_change=True)
    assert action.stats is not None
    assert json.loads(action.stats) == {
        "numRecords": 4,
        "minValues": {"partition": 0, "offset": 0, "timestamp": "1970-01-01T00:00:00.500Z"},
        "maxValues": {"partition": 2, "offset": 7, "timestamp": "1970-01-01T00:00:03.000Z"},
        "nullCount": {"partition": 0, "offset": 0, "timestamp": 0},
    }


def test_the_last_moment_is_written_in_full() -> None:
    """The largest timestamp that a record may have has a name in the statistics."""
    runs = [Run(0, 0, 1, 1, 1, 0, 253_402_300_799_999)]
    stats = add_segment(SEGMENT, runs, modification_time_ms=1, data_change=True).stats
    assert stats is not None
    assert json.loads(stats)["maxValues"]["timestamp"] == "9999-12-31T23:59:59.999Z"
    assert json.loads(stats)["minValues"]["timestamp"] == "1970-01-01T00:00:00.000Z"


@pytest.mark.parametrize(
    "actions",
    [
        [Txn(app_id="0", version=1, last_updated=1), Txn(app_id="0", version=2, last_updated=1)],
        [Txn(app_id="0", version=1)],
        [add("a"), add("a")],
        [add("a", data_change=False), remove("a", data_change=False)],
        [add("a"), remove("b")],
    ],
)
def test_an_illegal_commit_is_never_written(actions: list[Action]) -> None:
    """Actions that reconcile with each other, a ``txn`` without its time, new data beside a removal: refused."""
    with pytest.raises(AssertionError):
        encode_commit(INFO, actions)


def test_compaction_is_legal() -> None:
    """Removing and adding with the same records changes no data, so both may stand in one commit."""
    encode_commit(INFO, [add("a", data_change=False), remove("b", data_change=False)])
    encode_commit(INFO, [add("a", data_change=False), remove("b", data_change=True)])


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b"7",
        b"\xff\xfe",
        b'{"add":7}',
        b"",
        b"\n",
        OWN + b'{"add":{"path":"a"}}',
        OWN + b'{"add":{"path":"a","size":-1,"modificationTime":1,"dataChange":true}}',
        OWN + b'{"txn":{"appId":"0","version":9223372036854775808}}',
        OWN + b'{"txn":{"appId":"0","version":"1"}}',
        OWN + b'{"metaData":{"id":"x"}}',
        b'{"commitInfo":[]}',
        b"PAR1\0\0\0",
        b'{"add":' + b"[" * 100_000,
    ],
)
def test_what_is_no_commit_is_corrupt(data: bytes) -> None:
    """Bytes that are no commit raise ``CorruptData`` that names the object."""
    with pytest.raises(CorruptData) as caught:
        decode_commit(data, "topics/t/_delta_log/1.json")
    assert caught.value.fields["object"] == "topics/t/_delta_log/1.json"


def test_unknown_fields_are_passed_over() -> None:
    """Unknown actions and fields, any ``commitInfo``, blank lines and a missing end of line are no damage."""
    data = (
        b'{"commitInfo":{"engineInfo":"tidelog-x/1","txnId":5,"operationParameters":{"mode":["Append"]},"more":true}}\n\n'
        b'{"domainMetadata":{"domain":"d"}}\n{"txn":{"appId":"spark","version":-1,"more":1}}'
    )
    commit = decode_commit(data, "key")
    assert commit.commit_id is None
    assert commit.txns == (Txn(app_id="spark", version=-1),)
    assert commit.foreign is None


@pytest.mark.parametrize(
    "info", [b"{}", b'{"engineInfo":"delta-rs"}', b'{"engineInfo":7}', b'{"engineInfo":"tidelogger/1"}']
)
def test_of_anothers_commit_only_what_it_touched_is_read(info: bytes) -> None:
    """Also where it has fields that Tidelog would refuse, and where it does not say who wrote it."""
    data = (
        b'{"commitInfo":'
        + info
        + b'}\n{"protocol":{"minReaderVersion":9}}\n{"metaData":{}}\n{"txn":{"appId":"0","version":5}}\n'
        b'{"add":{"path":"a","size":-1}}\n{"remove":{"path":"b","deletionVector":{}}}\n{"remove":{"path":"a"}}'
    )
    commit = decode_commit(data, "key")
    assert (commit.protocol, commit.metadata, commit.adds, commit.removes, commit.txns) == (None, None, (), (), ())
    assert commit.foreign is not None
    assert (commit.foreign.paths, commit.foreign.is_of_table) == (("a", "b"), True)


GOOD_RUNS, GOOD_FOOTER = "[[0,5,8,3,100,1000,3000]]", "[300,12345]"


@pytest.mark.parametrize(
    ("runs", "footer"),
    [
        (None, GOOD_FOOTER),
        (GOOD_RUNS, None),
        ("", GOOD_FOOTER),
        (GOOD_RUNS, "[1]"),
        (GOOD_RUNS, "[-1,2]"),
        ("[[0,5,8]]", GOOD_FOOTER),
        ("[[0,8,5,3,100,1000,3000]]", GOOD_FOOTER),
        ("[[0,5,8,4,100,1000,3000]]", GOOD_FOOTER),
        ("[[-1,5,8,3,100,1000,3000]]", GOOD_FOOTER),
        ("[[0,5,9223372036854775808,3,100,1000,3000]]", GOOD_FOOTER),
        ("[[0,5,8,3,4294967296,1000,3000]]", GOOD_FOOTER),
        ("[[0,5,8,3,100,3000,1000]]", GOOD_FOOTER),
    ],
)
def test_tags_that_are_not_ours_are_corrupt(runs: str | None, footer: str | None) -> None:
    """An ``add`` without good tags was not written by a committer: ``CorruptData`` that names the segment."""
    decode_segment_tags("segments/a.parquet", 400, GOOD_RUNS, GOOD_FOOTER)
    with pytest.raises(CorruptData) as caught:
        decode_segment_tags("segments/a%20b.parquet", 400, runs, footer)
    assert caught.value.fields["segment"] == "segments/a b.parquet"


def test_the_schema_is_sparks() -> None:
    """The columns are those of Spark's Kafka source, all nullable."""
    schema = json.loads(schema_string(RECORD_SCHEMA))
    assert [(field["name"], field["nullable"]) for field in schema["fields"]] == [
        (name, True) for name in ("partition", "offset", "timestamp", "key", "value", "headers")
    ]
    assert [field["type"] for field in schema["fields"]][:5] == ["integer", "long", "timestamp", "binary", "binary"]


@pytest.mark.parametrize(
    "path",
    [
        "../../other/segments/a.parquet",
        "segments/../../../system/cluster.json",
        "%2e%2e/%2E%2E/a.parquet",
        "segments%2F..%2F..%2Fa.parquet",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "s3://other-bucket/a.parquet",
        "file:/etc/passwd",
        "S3A:a",
        "segments//a.parquet",
        "./a.parquet",
        "",
        "segments/",
        "segments/a%00.parquet",
        "segments/a\n.parquet",
        "segments/" + "a" * 256,
        "a/" * 300 + "a",
        "a" * 10_000_000,
    ],
    ids=lambda path: path[:40],
)
def test_a_segment_lies_below_its_table(path: str) -> None:
    """Whatever a commit says, no other object is named: it is corrupt, and the message is short."""
    with pytest.raises(CorruptData) as raised:
        decode_segment_tags(path, 1, "[[0,0,1,1,1,1,1]]", "[1,1]")
    assert raised.value.code == "CORRUPT_SEGMENT"
    assert len(raised.value.fields["segment"]) <= 200
    assert len(raised.value.detail) < 1_000
