"""Summary of one commit, for people: when and by which program, how many records and files. Nothing else is decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from log_format.delta.actions import TAG_ARCHIVE
from log_format.errors import DECODE_ERRORS


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """The summary of one commit. ``record_count``: new records, not counting records moved by a rewrite. None: not in
    the commit."""

    at_ms: int | None = None
    operation: str | None = None
    by: str | None = None
    """Program and release, such as ``tidelog-gateway/1.0``."""
    record_count: int = 0
    marked_count: int | None = None
    """Number of new records with a ``data_error``; None if the commit adds no records to a table with that column."""
    added_count: int = 0
    added_bytes: int = 0
    removed_count: int = 0
    table_id: str | None = None
    """Id of the table, if the commit creates or alters the table."""


class _Info(msgspec.Struct, rename="camel"):
    timestamp: Any = None
    operation: Any = None
    engine_info: Any = None


class _Add(msgspec.Struct, rename="camel"):
    size: int = 0
    data_change: bool = False
    stats: str | None = None
    tags: dict[str, Any] | None = None


class _NullCount(msgspec.Struct):
    data_error: int | None = None


class _Stats(msgspec.Struct, rename="camel"):
    num_records: int = 0
    null_count: _NullCount = msgspec.field(default_factory=_NullCount)

    @property
    def marked_count(self) -> int | None:
        """Number of records with a ``data_error``; None without statistics of that column."""
        return None if self.null_count.data_error is None else self.num_records - self.null_count.data_error


class _Table(msgspec.Struct):
    id: str = ""


class _Line(msgspec.Struct, rename="camel"):
    commit_info: _Info | None = None
    add: _Add | None = None
    remove: dict[str, Any] | None = None
    meta_data: _Table | None = None


_DECODER = msgspec.json.Decoder(_Line)
_decode_stats = msgspec.json.Decoder(_Stats).decode


def summarize_commit(commit: bytes) -> CommitSummary:
    """Summarize a commit's bytes. Lines that are no Delta actions are ignored, so this is no check of the commit."""
    info, adds, removed_count, table_id = _Info(), list[_Add](), 0, None
    for text in commit.split(b"\n"):
        try:
            line = _DECODER.decode(text)
        except DECODE_ERRORS:
            continue
        info = line.commit_info or info
        # A segment that is archived is in the table already.
        adds += [] if line.add is None or TAG_ARCHIVE in (line.add.tags or {}) else [line.add]
        removed_count += line.remove is not None
        table_id = line.meta_data.id if line.meta_data is not None else table_id
    new = [_stats(add) for add in adds if add.data_change]
    marked = [one.marked_count for one in new if one.marked_count is not None]
    return CommitSummary(
        at_ms=info.timestamp if isinstance(info.timestamp, int) else None,
        operation=info.operation if isinstance(info.operation, str) else None,
        by=info.engine_info if isinstance(info.engine_info, str) else None,
        record_count=sum(one.num_records for one in new),
        marked_count=sum(marked) if marked else None,
        added_count=len(adds),
        added_bytes=sum(add.size for add in adds),
        removed_count=removed_count,
        table_id=table_id,
    )


def _stats(add: _Add) -> _Stats:
    try:
        return _decode_stats((add.stats or "{}").encode())
    except DECODE_ERRORS:
        return _Stats()
