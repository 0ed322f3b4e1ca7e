"""The plan of which archived files leave a topic's table, by ``table.retention.ms`` and ``table.retention.bytes``. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.checkpoints.segments import decode_segment_columns, decode_segments
from log_format.delta.checkpoint_schema import select_actions
from log_format.topic.archiving import ArchivedFile
from log_format.topic.config import TableRetention


def expired_files(
    pieces: Iterable[pa.Table], retention: TableRetention, *, log_bytes: int, now_ms: int
) -> list[ArchivedFile]:
    """Return the archived files that leave the table, oldest first.

    Args:
        pieces: rows of the archive (``checkpoint_schema.SCHEMA``).
        retention: how long rows stay. A file leaves once all its timestamps are too old, or once the table has enough bytes
            without it. Without any the whole archive leaves.
        log_bytes: bytes of the table's segments that are in the log.
        now_ms: present time, in ms since the epoch.

    Raises ``CorruptData``. Memory: some 100 bytes a file.
    """
    paths, sizes, times, newest = [], [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for piece in pieces:
        adds = select_actions(piece, "add")
        paths.append(pc.struct_field(adds, "path"))
        sizes.append(pc.struct_field(adds, "size").to_numpy())
        times.append(pc.struct_field(adds, "modificationTime").to_numpy())
        newest.append(newest_timestamps(adds))
    size_bytes, modified_ms, newest_ms = (np.concatenate(each) for each in (sizes, times, newest))
    order = np.argsort(modified_ms, kind="stable")
    leaves = np.full(len(order), not retention.keeps_archive)
    if retention.retention_ms is not None and retention.retention_ms >= 0:
        leaves |= newest_ms[order] < now_ms - retention.retention_ms
    if retention.retention_bytes is not None and retention.retention_bytes >= 0:
        remaining = log_bytes + int(size_bytes.sum()) - np.cumsum(size_bytes[order])
        leaves |= remaining >= retention.retention_bytes
    chosen = order[leaves]
    named = pa.chunked_array(paths, pa.string()).take(pa.array(chosen)).to_pylist()
    return [ArchivedFile(path, int(size)) for path, size in zip(named, size_bytes[chosen], strict=True)]


def newest_timestamps(adds: pa.StructArray) -> npt.NDArray[np.int64]:
    """Return the largest timestamp in ms of each segment's runs."""
    newest = np.zeros(len(adds), np.int64)
    columns = decode_segment_columns(adds) if len(adds) else None
    if columns is not None:
        np.maximum.at(newest, columns[1].segments, columns[1].max_timestamps)
        return newest
    for index, (_, runs) in enumerate(decode_segments(adds)):
        newest[index] = max(run.max_timestamp_ms for run in runs)
    return newest
