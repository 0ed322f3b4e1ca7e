"""What an answer about changes since a version has: files that brought rows, and files whose rows left the table, by version.

As a Delta stream does, a client sees only changes of data: merges and rows that go over into the archive are none. A version's
metadata is told where it changed.

A page (``pages.ChangesPage``) ends before the first file beyond its number. Commits never change, so its token is that file's
place; protocol and metadata at the beginning of each page are those of the first version, as clients compare them.

Source: the protocol, "Read Data from a Table", ``startingVersion``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from gateway.delta_sharing.actions import Capabilities, FileLine, Sign, metadata_line, protocol_line
from gateway.delta_sharing.lines_response import FILES_AT_ONCE, Piece
from gateway.delta_sharing.pages import ChangesPage
from gateway.delta_sharing.snapshot import end_pieces
from log_format import layout, limits
from log_format.checkpoints.table_files import TableFiles
from log_format.delta.actions import Commit, decode_commit
from log_format.errors import CorruptData, ErrorCode, ObjectMissing, RequestRefused
from log_format.store import ObjectStore, read_bounded


def changes(
    store: ObjectStore, files: TableFiles, asked: Capabilities, sign: Sign, page: ChangesPage
) -> Iterator[Piece]:
    """Yield the answer's pieces. ``files``: the table at the first version of the changes.

    Raises ``RequestRefused`` (``VERSION_GONE``) at a version that clean-up has deleted, ``CorruptData``, ``StoreUnavailable``.
    """
    make, ends_ms, left = FileLine(asked.format, sign), None, page.count
    yield Piece([protocol_line(files, asked.format), metadata_line(files.metadata, asked.format, files.version, None)])
    for version in range(page.version, page.end + 1):
        commit = _read(store, files.topic, version)
        skipped = page.skipped if version == page.version else 0
        lines: list[dict[str, Any]] = []
        if version > files.version and not skipped and commit.metadata is not None:
            lines.append(_changed_metadata(commit.metadata, files, asked, version))
        file_bytes = file_count = 0
        for index, (kind, row) in enumerate(_data_changes(commit)):
            if index < skipped:
                continue
            if left == 0:
                yield Piece(lines if file_count else [], file_bytes, file_count)
                yield from end_pieces(asked, ends_ms, page.token(version, index))
                return
            line = make.of(row, kind, version, commit.timestamp)
            at_ms = next(iter(line.values()))["expirationTimestamp"]
            ends_ms = min(ends_ms or at_ms, at_ms)
            lines.append(line)
            file_bytes += row["size"] or 0
            file_count += 1
            left = None if left is None else left - 1
            if file_count >= FILES_AT_ONCE:
                yield Piece(lines, file_bytes, file_count)
                lines, file_bytes, file_count = [], 0, 0
        yield Piece(lines, file_bytes, file_count)
    yield from end_pieces(asked, ends_ms)


def _changed_metadata(metadata: Any, files: TableFiles, asked: Capabilities, version: int) -> dict[str, Any]:
    if metadata.id != files.metadata["id"]:
        raise CorruptData(f"Topic {files.topic!r} was made anew in version {version}.", topic=files.topic)
    described = msgspec.to_builtins(metadata)
    described["configuration"] = list(metadata.configuration.items())
    return metadata_line(described, asked.format, version, None)


def _data_changes(commit: Commit) -> Iterator[tuple[Literal["add", "remove"], dict[str, Any]]]:
    for add in commit.adds:
        if add.data_change:
            yield "add", _row(add)
    for remove in commit.removes:
        if remove.data_change:
            yield "remove", {"size": None, "partitionValues": None} | _row(remove)


def _row(action: Any) -> dict[str, Any]:
    row: dict[str, Any] = msgspec.to_builtins(action)
    return row | {"partitionValues": list((row.get("partitionValues") or {}).items())}


def _read(store: ObjectStore, topic: str, version: int) -> Commit:
    key = layout.commit_key(topic, version)
    try:
        return decode_commit(read_bounded(store, key, limits.COMMIT_BYTES_MAX), key)
    except ObjectMissing as problem:
        raise RequestRefused(
            f"The log of topic {topic!r} no longer has version {version}: begin anew with its newest version.",
            code=ErrorCode.VERSION_GONE,
            topic=topic,
        ) from problem
