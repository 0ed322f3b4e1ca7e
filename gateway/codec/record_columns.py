"""Columns of incoming records: decoded in pieces, joined once.

Headers are a flat list of names, a flat list of values and the number of headers of each record. A record without headers has a
null list, whether the client sent none or an empty list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gateway.codec.incoming import NO_DELAY, NO_PARTITION, Delays, GivenColumns, IncomingRecords, RecordLocations
from gateway.codec.refusal import BadRecords
from log_format.limits import HEADERS_PER_RECORD_MAX, REPORTED_ERRORS_MAX
from log_format.records.expiry import EXPIRES_AT
from log_format.records.schema import BATCH_SCHEMA, HEADER, HEADERS, TIMESTAMP

TOO_MANY_HEADERS: Final = f"has more than {HEADERS_PER_RECORD_MAX} headers"

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """Records as columns of one length; a column that is None is null in every record.

    ``keys`` and ``values`` are binary, ``headers`` has the type ``HEADERS``; ``timestamps`` (milliseconds), ``partitions``,
    ``deliver_at`` and ``deliver_after`` (milliseconds) are int64 with nulls.
    """

    values: pa.Array
    keys: pa.Array | None = None
    headers: pa.Array | None = None
    timestamps: pa.Array | None = None
    partitions: pa.Array | None = None
    deliver_at: pa.Array | None = None
    deliver_after: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.values)


def header_lists(counts: Sequence[int] | Integers, names: Sequence[str] | pa.Array, values: pa.Array) -> pa.Array:
    """Return lists of headers: the first ``counts[0]`` of ``names`` and ``values`` belong to the first record, and so on."""
    lengths = np.asarray(counts, dtype=np.int64)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    if not isinstance(names, pa.Array):
        names = pa.array(names, pa.string())
    headers = pa.StructArray.from_arrays([names, values], fields=list(HEADER))
    mask = pa.array(lengths == 0) if (lengths == 0).any() else None
    return pa.ListArray.from_arrays(pa.array(offsets), headers, type=HEADERS, mask=mask)


def with_expiry(headers: pa.Array | None, times: pa.Array) -> pa.Array | None:
    """Return the headers, with ``expires_at`` added after those of each record that has a time.

    ``headers`` has the type ``HEADERS``; None: no record has any. ``times``: int64 milliseconds, null where a record has none.
    """
    if times.null_count == len(times):
        return headers
    if headers is None:
        headers = pa.nulls(len(times), HEADERS)
    names, values = headers.flatten().flatten()
    added = times.drop_null().cast(pa.string())
    has_time = times.is_valid().to_numpy(zero_copy_only=False)
    counts = pc.list_value_length(headers).fill_null(0).to_numpy().astype(np.int64)
    # The new position of each header: a record's own headers in order, then the added one.
    order = np.insert(
        np.arange(len(names)), np.cumsum(counts)[has_time], np.arange(len(names), len(names) + len(added))
    )
    all_names = pa.concat_arrays([names, pa.array([EXPIRES_AT] * len(added), pa.string())])
    all_values = pa.concat_arrays([values, added.cast(pa.binary())])
    return header_lists(counts + has_time, all_names.take(pa.array(order)), all_values.take(pa.array(order)))


def incoming(
    pieces: Sequence[RecordColumns], places: RecordLocations, data: GivenColumns | None = None
) -> IncomingRecords:
    """Join all pieces to one request's records, in order. ``data``: the columns of their values, if these came as columns.

    Raises ``RequestRefused`` (400 ``INVALID_RECORD``) for records with more than ``HEADERS_PER_RECORD_MAX`` headers.
    """
    headers = _joined(pieces, "headers", HEADERS)
    _check_header_counts(headers, places)
    table = pa.Table.from_arrays(
        [
            _timestamps(pieces),
            _joined(pieces, "keys", pa.binary()),
            _joined(pieces, "values", pa.binary()),
            headers,
        ],
        schema=BATCH_SCHEMA,
    )
    partitions = None
    if any(piece.partitions is not None for piece in pieces):
        column = _joined(pieces, "partitions", pa.int64())
        if column.null_count < len(column):
            partitions = column.fill_null(NO_PARTITION).to_numpy().astype(np.int32)
    return IncomingRecords(table, partitions=partitions, places=places, delays=_delays(pieces, places), data=data)


def _delays(pieces: Sequence[RecordColumns], places: RecordLocations) -> Delays | None:
    if all(piece.deliver_at is None and piece.deliver_after is None for piece in pieces):
        return None
    at, after = (_joined(pieces, name, pa.int64()) for name in ("deliver_at", "deliver_after"))
    delays = Delays(*(column.fill_null(NO_DELAY).to_numpy() for column in (at, after)))
    bad = BadRecords()
    for index in np.flatnonzero((delays.at != NO_DELAY) & (delays.after != NO_DELAY))[:REPORTED_ERRORS_MAX].tolist():
        places.note(bad, index, "deliver_at", "and deliver_after_ms exclude each other")
    bad.refuse()
    return delays if (delays.at != NO_DELAY).any() or (delays.after != NO_DELAY).any() else None


def _check_header_counts(headers: pa.Array, places: RecordLocations) -> None:
    if headers.null_count == len(headers) or len(headers.values) <= HEADERS_PER_RECORD_MAX:
        return
    bad = BadRecords()
    counts = pc.list_value_length(headers).fill_null(0).to_numpy()
    for index in np.flatnonzero(counts > HEADERS_PER_RECORD_MAX)[:REPORTED_ERRORS_MAX].tolist():
        places.note(bad, index, "headers", TOO_MANY_HEADERS)
    bad.refuse()


def _joined(pieces: Sequence[RecordColumns], name: str, type_: pa.DataType) -> pa.Array:
    arrays = []
    for piece in pieces:
        array = getattr(piece, name)
        arrays.append(_nulls(len(piece), type_) if array is None else array)
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], type_)


def _nulls(count: int, type_: pa.DataType) -> pa.Array:
    return _one_null(type_) if count == 1 else pa.nulls(count, type_)


@cache
def _one_null(type_: pa.DataType) -> pa.Array:
    return pa.nulls(1, type_)


def _timestamps(pieces: Sequence[RecordColumns]) -> pa.Array:
    if all(piece.timestamps is None for piece in pieces):
        return _nulls(sum(map(len, pieces)), TIMESTAMP)
    return _joined(pieces, "timestamps", pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP)
