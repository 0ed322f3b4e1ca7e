"""Reading the rows of a topic's files from its log: of the archive in pieces, and single ones as the actions that named them.
And reading the files themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout
from log_format.checkpoints.checkpoint import with_log_at
from log_format.delta.actions import Add
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.checkpoint_schema import add_of, select_actions
from log_format.errors import log_outran_reader
from log_format.segments.laid_out import scan_laid_out
from log_format.segments.scan import scan_segment
from log_format.store import ObjectStore
from log_format.topic.live_segments import LiveSegment
from log_format.topic.state import TopicState

ResultT = TypeVar("ResultT")
_FILES: Final = pa.schema([("path", pa.string()), ("size", pa.int64())])


def read_archive(
    store: ObjectStore, topic: str, version: int, now_ms: int, take: Callable[[Iterator[pa.Table]], ResultT]
) -> ResultT | None:
    """Return what ``take`` makes of the archive's rows (``SCHEMA``) at ``version``; None if a checkpoint of a later one exists.

    ``take`` is called again if a checkpoint turns out to be damaged. Raises ``StoreUnavailable``, ``CorruptData``.
    """
    root = layout.topic_root(topic)
    hint = read_hinted_version(store, root)
    return with_log_at(lambda found: take(found.archived()), store, root, version, now_ms, hint=hint)


def archived_files(store: ObjectStore, state: TopicState, now_ms: int) -> pa.Table:
    """Return path (as in its ``add``) and size of every file of the archive at ``state``, which must be near the head.

    Raises ``BackOff`` if a checkpoint of a later version exists, and the errors of ``read_archive``.
    """

    def take(pieces: Iterator[pa.Table]) -> pa.Table:
        found = [_FILES.empty_table()]
        for piece in pieces:
            adds = select_actions(piece, "add")
            found.append(pa.table([pc.struct_field(adds, name) for name in _FILES.names], schema=_FILES))
        return pa.concat_tables(found)

    if not state.archive.segment_count:
        return _FILES.empty_table()
    files = read_archive(store, state.topic, state.version, now_ms, take)
    if files is None:
        raise log_outran_reader(state.topic)
    return files


def named_adds(pieces: Iterable[pa.Table], paths: Collection[str]) -> dict[str, Add]:
    """Return the ``add`` of each of these paths, as the log names them, that is in the rows (``SCHEMA``)."""
    wanted = pa.array(sorted(paths), pa.string())
    found = {}
    for piece in pieces:
        adds = select_actions(piece, "add")
        for row in adds.filter(pc.is_in(pc.struct_field(adds, "path"), wanted)).to_pylist():
            found[row["path"]] = add_of(row)
    return found


def scan_file(
    store: ObjectStore, topic: str, file: LiveSegment, *, row_groups: Sequence[int] | None = None
) -> Iterator[pa.Table]:
    """Yield the records of a file of log or archive in pieces of bounded size: ``RECORD_SCHEMA``, and the file's typed columns.

    ``row_groups``: as for ``scan_segment``. Raises ``CorruptData`` (also if the file is
    missing), ``StoreUnavailable``.
    """
    if file.layout is not None:
        return scan_laid_out(store, topic, file.segment, row_groups=row_groups)
    return scan_segment(store, topic, file.segment, row_groups=row_groups)
