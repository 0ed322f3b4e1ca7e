"""How the columns of a segment are encoded: codecs, dictionaries and statistics (docs/decisions/002-segment-encoding.md)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from log_format.records.typed_columns import leaves_of, typed_columns
from log_format.segments.column_statistics import NO_STATISTICS, ColumnStatistics, Member, Path

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
SMALL_RUN_RECORDS: Final = 1024
"""Records of an average run below which typed columns have no statistics in the file, and no codec besides a good encoding: it
takes about 11 µs a page, as long as 1,000 numbers take otherwise."""
SMALL_TEXT_BYTES: Final = 4096
"""Bytes of an average run's texts up to which their dictionary has no codec in a small segment."""
KEY_FILTER_ERRORS: Final = 1e-4
"""Share of keys that a row group lacks and its filter takes for its own, as Arrow estimates it; up to three times it was seen.
With it a request that names 1,000 keys reads a twentieth to a quarter of the row groups for nothing, and a filter has 2.7 to 5.3
bytes for each distinct key."""
WRITES_KEY_FILTERS: Final = "bloom_filter_options" in inspect.signature(pq.ParquetWriter.__init__).parameters
"""Whether the installed pyarrow can write filters (from 24 on); segments without are read whole by erasures."""
_SAMPLE_RECORDS: Final = 1024
_SAMPLE_RECORDS_MIN: Final = 64


def has_headers(records: pa.Table) -> bool:
    """Return whether any record has a header (or a null list spans one, which Arrow allows)."""
    headers = records.column("headers")
    if headers.null_count == len(headers):
        return False
    return any(len(chunk) and chunk.offsets[0].as_py() != chunk.offsets[-1].as_py() for chunk in headers.chunks)


class _TypedLeaf(NamedTuple):
    """How a Parquet column of a typed column is encoded."""

    is_compressed: bool
    has_dictionary: bool
    has_statistics: bool


def writer_options(
    records: pa.Table,
    run_starts: npt.NDArray[np.intp],
    compression: str,
    statistics: ColumnStatistics = NO_STATISTICS,
    members: Mapping[Path, Member] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the encoding options for this segment's columns.

    ``statistics``: those of its typed columns, whose texts may have no bounds yet. ``members``: those of ``struct_members``.
    """
    compressed = [*_COMPRESSED]
    # A codec costs about 10 µs per column and row group, even with nothing to compress.
    if has_headers(records):
        compressed += _COMPRESSED_HEADERS
    keys_repeat = _values_repeat(records.column("key"), run_starts)
    leaves = typed_leaves(records.schema)
    if not leaves:
        return _columns(compressed, keys_repeat, compression, [])
    compressed = [name for name in compressed if name not in ("key", "value") or _has_values(records.column(name))]
    joined = {".".join(path): member.values for path, member in members.items()}
    bounded = {".".join(path) for path in statistics.bounds}
    is_small = is_small_segment(records.num_rows, run_starts)
    typed = [
        (path, arrow, _typed_leaf(arrow, joined.get(path), run_starts, is_small=is_small, is_bounded=path in bounded))
        for path, arrow in leaves
    ]
    return _columns(compressed, keys_repeat, compression, typed)


def streaming_options(first: pa.Table, *, compression: str, keys_max: int) -> dict[str, Any]:
    """Return the encoding options for a segment of one partition when only its ``first`` records are known.

    ``keys_max``: about how many keys a row group has at most; a filter takes no more room than the keys need that there are.
    """
    keys_repeat = _values_repeat(first.column("key"), np.zeros(1, dtype=np.intp))
    typed = [
        (path, arrow, _TypedLeaf(True, pa.types.is_string(arrow), not pa.types.is_floating(arrow)))
        for path, arrow in typed_leaves(first.schema)
    ]
    options = _columns([*_COMPRESSED, *_COMPRESSED_HEADERS], keys_repeat, compression, typed)
    if WRITES_KEY_FILTERS:
        options["bloom_filter_options"] = {"key": {"ndv": max(1, keys_max), "fpp": KEY_FILTER_ERRORS}}
    return options


def is_small_segment(record_count: int, run_starts: npt.NDArray[np.intp]) -> bool:
    """Return whether the row groups have so few records that a codec and statistics cost more than they are worth."""
    return record_count < SMALL_RUN_RECORDS * len(run_starts)


def _typed_leaf(
    arrow: pa.DataType,
    values: pa.ChunkedArray | None,
    run_starts: npt.NDArray[np.intp],
    *,
    is_small: bool,
    is_bounded: bool,
) -> _TypedLeaf:
    """Return how a column is encoded. ``values``: None if they are within lists; ``is_bounded``: they have bounds.

    Parquet's statistics leave out NaN, which Spark takes for more than any number: it would lose records by them.
    """
    has_statistics = not is_small and (is_bounded or not pa.types.is_floating(arrow))
    if values is not None and not _has_values(values):
        return _TypedLeaf(False, False, has_statistics)
    is_text = pa.types.is_string(arrow)
    has_dictionary = is_text and (values is None or _values_repeat(values, run_starts))
    if not is_small:
        return _TypedLeaf(True, has_dictionary, has_statistics)
    if has_dictionary and values is not None:
        text_bytes = pc.sum(pc.binary_length(values)).as_py()
        return _TypedLeaf(text_bytes > SMALL_TEXT_BYTES * len(run_starts), True, has_statistics)
    return _TypedLeaf(not (_is_delta(arrow) or pa.types.is_boolean(arrow)), has_dictionary, has_statistics)


def _has_values(values: pa.ChunkedArray) -> bool:
    return bool(values.null_count < len(values))


def typed_leaves(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    """Return the Parquet columns of the typed columns: the path of each in the file, and its type."""
    return leaves_of(typed_columns(schema).fields())


def _columns(
    compressed: Sequence[str], keys_repeat: bool, compression: str, typed: Sequence[tuple[str, pa.DataType, _TypedLeaf]]
) -> dict[str, Any]:
    """Return the options. ``typed``: path, type and encoding of the Parquet columns of the typed columns."""
    codec, level = CODECS[compression]
    compressed = [*compressed, *(path for path, _, leaf in typed if leaf.is_compressed)]
    dictionary = [*(["key"] if keys_repeat else []), *(path for path, _, leaf in typed if leaf.has_dictionary)]
    encodings = _INTEGERS | _PLAIN_BYTES
    encodings |= {path: "DELTA_BINARY_PACKED" if _is_delta(arrow) else "PLAIN" for path, arrow, _ in typed}
    for name in dictionary:
        encodings.pop(name, None)
    return {
        "compression": dict.fromkeys(compressed, codec),
        "compression_level": dict.fromkeys(compressed, level) if level is not None else None,
        "use_dictionary": dictionary,
        "column_encoding": encodings,
        "write_statistics": [*_STATISTICS, *(path for path, _, leaf in typed if leaf.has_statistics)],
        "store_schema": False,
        "version": "2.6",
        "data_page_version": "1.0",
    }


def _is_delta(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_timestamp(arrow) or pa.types.is_date(arrow))


def _values_repeat(values: pa.ChunkedArray, run_starts: npt.NDArray[np.intp]) -> bool:
    """Return whether a dictionary pays: in a sample of the longest run each value comes at least twice."""
    if len(values) < _SAMPLE_RECORDS_MIN or not _has_values(values):
        return False
    run_lengths = np.diff(run_starts, append=len(values))
    longest = int(np.argmax(run_lengths))
    length = min(int(run_lengths[longest]), _SAMPLE_RECORDS)
    if length < _SAMPLE_RECORDS_MIN:
        return False
    start = int(run_starts[longest]) + (int(run_lengths[longest]) - length) // 2
    return int(pc.count_distinct(values.slice(start, length), mode="all").as_py()) * 2 <= length
