"""What an answer about a version of a table has: its files, as far as the client's hints don't leave them out.

``limitHint`` counts the records of files. It is ignored beside predicates: which of a file's rows they leave is not known here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.delta_sharing.actions import Capabilities, FileLine, Sign, metadata_line, protocol_line
from gateway.delta_sharing.lines_response import FILES_AT_ONCE, Piece
from gateway.delta_sharing.pages import FilesPage
from gateway.delta_sharing.predicates import predicate_of
from log_format.checkpoints.table_files import TableFiles
from log_format.records.data_skipping import Predicate, columns_by_name, may_match


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What a client says of the rows that it wants."""

    limit: int | None = None
    json_predicate: str | None = None
    sql_predicates: tuple[str, ...] = ()

    def predicate(self, metadata: Mapping[str, Any]) -> Predicate | None:
        """Return the predicate for a table with this metadata; None without any."""
        if self.json_predicate is None and not self.sql_predicates:
            return None
        columns = columns_by_name(metadata["schemaString"], metadata["partitionColumns"] or ())
        return predicate_of(self.json_predicate, self.sql_predicates, columns)


def head_lines(files: TableFiles, asked: Capabilities) -> list[dict[str, Any]]:
    """Return the lines about protocol and metadata, with which each answer begins."""
    return [
        protocol_line(files, asked.format),
        metadata_line(files.metadata, asked.format, files.version, files),
    ]


def snapshot(
    files: TableFiles,
    asked: Capabilities,
    sign: Sign,
    hints: Hints,
    named_at_ms: int | None,
    *,
    find_page: Callable[[], FilesPage] | None = None,
) -> Iterator[Piece]:
    """Yield the answer's pieces.

    Args:
        files: the table.
        asked: what the client wants of the answer's form.
        sign: makes the files' URLs.
        hints: what it wants of the rows.
        named_at_ms: the version's time, if the client named a version or a time; the lines of its files have it then.
        find_page: reads the log for the page that it wants; None: it wants all files.

    Raises ``CorruptData``, ``StoreUnavailable``.
    """
    predicate, make = hints.predicate(files.metadata), FileLine(asked.format, sign)
    version = None if named_at_ms is None else files.version
    has_hints = hints.json_predicate is not None or bool(hints.sql_predicates)
    left = None if has_hints else hints.limit
    ends_ms: int | None = None
    yield Piece(head_lines(files, asked))
    page = None if find_page is None else find_page()
    for adds in files.adds() if page is None else map(page.of, files.adds()):
        for start in range(0, len(adds), FILES_AT_ONCE):
            lines, file_bytes = [], 0
            for row in adds.slice(start, FILES_AT_ONCE).to_pylist():
                if left is not None and left <= 0:
                    break
                partition_values = dict(row["partitionValues"] or ())
                if predicate is not None and not may_match(predicate, row["stats"], partition_values):
                    continue
                left = None if left is None else left - _record_count(row["stats"])
                line = make.of(row, "file", version, named_at_ms)
                ends_ms = min(ends_ms or line["file"]["expirationTimestamp"], line["file"]["expirationTimestamp"])
                lines.append(line)
                file_bytes += row["size"]
            yield Piece(lines, file_bytes, len(lines))
        if left is not None and left <= 0:
            break
    is_enough = left is not None and left <= 0
    yield from end_pieces(asked, ends_ms, None if page is None or is_enough else page.next_token)


def end_pieces(asked: Capabilities, ends_ms: int | None, next_token: str | None = None) -> Iterator[Piece]:
    """Yield the last piece of an answer, if the client waits for one or there is a further page.

    ``ends_ms``: when the first of the URLs ends; ``next_token``: of that page.
    """
    if asked.wants_end or next_token is not None:
        said = {"minUrlExpirationTimestamp": ends_ms, "nextPageToken": next_token}
        yield Piece([{"endStreamAction": {name: value for name, value in said.items() if value is not None}}])


def _record_count(stats: str | None) -> int:
    count = json.loads(stats).get("numRecords") if stats else None
    return count if isinstance(count, int) else 0
