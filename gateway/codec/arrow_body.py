"""``application/vnd.apache.arrow.stream``: records as an Arrow IPC stream.

The body is untrusted. All messages are checked before anything is decompressed (``arrow_messages``). The schema is checked before
a batch is read. Each batch is validated in full before any of it is used.

Where possible the result refers to the body's memory, so that a plain ``binary`` column costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gateway.codec.arrow_columns import (
    Mask,
    as_partitions,
    as_timestamps,
    is_bytes,
    is_headers,
    is_timestamp,
    plain,
    plain_bytes,
)
from gateway.codec.arrow_data import is_data, plain_data
from gateway.codec.arrow_dictionary import Dictionary, validate
from gateway.codec.arrow_messages import check_messages, first_line
from gateway.codec.incoming import PARTITION_MAX, GivenColumns, IncomingRecords, LocationKind, RecordLocations
from gateway.codec.record_columns import RecordColumns, header_lists, incoming, with_expiry
from gateway.codec.refusal import BadRecords, malformed, too_large
from log_format.errors import ErrorCode, RequestRefused
from log_format.limits import REPORTED_ERRORS_MAX
from log_format.records.expiry import EXPIRES_AT
from log_format.records.schema import TIMESTAMP_MS_MAX, TIMESTAMP_MS_MIN

_IGNORED: Final = frozenset(("offset", "topic", "timestampType"))
_ALLOWED: Final[dict[str, tuple[Callable[[pa.DataType], bool], str]]] = {
    "value": (is_bytes, "binary or string"),
    "data": (is_data, "a struct of the topic's columns, without dictionaries"),
    "key": (is_bytes, "binary or string"),
    "headers": (is_headers, "a list of structs of key (string) and value (binary)"),
    "timestamp": (is_timestamp, "a timestamp or int64 milliseconds"),
    "partition": (pa.types.is_integer, "an integer"),
    EXPIRES_AT: (is_timestamp, "a timestamp or int64 milliseconds"),
    "deliver_at": (is_timestamp, "a timestamp or int64 milliseconds"),
    "deliver_after_ms": (pa.types.is_integer, "an integer"),
}
_BODIES: Final = ("value", "data")
"""Columns of which each stream has one."""
_ROW_BYTES_MIN: Final = 8
"""Bytes of ``bytes_max`` for each record that a body may have: even a record of nulls takes three times as much."""
_LENGTHS: Final = 4
"""Bytes that a value takes besides its own: its offset in the column."""


def decode_arrow(body: bytes, *, bytes_max: int) -> IncomingRecords:
    """Decode the records of an Arrow stream; errors name rows by pointers such as ``/records/3``, counted over all batches.

    ``bytes_max`` bounds the plain records: decompressed, dictionaries and views resolved. Raises ``RequestRefused``: 400
    ``INVALID_REQUEST`` (corrupt or truncated, wrong or unknown columns), 400 ``INVALID_RECORD``, 413 ``REQUEST_TOO_LARGE``.
    """
    buffer = pa.py_buffer(body)
    check_messages(buffer, bytes_max)
    columns = _read(buffer)
    bad = BadRecords()
    places = RecordLocations(LocationKind.POINTER)
    try:
        budget = _Budget(bytes_max)
        _check_rows(len(next(iter(columns.values()))), bytes_max)
        data = _data(columns, budget, bytes_max)
        records = _convert(columns, budget, bad, places)
    except (pa.ArrowException, pa.ArrowMemoryError, OverflowError, ValueError) as error:
        raise malformed(f"The Arrow stream can't be read: {first_line(error)}.") from None
    bad.refuse()
    return incoming([records], places, data)


def _check_rows(count: int, bytes_max: int) -> None:
    rows_max = bytes_max // _ROW_BYTES_MIN
    if count > rows_max:
        raise too_large(f"The Arrow stream has more than {rows_max} records.", bytes_max)


def _read(buffer: pa.Buffer) -> dict[str, pa.ChunkedArray]:
    """Return the known columns, validated. A column of type null has no information, and is kept only as ``value`` or
    ``data``."""
    try:
        with pa.ipc.open_stream(buffer, options=pa.ipc.IpcReadOptions(use_threads=False)) as reader:
            _check_schema(reader.schema)
            names = [name for name in reader.schema.names if name in _ALLOWED]
            table = reader.read_all().select(names)
        for column in table.columns:
            validate(column)
    except RequestRefused:
        raise
    except (pa.ArrowException, OSError, MemoryError, ValueError, KeyError, NotImplementedError) as error:
        raise malformed(f"The Arrow stream is corrupt: {first_line(error)}.") from None
    columns = zip(names, table.columns, strict=True)
    return {name: column for name, column in columns if name in _BODIES or not pa.types.is_null(column.type)}


def _one_piece(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _check_schema(schema: pa.Schema) -> None:
    errors: list[dict[str, str]] = []
    seen: set[str] = set()
    for field in schema:
        name = field.name
        where = f"/{name[:100]}"
        if name in seen:
            errors.append({"where": where, "what": "is given more than once"})
        elif name in _ALLOWED:
            fits, what = _ALLOWED[name]
            if not fits(field.type) and not pa.types.is_null(field.type):
                errors.append({"where": where, "what": f"must be {what}, not {str(field.type)[:100]}"})
        elif name not in _IGNORED:
            errors.append({"where": where, "what": "is not a column of records"})
        seen.add(name)
    if seen.isdisjoint(_BODIES):
        errors.append({"where": "/value", "what": "is missing"})
    elif seen.issuperset(_BODIES):
        errors.append({"where": "/data", "what": "excludes the column value"})
    if errors:
        first = errors[0]
        detail = f"The Arrow schema does not fit: column {first['where'][1:]} {first['what']}."
        raise RequestRefused(detail, code=ErrorCode.INVALID_REQUEST, errors=errors[:REPORTED_ERRORS_MAX])


def _data(given: dict[str, pa.ChunkedArray], budget: _Budget, bytes_max: int) -> GivenColumns | None:
    if "data" not in given or pa.types.is_null(given["data"].type):
        return None
    return GivenColumns(plain_data(_one_piece(given["data"]), budget), bytes_max)


def _convert(
    given: dict[str, pa.ChunkedArray], budget: _Budget, bad: BadRecords, places: RecordLocations
) -> RecordColumns:
    # Values come first: the number of rows is only a claim until something in the body is counted for each row.
    values = budget.binary(given["value"]) if "value" in given else pa.nulls(len(given["data"]), pa.binary())
    partitions = None
    timestamps = _times("timestamp", given, bad, places)
    expiry = _times(EXPIRES_AT, given, bad, places)
    if "partition" in given:
        partitions, outside = as_partitions(_one_piece(given["partition"]), PARTITION_MAX)
        _note(bad, places, outside, "partition", f"must be from 0 to {PARTITION_MAX}")
    keys = budget.binary(given["key"]) if "key" in given else None
    headers = _headers(_one_piece(given["headers"]), budget, bad, places) if "headers" in given else None
    deliver_at, deliver_after = _delays(given, bad, places)
    return RecordColumns(
        deliver_at=deliver_at,
        deliver_after=deliver_after,
        values=values,
        keys=keys,
        headers=headers if expiry is None else with_expiry(headers, expiry),
        timestamps=timestamps,
        partitions=partitions,
    )


def _times(name: str, given: dict[str, pa.ChunkedArray], bad: BadRecords, places: RecordLocations) -> pa.Array | None:
    """Return the column in milliseconds; note values out of range as errors."""
    if name not in given:
        return None
    times, outside = as_timestamps(_one_piece(given[name]))
    _note(bad, places, outside, name, f"must be from {TIMESTAMP_MS_MIN} to {TIMESTAMP_MS_MAX} ms since the epoch")
    return times


def _delays(
    given: dict[str, pa.ChunkedArray], bad: BadRecords, places: RecordLocations
) -> tuple[pa.Array | None, pa.Array | None]:
    deliver_at = deliver_after = None
    if "deliver_at" in given:
        deliver_at = _times("deliver_at", given, bad, places)
    if "deliver_after_ms" in given:
        deliver_after, outside = as_partitions(_one_piece(given["deliver_after_ms"]), TIMESTAMP_MS_MAX)
        _note(bad, places, outside, "deliver_after_ms", f"must be from 0 to {TIMESTAMP_MS_MAX}")
    return deliver_at, deliver_after


class _Budget:
    """Budget of bytes for columns in plain form."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._left = bytes_max

    def binary(self, column: pa.ChunkedArray) -> pa.Array:
        """Return the column as plain ``binary``, in one piece. Raise ``RequestRefused`` (413) if the budget is exceeded."""
        self._spend(_LENGTHS * len(column))
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), pa.binary())
        pieces = []
        dictionary: Dictionary | None = None
        for chunk in column.chunks:
            if not pa.types.is_dictionary(chunk.type):
                self._spend(plain_bytes(chunk))
                pieces.append(plain(chunk))
                continue
            if dictionary is None or not dictionary.is_of(chunk):
                self._spend(_LENGTHS * len(chunk.dictionary))
                dictionary = Dictionary(chunk.dictionary)
                self._spend(dictionary.size_bytes)
            self._spend(dictionary.taken_bytes(chunk.indices))
            pieces.append(dictionary.taken(chunk.indices))
        return _one_piece(pa.chunked_array(pieces, pa.binary()))

    def _spend(self, size: int) -> None:
        self.check(size)
        self._left -= size

    def check(self, size: int) -> None:
        """Raise ``RequestRefused`` (413) unless so many bytes are left."""
        if size > self._left:
            detail = f"The Arrow stream's records have more than {self._bytes_max} bytes."
            raise too_large(detail, self._bytes_max)


def _headers(column: pa.Array, budget: _Budget, bad: BadRecords, places: RecordLocations) -> pa.Array | None:
    counts = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    # Here, too, the number of values is only a claim so far.
    budget.check(2 * _LENGTHS * int(counts.sum()))
    elements = column.flatten()
    if len(elements) == 0:
        return None
    names = elements.field("key")
    rows = np.repeat(np.arange(len(counts)), counts)
    missing = elements.is_null().to_numpy(zero_copy_only=False)
    _note_elements(bad, places, missing, rows, "has a null among its elements")
    nameless = names.is_null().to_numpy(zero_copy_only=False) & ~missing
    _note_elements(bad, places, nameless, rows, "has a header whose key is null")
    if missing.any() or nameless.any():
        return None
    text = budget.binary(pa.chunked_array([names]))
    try:
        text = text.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = np.array([not _is_utf8(name) for name in text.to_pylist()])
        _note_elements(bad, places, wrong, rows, "has a header whose key is not UTF-8")
        return None
    return header_lists(counts, text, budget.binary(pa.chunked_array([elements.field("value")])))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _note(bad: BadRecords, places: RecordLocations, wrong: Mask, member: str, what: str) -> None:
    for index in np.flatnonzero(wrong)[:REPORTED_ERRORS_MAX].tolist():
        places.note(bad, index, member, what)


def _note_elements(
    bad: BadRecords, places: RecordLocations, wrong: Mask, rows: npt.NDArray[np.intp], what: str
) -> None:
    for index in np.unique(rows[wrong])[:REPORTED_ERRORS_MAX].tolist():
        places.note(bad, index, "headers", what)
