"""CSV files (RFC 4180) as rows. The first line of each file names the columns; fields are text, taken literally."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator

import msgspec

from log_format.limits import REQUEST_BYTES_MAX
from tidelog.cli.sources.lines import STANDARD_STREAM, Lines, Place
from tidelog.cli.sources.rows import Fields, Row, Rows, RowsBuilder, as_bytes, require_arrow
from tidelog.cli.terminal.console import CommandFailed


def read_csv(groups: Iterable[Lines], fields: Fields, *, delimiter: str) -> Iterator[Rows]:
    """Yield the rows, in batches as they are read. A row's value is a JSON object of text.

    Raises ``CommandFailed`` for a row with more or fewer fields than names, for bytes that are no UTF-8, and for unclosed
    quotes, after yielding the rows before it.
    """
    require_arrow("--format csv")
    csv.field_size_limit(REQUEST_BYTES_MAX)
    feed = _Feed(groups)
    while feed.next_file():
        yield from _file(feed, fields, delimiter)


def _file(feed: _Feed, fields: Fields, delimiter: str) -> Iterator[Rows]:
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    builder = RowsBuilder(feed.place(1).path, "line")
    names: list[str] | None = None
    wrong: CommandFailed | None = None
    number = 1
    try:
        for row in reader:
            if names is None:
                names = _header(row, fields)
            elif row:
                builder.add(number, *_row(names, row, fields))
                if builder.full or feed.drained:
                    yield builder.take()
            number = reader.line_num + 1
    except (csv.Error, ValueError) as error:
        wrong = CommandFailed(f"{feed.place(number)}: {error}")
    if len(builder):
        yield builder.take()
    if wrong is not None:
        raise wrong


def _header(row: list[str], fields: Fields) -> list[str]:
    if len(set(row)) < len(row):
        raise ValueError("a column's name occurs twice")
    for name in fields.named():
        if name not in row:
            raise ValueError(f"there is no column {name!r}; the first line has {', '.join(row)}")
    return row


def _row(names: list[str], row: list[str], fields: Fields) -> Row:
    if len(row) != len(names):
        raise ValueError(f"it has {len(row)} fields, and the first line has {len(names)}")
    found = dict(zip(names, row, strict=True))
    value = msgspec.json.encode(found) if fields.value is None else as_bytes(found[fields.value])
    key = None if fields.key is None else as_bytes(found[fields.key])
    timestamp = found[fields.timestamp] if fields.timestamp is not None else None
    return value, key, fields.times.of(timestamp or None)


class _Feed:
    """Lines of one file at a time in the form of ``csv.reader``: text with line breaks."""

    def __init__(self, groups: Iterable[Lines]) -> None:
        self._groups = iter(groups)
        self._group: Lines | None = None
        self._index = 0
        self._path = STANDARD_STREAM
        self._advance()

    @property
    def drained(self) -> bool:
        """Whether the next line has yet to be read."""
        return self._group is None or self._index >= len(self._group.lines)

    def place(self, number: int) -> Place:
        """Return the place of a line in the current file."""
        return Place(path=self._path, number=number)

    def next_file(self) -> bool:
        """Advance to the next file; return False if there is none."""
        if self._group is None:
            return False
        self._path = self._group.path
        return True

    def __iter__(self) -> Iterator[str]:
        """Yield lines up to the end of the file. Raises ``UnicodeDecodeError``, which is a ``ValueError``."""
        while self._group is not None and self._group.path == self._path:
            while self._index < len(self._group.lines):
                number = self._group.first + self._index
                line = self._group.lines[self._index]
                self._index += 1
                text = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                yield text.decode() + "\n"
            self._advance()

    def _advance(self) -> None:
        self._group, self._index = next(self._groups, None), 0
