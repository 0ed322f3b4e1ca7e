"""The digest by which engines are compared. It needs nothing but Python: programs with other interpreters import it, too."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any, NamedTuple


class Digest(NamedTuple):
    """Number of rows, and a CRC-32 of them that their order does not change."""

    row_count: int
    crc: int


def digest(rows: Iterable[Any]) -> Digest:
    """Return the digest of rows of partition, offset, timestamp (a time, or ms since the epoch), key and value (or None)."""
    found = sorted((int(row[0]), int(row[1]), _ms(row[2]), _bytes(row[3]), _bytes(row[4])) for row in rows)
    return Digest(len(found), zlib.crc32(repr(found).encode()))


def answer(read: Callable[[int], Iterable[Any]]) -> None:
    """Print the digest of each version that the command line names, as a line of JSON. ``read``: reads one."""
    for version in map(int, sys.argv[1:]):
        print(json.dumps([version, *digest(read(version))]), flush=True)


def _ms(value: Any) -> int:
    if isinstance(value, datetime):
        at = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)  # noqa: UP017 - also for Python 3.10
        return round(at.timestamp() * 1000)
    return int(value)


def _bytes(value: Any) -> bytes:
    """Null sorts as no text that a record of the tests has."""
    return b"\xff" if value is None else bytes(value)
