"""Reading the segments that a checkpoint names as columns of a manifest, without a Python object for each.

Arrow parses the tags' JSON. If an entry is not as Tidelog writes it (another path, a number out of range, unreadable JSON), the
whole batch goes to ``decode_segments``, which reads the segments one by one and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from log_format.layout import COMPACTED, SEGMENTS
from log_format.manifest.manifest import RunBatch
from log_format.manifest.segment_rows import DASHED, SegmentColumns
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import TAG_FOOTER, TAG_RUNS, decode_segment_tags

_PATH: Final = (
    rf"^({SEGMENTS}|{COMPACTED})"
    r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})\.parquet$"
)
_AROUND_DIGITS: Final = r"^[a-z]+/|-|\.parquet$"
_RUN_FIELDS: Final = 7
_LINE: Final = pa.schema([("r", pa.list_(pa.list_(pa.int64()))), ("f", pa.list_(pa.int64()))])
_UINT32_MAX: Final = 2**32 - 1

Int64s = npt.NDArray[np.int64]


def decode_segments(adds: pa.StructArray) -> Iterator[tuple[SegmentRef, list[Run]]]:
    """Yield the segments of ``add`` rows (``checkpoint_schema.ADD``) with their runs, one by one. Raises ``CorruptData``."""
    paths, sizes = (pc.struct_field(adds, name).to_pylist() for name in ("path", "size"))
    tags = pc.struct_field(adds, "tags")
    runs_tags, footer_tags = (pc.map_lookup(tags, tag, "first").to_pylist() for tag in (TAG_RUNS, TAG_FOOTER))
    for path, size, runs_tag, footer_tag in zip(paths, sizes, runs_tags, footer_tags, strict=True):
        yield decode_segment_tags(path, size, runs_tag, footer_tag)


def decode_segment_columns(adds: pa.StructArray) -> tuple[SegmentColumns, RunBatch] | None:
    """Return the same as columns, for at least one ``add``; None if the caller must use ``decode_segments``."""
    tags = pc.struct_field(adds, "tags")
    numbers = _numbers(*(pc.map_lookup(tags, tag, "first") for tag in (TAG_RUNS, TAG_FOOTER)))
    if numbers is None:
        return None
    runs, positions, footers = numbers
    segments = _segments(pc.struct_field(adds, "path"), pc.struct_field(adds, "size"), footers)
    partitions, bases, ends, counts, sizes, earliest, latest = runs
    are_runs = (
        (partitions >= 0) & (bases >= 0) & (bases < ends) & (counts > 0) & (counts <= ends - bases)
        & (sizes > 0) & (sizes <= _UINT32_MAX) & (earliest >= 0) & (earliest <= latest)
    )  # fmt: skip
    if segments is None or not are_runs.all():
        return None
    return segments, RunBatch(
        partitions=partitions, bases=bases, ends=ends, max_timestamps=latest, segments=positions, sizes=sizes
    )


def _numbers(runs_tags: pa.Array, footer_tags: pa.Array) -> tuple[Int64s, Int64s, Int64s] | None:
    """Return seven columns of all runs; the index of each run's segment; two columns of all segments' footers."""
    if runs_tags.null_count or footer_tags.null_count:
        return None
    parts = [pa.scalar(text) for text in ('{"r":', ',"f":', "}\n", "")]
    lines = pc.binary_join_element_wise(parts[0], runs_tags, parts[1], footer_tags, parts[2], parts[3])
    _, offsets, data = lines.buffers()
    size = int(np.frombuffer(offsets, np.int32, len(lines) + 1)[-1])
    try:
        read = pa_json.read_json(
            pa.BufferReader(data.slice(0, size)),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=pa_json.ParseOptions(explicit_schema=_LINE, unexpected_field_behavior="error"),
        )
    except pa.ArrowException:
        return None
    if read.num_rows != len(lines):
        return None
    of_segments, footers = (pa.concat_arrays(read.column(name).chunks) for name in ("r", "f"))
    of_runs = of_segments.flatten()
    values, footer_values = of_runs.flatten(), footers.flatten()
    nulls = sum(each.null_count for each in (of_segments, footers, of_runs, values, footer_values))
    if nulls or not (_are_all(of_runs, _RUN_FIELDS) and _are_all(footers, 2)):
        return None
    positions = np.repeat(np.arange(len(lines)), pc.list_value_length(of_segments).to_numpy())
    return _columns(values, _RUN_FIELDS), positions, _columns(footer_values, 2)


def _are_all(lists: pa.ListArray, length: int) -> bool:
    return bool((pc.list_value_length(lists).to_numpy() == length).all())


def _columns(values: pa.Array, count: int) -> Int64s:
    columns: Int64s = values.to_numpy().reshape(-1, count).T
    return columns


def _segments(paths: pa.Array, sizes: pa.Array, footers: Int64s) -> SegmentColumns | None:
    if not pc.all(pc.match_substring_regex(paths, _PATH), min_count=0).as_py():
        return None
    sizes = sizes.to_numpy()
    starts, crc32s = footers
    fits = (starts >= 0) & (starts <= sizes) & (sizes <= _UINT32_MAX) & (crc32s >= 0) & (crc32s <= _UINT32_MAX)
    if not fits.all():
        return None
    digits = pc.replace_substring_regex(paths, _AROUND_DIGITS, "")
    characters = np.frombuffer(digits.buffers()[2], np.uint8, 32 * len(paths)).reshape(-1, 2)
    nibbles = np.where(characters >= ord("a"), characters - (ord("a") - 10), characters - ord("0")).astype(np.uint8)
    halves = (nibbles[:, 0] << np.uint8(4) | nibbles[:, 1]).view(">u8").reshape(-1, 2)
    is_compacted = pc.starts_with(paths, COMPACTED).to_numpy(zero_copy_only=False)
    is_dashed = pc.match_substring(paths, "-").to_numpy(zero_copy_only=False)
    return SegmentColumns(
        kinds=is_compacted.astype(np.uint8) | np.where(is_dashed, DASHED, 0).astype(np.uint8),
        high=halves[:, 0].astype(np.uint64),
        low=halves[:, 1].astype(np.uint64),
        sizes=sizes.astype(np.uint32),
        footer_sizes=(sizes - starts).astype(np.uint32),
        footer_crc32s=crc32s.astype(np.uint32),
    )
