"""Loading a topic's state from a checkpoint piece by piece, with little more memory than the state itself.

Statistics, tombstones and other columns that only writers of checkpoints need are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout
from log_format.checkpoints.advanced_checkpoint import OpenedCheckpoint, decode_archive_note
from log_format.checkpoints.memory import decode_memory
from log_format.checkpoints.segments import decode_segment_columns, decode_segments
from log_format.delta.actions import MetaData, Protocol
from log_format.delta.checkpoint_file import CheckpointFile, large_checkpoint_lock
from log_format.delta.checkpoint_schema import (
    SCHEMA,
    as_corrupt,
    check_required,
    conforming,
    refuse_features,
    select_actions,
)
from log_format.errors import CorruptData
from log_format.topic.state import TopicState

_COLUMNS: Final = ("add.path", "add.size", "add.modificationTime", "add.tags")
_FIELDS: Final = (SCHEMA.field("add"),)


def read_checkpoint(data: bytes, topic: str, version: int) -> TopicState:
    """Return the state in a checkpoint. Raises ``CorruptData``."""
    root = layout.topic_root(topic)
    with as_corrupt(root, version, topic=topic):
        file = CheckpointFile(data)
        head = file.head()
        refuse_features(head, layout.table_checkpoint_key(root, version))
        opened = OpenedCheckpoint(version, file, head, decode_archive_note(head, version))
    return state_of(opened, topic)


def state_of(opened: OpenedCheckpoint, topic: str) -> TopicState:
    """Return the topic's state in a checkpoint. Raises ``CorruptData``."""
    with large_checkpoint_lock(opened.file.size_bytes):
        return _state_of(opened, topic)


def _state_of(opened: OpenedCheckpoint, topic: str) -> TopicState:
    version, file, table, archive = opened
    root = layout.topic_root(topic)
    with as_corrupt(root, version, topic=topic):
        memory = decode_memory(table)
        metadata = decode_metadata(table)
        txns = {txn["appId"]: txn["version"] for txn in select_actions(table, "txn").to_pylist()}
        newest_ms = pc.max(pc.struct_field(select_actions(table, "add"), "modificationTime")).as_py() or 0
    if metadata is None:
        raise CorruptData(f"The checkpoint {version} of topic {topic!r} has no metaData.", topic=topic)
    state = TopicState.absent(topic, version)
    for protocol in decode_protocols(table):
        state = state.with_protocol(protocol)
    state = state.with_reconciled(metadata, txns, newest_ms, memory.producers, memory.transactions)
    state = replace(state, archive=archive)
    pieces = iterate_adds(file)
    while True:
        with as_corrupt(root, version, topic=topic):
            adds = next(pieces, None)
        if adds is None:
            return replace(state, segment_count=state.manifest.segment_count())
        if state.exists:
            _take(state, adds)


def decode_protocols(table: pa.Table) -> Iterator[Protocol]:
    """Yield the ``protocol`` in a checkpoint's head."""
    for row in select_actions(table, "protocol").to_pylist():
        yield Protocol(
            min_reader_version=row["minReaderVersion"] or 0,
            min_writer_version=row["minWriterVersion"] or 0,
            writer_features=row["writerFeatures"],
        )


def decode_metadata(table: pa.Table) -> MetaData | None:
    """Return the ``metaData`` in a checkpoint's head; None without one."""
    rows = select_actions(table, "metaData")
    if not len(rows):
        return None
    row: dict[str, Any] = rows[-1].as_py()
    return MetaData(
        id=row["id"],
        name=row["name"],
        schema_string=row["schemaString"],
        configuration=dict(row["configuration"] or ()),
        created_time=row["createdTime"],
    )


def iterate_adds(file: CheckpointFile) -> Iterator[pa.StructArray]:
    """Yield every ``add``, in pieces, without statistics. Raises the same errors as ``CheckpointFile``."""
    for piece in file.pieces(_COLUMNS, with_tombstones=False):
        table = conforming(piece, _FIELDS)
        check_required(table)
        if len(adds := select_actions(table, "add")):
            yield adds


def _take(state: TopicState, adds: pa.StructArray) -> None:
    """Add the segments to the state's manifest. Raises ``CorruptData``."""
    columns = decode_segment_columns(adds)
    if columns is not None:
        segments, runs = columns
        is_beyond = runs.partitions >= state.partition_count
        if not is_beyond.any() and not (runs.ends > state.next_offsets[runs.partitions]).any():
            state.manifest.add_many(segments, runs, state.log_starts)
            return
    for segment, each in decode_segments(adds):
        for run in each:
            if run.partition >= state.partition_count or run.end_offset > state.high_watermark(run.partition):
                raise CorruptData(
                    f"The checkpoint {state.version} of topic {state.topic!r} has a segment beyond its end: {run}.",
                    topic=state.topic,
                    segment=segment.path,
                )
        state.manifest.add(segment, each, state.log_starts)
