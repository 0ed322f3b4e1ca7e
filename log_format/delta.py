"""Delta actions and the bytes of one commit.

A commit is newline-delimited JSON, one action a line, ``commitInfo`` first (Delta protocol, "Actions"). Only what a topic
needs is here: ``protocol``, ``metaData``, ``add``, ``remove``, ``txn``, ``commitInfo``; other actions and unknown fields in what
is read are ignored, as the protocol asks. Tidelog's own facts travel in ``add.tags``, which readers ignore and checkpoints keep:

``tidelog.runs``    JSON ``[[partition, base offset, end offset, records, bytes, min timestamp ms, max timestamp ms], …]``
``tidelog.footer``  JSON ``[position of the Parquet footer, its CRC-32]``
``tidelog.rewritten``  JSON ``[times merged, ms at which its keys were compacted or null, tombstones left then]``, if rewritten
``tidelog.producers``  JSON ``[[producer id, epoch, sequence, [[partition, base offset, records], …]], …]``, where there are any

Invariants of a commit that is written: never two ``txn`` with one appId; never two actions for one path; ``txn.lastUpdated`` is
set; never an ``add`` with ``dataChange`` beside a ``remove`` with ``dataChange`` (a Delta stream would stop or skip).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from log_format.errors import CorruptData
from log_format.producers import StampedBatch, decode_stamps, encode_stamps
from log_format.run import Run, SegmentRef
from log_format.segment_path import segment_path
from log_format.table_features import refusal, refuse_metadata, refuse_protocol

TAG_RUNS: Final = "tidelog.runs"
TAG_FOOTER: Final = "tidelog.footer"
TAG_PRODUCERS: Final = "tidelog.producers"
TAG_REWRITTEN: Final = "tidelog.rewritten"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PATH_SAFE: Final = "/-_.~"


Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What Delta calls a long."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_RunBytes = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class Protocol(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which features a reader and a writer must have: 1 and 2, the ones that everybody has."""

    min_reader_version: int = 1
    min_writer_version: int = 2


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """The data files' format."""

    provider: str = "parquet"
    options: dict[str, str] = msgspec.field(default_factory=dict)


class MetaData(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The table: its id (the topic's incarnation), name, schema and properties."""

    id: str
    name: str | None = None
    description: str | None = None
    format: Format = msgspec.field(default_factory=Format)
    schema_string: str
    partition_columns: list[str] = msgspec.field(default_factory=list)
    configuration: dict[str, str] = msgspec.field(default_factory=dict)
    created_time: Long | None = None


class Add(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A data file joins the table. ``path`` is relative and URI-encoded; ``stats`` is JSON in a string."""

    path: str
    partition_values: dict[str, str | None] = msgspec.field(default_factory=dict)
    size: _Count
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: dict[str, str | None] | None = None


class Remove(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A data file leaves the table; its object stays until nobody can need it."""

    path: str
    deletion_timestamp: Long | None = None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: dict[str, str | None] | None = None
    size: Long | None = None


class Txn(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An application's own version number; the newest per ``app_id`` counts."""

    app_id: str
    version: Long
    last_updated: Long | None = None


class CommitInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who committed what, and the id by which a committer knows its own commit again (``txnId``)."""

    timestamp: int | None = None
    operation: str | None = None
    operation_parameters: dict[str, str] | None = None
    engine_info: str | None = None
    txn_id: str | None = None


Action = Protocol | MetaData | Add | Remove | Txn


class Rewritten(NamedTuple):
    """How often a segment's records were merged; when (ms since the epoch) their keys were compacted, and the tombstones left."""

    times: _Count
    keys_compacted_at_ms: _Count | None = None
    tombstone_count: _Count = 0


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The actions of one commit, by kind, in the order in which they were written."""

    commit_id: str | None
    protocol: Protocol | None
    metadata: MetaData | None
    adds: tuple[Add, ...]
    removes: tuple[Remove, ...]
    txns: tuple[Txn, ...]


class _SeenInfo(msgspec.Struct, kw_only=True, rename="camel"):
    """``commitInfo`` as it may come: the protocol leaves its content to whoever writes it."""

    txn_id: Any = None


class _SeenProtocol(Protocol, frozen=True, kw_only=True, rename="camel"):
    """``protocol`` as it may come."""

    reader_features: list[str] | None = None
    writer_features: list[str] | None = None


class _Line(msgspec.Struct, kw_only=True, rename="camel"):
    commit_info: _SeenInfo | None = None
    protocol: _SeenProtocol | None = None
    meta_data: MetaData | None = None
    add: Add | None = None
    remove: Remove | None = None
    txn: Txn | None = None


class _SeenFile(msgspec.Struct, kw_only=True, rename="camel"):
    deletion_vector: Any = None


class _FilesLine(msgspec.Struct, kw_only=True):
    add: _SeenFile | None = None
    remove: _SeenFile | None = None


_DECODER: Final = msgspec.json.Decoder(_Line)
_FILES_DECODER: Final = msgspec.json.Decoder(_FilesLine)
_ENCODER: Final = msgspec.json.Encoder()


def encode_commit(info: CommitInfo, actions: Sequence[Action]) -> bytes:
    """One commit's bytes; ``info`` is the first line. Refuses (``AssertionError``) what would not be a legal commit."""
    _check(actions)
    return b"".join(_ENCODER.encode(line) + b"\n" for line in [{"commitInfo": info}, *map(_line, actions)])


def decode_commit(data: bytes, key: str) -> Commit:
    """What a commit's bytes say; ``key`` names the object in errors.

    Raises ``CorruptData``, and of that ``UnsupportedTable`` where it has what no table of Tidelog has; nothing else.
    """
    try:
        lines = [_DECODER.decode(line) for line in data.split(b"\n") if line.strip()]
        _refuse_features(data, lines, key)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise CorruptData(f"{key} is not a Delta commit: {problem}.", object=key) from problem
    commit_id = next((line.commit_info.txn_id for line in lines if line.commit_info is not None), None)
    protocol = next((line.protocol for line in lines if line.protocol is not None), None)
    return Commit(
        commit_id=commit_id if isinstance(commit_id, str) else None,
        protocol=None if protocol is None else _plain(protocol),
        metadata=next((line.meta_data for line in lines if line.meta_data is not None), None),
        adds=tuple(line.add for line in lines if line.add is not None),
        removes=tuple(line.remove for line in lines if line.remove is not None),
        txns=tuple(line.txn for line in lines if line.txn is not None),
    )


def add_segment(
    segment: SegmentRef,
    runs: Sequence[Run],
    *,
    modification_time_ms: int,
    data_change: bool,
    stamped: Sequence[StampedBatch] = (),
    rewritten: Rewritten | None = None,
) -> Add:
    """The ``add`` of a segment, with its statistics and tags; ``stamped``: the idempotent requests that it brings."""
    return Add(
        path=quote(segment.path, safe=_PATH_SAFE),
        size=segment.size_bytes,
        modification_time=modification_time_ms,
        data_change=data_change,
        stats=statistics(runs),
        tags={
            TAG_RUNS: _ENCODER.encode(
                [
                    (
                        run.partition,
                        run.base_offset,
                        run.end_offset,
                        run.record_count,
                        run.size_bytes,
                        run.min_timestamp_ms,
                        run.max_timestamp_ms,
                    )
                    for run in runs
                ]
            ).decode(),
            TAG_FOOTER: f"[{segment.footer_start},{segment.footer_crc32}]",
            **({TAG_PRODUCERS: encode_stamps(stamped)} if stamped else {}),
            **({TAG_REWRITTEN: _ENCODER.encode(rewritten).decode()} if rewritten is not None else {}),
        },
    )


def remove_segment(segment: SegmentRef, *, deletion_timestamp_ms: int, data_change: bool) -> Remove:
    """The ``remove`` of a segment."""
    return Remove(
        path=quote(segment.path, safe=_PATH_SAFE),
        deletion_timestamp=deletion_timestamp_ms,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values={},
        size=segment.size_bytes,
    )


_RunTuple = tuple[_Count, _Count, _Count, _Count, _RunBytes, _Count, _Count]
_RUNS_DECODER: Final = msgspec.json.Decoder(list[_RunTuple])
_FOOTER_DECODER: Final = msgspec.json.Decoder(tuple[_Count, _Count])


def segment_of_add(
    path: str, size_bytes: int, tag_runs: str | None, tag_footer: str | None
) -> tuple[SegmentRef, list[Run]]:
    """The segment and runs that an ``add`` names. Raises ``CorruptData`` where its tags are not ours."""
    plain = segment_path(path)
    try:
        if tag_runs is None or tag_footer is None:
            raise ValueError("it has no tidelog tags, so it was not written by Tidelog")
        footer_start, footer_crc32 = _FOOTER_DECODER.decode(tag_footer)
        runs = [Run(*values) for values in _RUNS_DECODER.decode(tag_runs)]
    except (ValueError, msgspec.DecodeError) as problem:
        raise CorruptData(f"The log's entry for segment {plain} can't be used: {problem}.", segment=plain) from problem
    return SegmentRef(plain, size_bytes, footer_start, footer_crc32), runs


def rewritten_of_add(path: str, tag: str | None) -> Rewritten:
    """What the tag of an ``add`` says; without one its records are as they were flushed. Raises ``CorruptData``."""
    try:
        return Rewritten(0) if tag is None else msgspec.json.decode(tag, type=Rewritten)
    except msgspec.DecodeError as problem:
        plain = unquote(path)
        raise CorruptData(f"The log's entry for segment {plain} can't be used: {problem}.", segment=plain) from problem


def stamped_batches(path: str, tags: Mapping[str, str | None]) -> list[StampedBatch]:
    """The idempotent requests that an ``add`` with these tags brings. Raises ``CorruptData``."""
    tag = tags.get(TAG_PRODUCERS)
    try:
        return [] if tag is None else decode_stamps(tag)
    except ValueError as problem:
        plain = unquote(path)
        raise CorruptData(f"The log's entry for segment {plain} can't be used: {problem}.", segment=plain) from problem


def plain_path(path: str) -> str:
    """An ``add.path`` or ``remove.path`` without its URI encoding."""
    return unquote(path)


def _plain(protocol: Protocol) -> Protocol:
    return Protocol(min_reader_version=protocol.min_reader_version, min_writer_version=protocol.min_writer_version)


def _refuse_features(data: bytes, lines: Sequence[_Line], key: str) -> None:
    for line in lines:
        if (protocol := line.protocol) is not None:
            features = [*(protocol.reader_features or ()), *(protocol.writer_features or ())]
            refuse_protocol(key, protocol.min_reader_version, protocol.min_writer_version, features)
        if line.meta_data is not None:
            refuse_metadata(key, line.meta_data.partition_columns, line.meta_data.configuration)
    if b"deletionVector" in data:  # rare: so it costs nothing to look twice
        for text in data.split(b"\n"):
            files = _FILES_DECODER.decode(text) if text.strip() else _FilesLine()
            if any(file is not None and file.deletion_vector is not None for file in (files.add, files.remove)):
                raise refusal(key, "deletion vectors")


def _line(action: Action) -> dict[str, Action]:
    match action:
        case Protocol():
            return {"protocol": action}
        case MetaData():
            return {"metaData": action}
        case Add():
            return {"add": action}
        case Remove():
            return {"remove": action}
        case Txn():
            return {"txn": action}


def _check(actions: Sequence[Action]) -> None:
    app_ids = [action.app_id for action in actions if isinstance(action, Txn)]
    paths = [action.path for action in actions if isinstance(action, Add | Remove)]
    assert len(set(app_ids)) == len(app_ids), "two txn with one appId in a commit"
    assert len(set(paths)) == len(paths), "two actions for one path in a commit"
    assert all(action.last_updated is not None for action in actions if isinstance(action, Txn))
    added = any(isinstance(action, Add) and action.data_change for action in actions)
    removed = any(isinstance(action, Remove) and action.data_change for action in actions)
    assert not (added and removed), "new data beside a removal that a stream must see"


def statistics(runs: Sequence[Run]) -> str:
    """The ``stats`` of an ``add`` with these runs."""
    minimum = {
        "partition": min(run.partition for run in runs),
        "offset": min(run.base_offset for run in runs),
        "timestamp": _iso(min(run.min_timestamp_ms for run in runs)),
    }
    maximum = {
        "partition": max(run.partition for run in runs),
        "offset": max(run.end_offset for run in runs) - 1,
        "timestamp": _iso(max(run.max_timestamp_ms for run in runs)),
    }
    return _ENCODER.encode(
        {
            "numRecords": sum(run.record_count for run in runs),
            "minValues": minimum,
            "maxValues": maximum,
            "nullCount": {"partition": 0, "offset": 0, "timestamp": 0},
        }
    ).decode()


def _iso(timestamp_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    return (
        f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z" if moment.year >= 1000 else moment.isoformat()
    )


def schema_string() -> str:
    """The table's schema as Delta writes it: the columns of Spark's own Kafka source."""
    binary_nullable = {"type": "binary", "nullable": True, "metadata": {}}
    header = {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", **binary_nullable},
        ],
    }
    fields: Iterable[dict[str, object]] = [
        {"name": "partition", "type": "integer", "nullable": True, "metadata": {}},
        {"name": "offset", "type": "long", "nullable": True, "metadata": {}},
        {"name": "timestamp", "type": "timestamp", "nullable": True, "metadata": {}},
        {"name": "key", **binary_nullable},
        {"name": "value", **binary_nullable},
        {
            "name": "headers",
            "type": {"type": "array", "elementType": header, "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ]
    return _ENCODER.encode({"type": "struct", "fields": list(fields)}).decode()
