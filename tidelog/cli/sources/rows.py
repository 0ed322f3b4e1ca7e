"""Rows of files converted to records: the fields used as key, time and value, and the table that is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from log_format.errors import DECODE_ERRORS
from tidelog.bodies.encode import arrow_available
from tidelog.cli.sources.lines import Place
from tidelog.cli.sources.times import Times
from tidelog.cli.terminal.console import CommandFailed

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

Row = tuple[bytes | None, bytes | None, int | None]
"""Value, key and timestamp in milliseconds."""

ROWS_MAX: Final = 20_000
ROWS_BYTES_MAX: Final = 4 * 1024 * 1024
"""Size of one request: below the size at which the producer would split it, so that it is stored as a whole or not at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """Names of a row's fields; None: no key, the time of sending, the whole row as JSON. ``times`` reads the timestamp."""

    key: str | None = None
    timestamp: str | None = None
    value: str | None = None
    times: Times = field(default_factory=Times)

    def named(self) -> list[str]:
        """Return the names of the required fields."""
        return [name for name in (self.key, self.timestamp, self.value) if name is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A table for ``Producer.send_table``; row ``i`` is number ``numbers[i]`` of its file."""

    path: Path
    unit: str
    numbers: Sequence[int]
    table: pa.Table

    def place(self, index: int) -> Place:
        """Return the place of the row at ``index``."""
        return Place(path=self.path, number=self.numbers[index], unit=self.unit)

    def place_or_none(self, index: int) -> Place | None:
        """Return the place of the row at ``index``; None if there is no such row."""
        return self.place(index) if index < len(self.numbers) else None


class RowsBuilder:
    """Collector of rows until they fill a request."""

    def __init__(self, path: Path, unit: str) -> None:
        self._path = path
        self._unit = unit
        self._numbers: list[int] = []
        self._values: list[bytes | None] = []
        self._keys: list[bytes | None] = []
        self._timestamps_ms: list[int | None] = []
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of collected rows."""
        return len(self._numbers)

    @property
    def full(self) -> bool:
        """Whether the rows fill a request."""
        return len(self._numbers) >= ROWS_MAX or self._bytes >= ROWS_BYTES_MAX

    def add(self, number: int, value: bytes | None, key: bytes | None, timestamp_ms: int | None) -> None:
        """Add one row."""
        self._numbers.append(number)
        self._values.append(value)
        self._keys.append(key)
        self._timestamps_ms.append(timestamp_ms)
        self._bytes += len(value or b"") + len(key or b"")

    def take(self) -> Rows:
        """Return the collected rows, and start over."""
        import pyarrow as pa  # noqa: PLC0415 - the other formats work without it

        table = pa.table(
            {
                "value": pa.array(self._values, pa.binary()),
                "key": pa.array(self._keys, pa.binary()),
                "timestamp": pa.array(self._timestamps_ms, pa.int64()),
            }
        )
        rows = Rows(path=self._path, unit=self._unit, numbers=self._numbers, table=table)
        self._numbers, self._values, self._keys, self._timestamps_ms, self._bytes = [], [], [], [], 0
        return rows


def rows_of(path: Path, unit: str, found: Iterable[tuple[int, _T]], row: Callable[[_T], Row]) -> Iterator[Rows]:
    """Convert each input by ``row``, and yield the rows in batches of one request.

    Raises ``CommandFailed`` for the first input that is no row, after yielding the rows before it.
    """
    builder = RowsBuilder(path, unit)
    wrong: CommandFailed | None = None
    for number, each in found:
        try:
            builder.add(number, *row(each))
        except (*DECODE_ERRORS, ValueError, TypeError) as error:
            wrong = CommandFailed(f"{Place(path=path, number=number, unit=unit)}: {error}")
            break
        if builder.full:
            yield builder.take()
    if len(builder):
        yield builder.take()
    if wrong is not None:
        raise wrong


def require_arrow(what: str) -> None:
    """Raise ``CommandFailed`` if pyarrow is missing."""
    if not arrow_available():
        raise CommandFailed(f"{what} needs pyarrow: pip install 'tidelog[arrow]'")


def as_bytes(value: Any) -> bytes | None:
    """Return a field as key or value: text and bytes unchanged, null as None, anything else as compact JSON."""
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
