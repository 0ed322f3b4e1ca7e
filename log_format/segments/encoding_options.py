"""How the columns of a segment are encoded: codecs, dictionaries and statistics (docs/decisions/002-segment-encoding.md)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.typed_columns import typed_columns
from log_format.segments.column_statistics import NO_STATISTICS, ColumnStatistics

CODECS: Final[Mapping[str, tuple[str, int | None]]] = MappingProxyType(
    {
        "zstd": ("zstd", 1),
        "lz4": ("lz4", None),
        "snappy": ("snappy", None),
        "gzip": ("gzip", 6),
        "uncompressed": ("none", None),
    }
)
"""``compression.type`` -> Parquet's codec and level. ``lz4`` is LZ4_RAW; gzip's level is Kafka's default."""

_COMPRESSED: Final = ("timestamp", "key", "value")
_COMPRESSED_HEADERS: Final = ("headers.list.element.key", "headers.list.element.value")
_INTEGERS: Final = dict.fromkeys(("partition", "offset", "timestamp"), "DELTA_BINARY_PACKED")
_PLAIN_BYTES: Final = dict.fromkeys(("key", "value", *_COMPRESSED_HEADERS), "PLAIN")
_STATISTICS: Final = ("partition", "offset", "timestamp")
_KEY_SAMPLE_RECORDS: Final = 1024
_KEY_SAMPLE_RECORDS_MIN: Final = 64


def has_headers(records: pa.Table) -> bool:
    """Return whether any record has a header (or a null list spans one, which Arrow allows)."""
    headers = records.column("headers")
    if headers.null_count == len(headers):
        return False
    return any(len(chunk) and chunk.offsets[0].as_py() != chunk.offsets[-1].as_py() for chunk in headers.chunks)


def writer_options(
    records: pa.Table, run_starts: npt.NDArray[np.intp], compression: str, statistics: ColumnStatistics = NO_STATISTICS
) -> dict[str, Any]:
    """Return the encoding options for this segment's columns. ``statistics``: those of its typed columns."""
    compressed = [*_COMPRESSED]
    # A codec costs about 10 µs per column and row group, even with nothing to compress.
    if has_headers(records):
        compressed += _COMPRESSED_HEADERS
    bounded = {".".join(path) for path in statistics.bounds}
    return _columns(records.schema, compressed, _keys_repeat(records.column("key"), run_starts), compression, bounded)


def streaming_options(first: pa.Table, *, compression: str) -> dict[str, Any]:
    """Return the encoding options for a segment of one partition when only its ``first`` records are known."""
    keys_repeat = _keys_repeat(first.column("key"), np.zeros(1, dtype=np.intp))
    return _columns(first.schema, [*_COMPRESSED, *_COMPRESSED_HEADERS], keys_repeat, compression)


def typed_leaves(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Return the Parquet columns of the typed columns: the path of each in the file, and its type."""
    return leaves_of(typed_columns(schema).fields())


def leaves_of(fields: Iterable[pa.Field]) -> list[tuple[str, pa.DataType]]:
    """Return the Parquet columns of these columns: the path of each in the file, and its type."""
    found: list[tuple[str, pa.DataType]] = []
    for field in fields:
        _add_leaves(field.name, field.type, found)
    return found


def _add_leaves(path: str, arrow: pa.DataType, found: list[tuple[str, pa.DataType]]) -> None:
    if pa.types.is_struct(arrow):
        for field in arrow:
            _add_leaves(f"{path}.{field.name}", field.type, found)
    elif pa.types.is_list(arrow):
        _add_leaves(f"{path}.list.element", arrow.value_type, found)
    elif pa.types.is_map(arrow):
        _add_leaves(f"{path}.key_value.key", arrow.key_type, found)
        _add_leaves(f"{path}.key_value.value", arrow.item_type, found)
    else:
        found.append((path, arrow))


def _columns(
    schema: pa.Schema,
    compressed: Sequence[str],
    keys_repeat: bool,
    compression: str,
    bounded: Container[str] = (),
) -> dict[str, Any]:
    """Return the options. ``bounded``: the floating-point columns among which is no NaN, and any others.

    Parquet's statistics leave out NaN, which Spark takes for more than any number: it would lose records by them.
    """
    codec, level = CODECS[compression]
    encodings = _INTEGERS | _PLAIN_BYTES
    dictionary = ["key"] if keys_repeat else []
    statistics = [*_STATISTICS]
    leaves = typed_leaves(schema)
    if leaves:
        compressed = [*compressed, *(path for path, _ in leaves)]
        dictionary += [path for path, arrow in leaves if pa.types.is_string(arrow)]
        statistics += [path for path, arrow in leaves if path in bounded or not pa.types.is_floating(arrow)]
        encodings |= {path: _encoding(arrow) for path, arrow in leaves if not pa.types.is_string(arrow)}
    for name in dictionary:
        encodings.pop(name, None)
    return {
        "compression": dict.fromkeys(compressed, codec),
        "compression_level": dict.fromkeys(compressed, level) if level is not None else None,
        "use_dictionary": dictionary,
        "column_encoding": encodings,
        "write_statistics": statistics,
        "store_schema": False,
        "version": "2.6",
        "data_page_version": "1.0",
    }


def _encoding(arrow: pa.DataType) -> str:
    is_integer = pa.types.is_integer(arrow) or pa.types.is_timestamp(arrow) or pa.types.is_date(arrow)
    return "DELTA_BINARY_PACKED" if is_integer else "PLAIN"


def _keys_repeat(keys: pa.ChunkedArray, run_starts: npt.NDArray[np.intp]) -> bool:
    """Return whether a dictionary of keys pays: in a sample of the longest run each key comes at least twice."""
    if len(keys) < _KEY_SAMPLE_RECORDS_MIN:
        return False
    run_lengths = np.diff(run_starts, append=len(keys))
    longest = int(np.argmax(run_lengths))
    length = min(int(run_lengths[longest]), _KEY_SAMPLE_RECORDS)
    if length < _KEY_SAMPLE_RECORDS_MIN or keys.null_count == len(keys):
        return False
    start = int(run_starts[longest]) + (int(run_lengths[longest]) - length) // 2
    return int(pc.count_distinct(keys.slice(start, length), mode="all").as_py()) * 2 <= length
