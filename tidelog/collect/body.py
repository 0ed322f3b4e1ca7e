"""Conversion of records to the Arrow columns of a produce request, and their cost there."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.collect.split import Numbers, Records

_LINE_DIGITS_MAX: Final = 20
_PLACES_BYTES: Final = 16
"""Overhead of a record besides its bytes: the offsets of its value, key and headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordForm:
    """Form of records: what they carry besides their value.

    ``key``: pattern searched in each value. Its group ``key`` is the record's key, else its first group, else the whole match.
    A value without a match has no key. ``headers``: whether records have the headers ``file`` and ``line`` (and ``part``).
    """

    key: re.Pattern[bytes] | None = None
    headers: bool = True

    def cost_bytes(self, path: str) -> int:
        """Return the maximum that each record of a file adds to a request besides value and key."""
        if not self.headers:
            return _PLACES_BYTES
        return _PLACES_BYTES * 4 + len(b"filelinepart") + len(os.fsencode(path)) + 2 * _LINE_DIGITS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecords:
    """Records of one file, and the partition for those without a key."""

    path: str
    partition: int
    records: Records


def records_table(part: FileRecords, form: RecordForm) -> pa.Table:
    """Return columns ``value``, ``partition`` (null where the key decides), and ``key`` and ``headers`` as ``form`` says.

    Timestamps are left to the gateway: they say when a line was collected.
    """
    records = part.records
    values = _binary(records.data, records.offsets)
    partitions = pa.array(np.full(records.count, part.partition, dtype=np.int32))
    columns = {"value": values, "partition": partitions}
    if form.key is not None:
        keys = pa.array(_keys(values, form.key), pa.binary())
        columns["key"] = keys
        columns["partition"] = pc.if_else(pc.is_null(keys), partitions, pa.scalar(None, pa.int32()))
    if form.headers:
        columns["headers"] = _headers(part.path, records)
    return pa.table(columns)


def _binary(data: bytes, offsets: Numbers) -> pa.Array:
    count = len(offsets) - 1
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)], null_count=0
    )


def _keys(values: pa.Array, pattern: re.Pattern[bytes]) -> list[bytes | None]:
    group: str | int = "key" if "key" in pattern.groupindex else min(pattern.groups, 1)
    matches = map(pattern.search, values.to_pylist())
    return [None if match is None else match.group(group) for match in matches]


def _headers(path: str, records: Records) -> pa.Array:
    """Return ``file`` and ``line`` of each record, and ``part`` of those that have one."""
    count = records.count
    has_part = records.parts > 0
    sizes = np.where(has_part, 3, 2)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    lines = pa.array(records.lines).cast(pa.string())
    parts = pa.array(records.parts[has_part]).cast(pa.string())
    texts = pa.concat_arrays([array.cast(pa.binary()) for array in (pa.array([os.fsencode(path)]), lines, parts)])
    # For each header, the index of its name, and of its text among path, lines and parts, in this order.
    names = np.zeros(int(offsets[-1]), np.int32)
    taken = np.zeros(int(offsets[-1]), np.int64)
    names[offsets[:-1] + 1] = 1
    taken[offsets[:-1] + 1] = 1 + np.arange(count)
    third = offsets[:-1][has_part] + 2
    names[third] = 2
    taken[third] = 1 + count + np.arange(len(parts))
    keys = pc.take(pa.array(["file", "line", "part"]), pa.array(names))
    pairs = pa.StructArray.from_arrays([keys, pc.take(texts, pa.array(taken))], ["key", "value"])
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pairs)
