"""``application/x-ndjson``: one record a line; blank lines are ignored.

The body is parsed in pieces of whole lines, which bounds the number of the parser's objects whatever the body's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from gateway.codec import json_batch
from gateway.codec.incoming import IncomingRecords, LocationKind, RecordLocations
from gateway.codec.json_record import ReadRecords
from gateway.codec.json_text import (
    error_position,
    error_reason,
    line_and_column,
    member_position,
    without_lone_surrogates,
)
from gateway.codec.record_columns import RecordColumns, incoming
from gateway.codec.refusal import BadRecords

PIECE_BYTES: Final = 1024 * 1024
_BLANK: Final = b" \t\r"
_LINE_FEED, _CARRIAGE_RETURN, _OPENING, _CLOSING = b"\n\r{}"


def decode_ndjson(body: bytes) -> IncomingRecords:
    """Decode the records of an NDJSON body; errors name records by their lines, ``line 1`` being the first of the body.

    Lines end in ``\\n`` or ``\\r\\n``; the last one need not. Raises ``RequestRefused``: 400 ``INVALID_RECORD``, also for a line
    that is not JSON or not UTF-8, with the column.
    """
    bad = BadRecords()
    pieces: list[RecordColumns] = []
    lines: list[npt.NDArray[np.int64]] = []
    first_line = 1
    for piece in _pieces(body):
        count = piece.count(b"\n") + (not piece.endswith(b"\n"))
        text, indices = _without_blank_lines(piece, count)
        numbers = first_line + indices
        columns = json_batch.decode_lines(text) if _is_regular(text) else None
        if columns is None or len(columns) != len(numbers):
            columns, numbers = _line_by_line(piece, first_line, bad)
        pieces.append(columns)
        lines.append(numbers)
        first_line += count
        if bad.full:
            break
    bad.refuse()
    return incoming(pieces, RecordLocations(LocationKind.LINE, np.concatenate(lines) if lines else None))


def _pieces(body: bytes) -> Iterator[bytes]:
    if len(body) <= PIECE_BYTES:
        if body:
            yield body
        return
    start = 0
    while start < len(body):
        end = body.find(b"\n", start + PIECE_BYTES) + 1 or len(body)
        yield body[start:end]
        start = end


def _without_blank_lines(piece: bytes, count: int) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Return the text without its blank lines, and the indices of the other lines among the ``count``."""
    if not (piece.startswith((b"\n", b"\r")) or b"\n\n" in piece or b"\n\r" in piece):
        return piece, np.arange(count, dtype=np.int64)
    characters = np.frombuffer(piece, dtype=np.uint8)
    ends = np.append(np.flatnonzero(characters == _LINE_FEED), len(piece))[:count]
    starts = np.append(0, ends[:-1] + 1)
    lengths = ends - starts
    has_only_return = (lengths == 1) & (characters[np.minimum(starts, len(piece) - 1)] == _CARRIAGE_RETURN)
    is_blank = (lengths == 0) | has_only_return
    is_kept = np.ones(len(piece) + 1, np.bool_)
    is_kept[ends[is_blank]] = False
    is_kept[starts[has_only_return]] = False
    return characters[is_kept[:-1]].tobytes(), np.flatnonzero(~is_blank)


def _is_regular(piece: bytes) -> bool:
    """Return whether each line begins with ``{`` and ends with ``}``.

    If so, each line break is between two values: inside a value ``}`` and ``{`` never meet without a comma. So if there are as
    many values as lines, each line has one.
    """
    end = piece[-3:].removesuffix(b"\n").removesuffix(b"\r")
    if piece[:1] != b"{" or not end.endswith(b"}"):
        return False
    if piece.find(b"\n", 0, -1) < 0:
        return True
    characters = np.frombuffer(piece, dtype=np.uint8)
    breaks = np.flatnonzero(characters[:-1] == _LINE_FEED)
    before = characters[breaks - 1]
    if (before == _CARRIAGE_RETURN).any():
        before = np.where(before == _CARRIAGE_RETURN, characters[breaks - 2], before)
    return bool((before == _CLOSING).all() and (characters[breaks + 1] == _OPENING).all())


def _line_by_line(piece: bytes, first_line: int, bad: BadRecords) -> tuple[RecordColumns, npt.NDArray[np.int64]]:
    read = ReadRecords()
    numbers: list[int] = []
    for number, line in enumerate(piece.removesuffix(b"\n").split(b"\n"), first_line):
        if not line.strip(_BLANK):
            continue
        numbers.append(number)
        _read_line(line, number, read, bad)
        if bad.full:
            break
    return read.columns(), np.array(numbers, dtype=np.int64)


def _read_line(line: bytes, number: int, read: ReadRecords, bad: BadRecords) -> None:
    where = f"line {number}"

    def note(member: str, what: str) -> None:
        name = member.partition("/")[0]
        _, column = line_and_column(line, member_position(text, name) if name else start)
        bad.add(where, f"column {column}: {member} {what}" if member else f"column {column}: {what}")

    try:
        line.decode()
    except UnicodeDecodeError as error:
        _, column = line_and_column(line, error.start)
        bad.add(where, f"column {column}: not UTF-8")
        return
    text, surrogate = without_lone_surrogates(line)
    start = len(text) - len(text.lstrip(_BLANK))
    try:
        msgspec.json.Decoder(msgspec.Raw).decode(text)
        read.read(text.strip(_BLANK), note, surrogate)
    except msgspec.DecodeError as error:
        _, column = line_and_column(line, error_position(text, error))
        bad.add(where, f"column {column}: {error_reason(error)}")
    except RecursionError:
        bad.add(where, "column 1: nests too deeply")
