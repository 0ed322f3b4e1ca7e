"""JSON objects, one per line, as rows: the value is the line, unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from log_format.errors import DECODE_ERRORS
from tidelog.cli.sources.lines import Lines, read_lines
from tidelog.cli.sources.rows import Fields, Row, Rows, require_arrow, rows_of

_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def has_plain_objects(paths: Iterable[Path]) -> bool:
    """Return whether each file begins with an object that can't be a record as in the HTTP API, since it has no value.

    Only regular files are looked at. Raises ``CommandFailed`` as ``read_lines``, and ``ValueError`` if only some do.
    """
    firsts = {path: _first_line(path) for path in paths if path.is_file()}
    plain = [path for path, line in firsts.items() if _is_plain(line)]
    if plain and len(plain) < len(firsts):
        other = next(path for path in firsts if path not in plain)
        raise ValueError(
            f"{plain[0]} has plain objects, {other} has records: send them separately, or choose a --format"
        )
    return bool(plain)


def _first_line(path: Path) -> bytes:
    return next((line for lines in read_lines([path]) for line in lines.lines if line.strip()), b"")


def _is_plain(line: bytes) -> bool:
    try:
        return {"value", "value_base64"}.isdisjoint(_decoder.decode(line))
    except DECODE_ERRORS:
        return False


def read_objects(groups: Iterable[Lines], fields: Fields) -> Iterator[Rows]:
    """Yield the rows, in batches as they are read; blank lines are ignored.

    Raises ``CommandFailed`` for a line that is no object, or lacks one of ``fields``, after yielding the rows before it.
    """
    require_arrow("--format objects")
    for group in groups:
        lines = ((number, line) for number, line in enumerate(group.lines, group.first) if line.strip())
        yield from rows_of(group.path, "line", lines, lambda line: _row(line, fields))


def _row(line: bytes, fields: Fields) -> Row:
    members = _decoder.decode(line)
    for name in fields.named():
        if name not in members:
            raise ValueError(f"the object has no member {name!r}")
    value = line.strip() if fields.value is None else _bytes(members[fields.value])
    key = None if fields.key is None else _bytes(members[fields.key])
    if fields.timestamp is None:
        return value, key, None
    timestamp: Any = msgspec.json.decode(members[fields.timestamp])
    return value, key, fields.times.of(timestamp)


def _bytes(member: msgspec.Raw) -> bytes | None:
    """Return a string's text, None for null, and for anything else its literal text in the line."""
    text = bytes(member).strip()
    if text == b"null":
        return None
    return msgspec.json.decode(text, type=str).encode() if text.startswith(b'"') else text
