"""The cost of encoding and decoding a segment, in the chosen way and in the rejected ones.

``python -m benchmarks.segment_encoding`` prints the figures of docs/decisions/002-segment-encoding.md: CPU time of one core (the
best of several runs, since other work may share the machine), records per second of it, and stored bytes. The floor of each
block is the same records written uncompressed by the bare Parquet writer, without checksums.
"""

from __future__ import annotations

import io
import itertools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from log_format.records.partitioner import partition_for_keys
from log_format.records.schema import RECORD_SCHEMA, TIMESTAMP
from log_format.segments.segment import decode_footer, decode_row_group, encode_segment

PARTITION_COUNT = 8
VALUE_BYTES = 100
START_MS = 1_763_683_200_000
INTEGERS = dict.fromkeys(("partition", "offset", "timestamp"), "DELTA_BINARY_PACKED")
PLAIN = INTEGERS | {"key": "PLAIN", "value": "PLAIN"}
CHOSEN: dict[str, Any] = {
    "use_dictionary": [],
    "column_encoding": PLAIN,
    "compression": dict.fromkeys(("timestamp", "key", "value"), "zstd"),
    "write_statistics": ["partition", "offset", "timestamp"],
    "store_schema": False,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "floor: nothing compressed": {"compression": "none"},
    "chosen options, bare writer": {},
    "pyarrow's defaults, zstd": {
        "use_dictionary": True,
        "column_encoding": None,
        "compression": "zstd",
        "write_statistics": True,
        "store_schema": True,
    },
    "all columns compressed": {"compression": "zstd"},
    "timestamp not compressed": {"compression": dict.fromkeys(("key", "value"), "zstd")},
    "partition plain": {"column_encoding": PLAIN | {"partition": "PLAIN"}},
    "partition dictionary": {
        "use_dictionary": ["partition"],
        "column_encoding": {name: encoding for name, encoding in PLAIN.items() if name != "partition"},
    },
    "key dictionary": {
        "use_dictionary": ["key"],
        "column_encoding": {name: encoding for name, encoding in PLAIN.items() if name != "key"},
    },
    "key delta byte array": {"column_encoding": PLAIN | {"key": "DELTA_BYTE_ARRAY"}},
    "value delta length byte array": {"column_encoding": PLAIN | {"value": "DELTA_LENGTH_BYTE_ARRAY"}},
    "data pages version 2": {"data_page_version": "2.0"},
    "page checksums": {"write_page_checksum": True},
    "zstd level 3": {"compression_level": dict.fromkeys(("timestamp", "key", "value"), 3)},
}
COMPRESSIONS = ("zstd", "lz4", "snappy", "gzip", "uncompressed")


def make_records(record_count: int, *, kind: str, distinct_keys: int = 5_000) -> pa.Table:
    """Records of 100-byte values over eight partitions; ``kind`` is ``json`` or ``random`` (incompressible)."""
    generator = np.random.default_rng(1)
    partitions = np.sort(np.arange(record_count, dtype=np.int32) % PARTITION_COUNT)
    offsets = np.concatenate([np.arange(count) for count in np.bincount(partitions)])
    if kind == "json":
        rows = zip(*(generator.integers(0, most, record_count).tolist() for most in (10**6, 50, 977)), strict=True)
        texts = [
            f'{{"user":"user-{user}","amount":{amount},"currency":"EUR","item":"item-{item}"'
            for user, amount, item in rows
        ]
        values = pa.array([f'{text},"note":"'.ljust(VALUE_BYTES - 2, "x") + '"}' for text in texts]).cast(pa.binary())
    else:
        content = generator.bytes(record_count * VALUE_BYTES)
        ends = np.arange(0, len(content) + 1, VALUE_BYTES, dtype=np.int32)
        values = pa.Array.from_buffers(pa.binary(), record_count, [None, pa.py_buffer(ends), pa.py_buffer(content)])
    times = (START_MS + np.sort(generator.integers(0, 250, record_count))) * 1000
    return pa.table(
        [
            pa.array(partitions),
            pa.array(offsets),
            pa.array(times).cast(TIMESTAMP),
            pa.array([f"user-{key}" for key in generator.integers(0, distinct_keys, record_count)]).cast(pa.binary()),
            values,
            pa.nulls(record_count, RECORD_SCHEMA.field("headers").type),
        ],
        schema=RECORD_SCHEMA,
    )


def cpu_seconds(work: Callable[[], object], *, rounds: int) -> float:
    """The least CPU time of this process for ``work``."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def bare(records: pa.Table, options: dict[str, Any], *, sink: Any = None) -> Any:
    """The records as Parquet with a row group a partition, without Tidelog's additions. ``sink``: pyarrow's own by default."""
    sink = pa.BufferOutputStream() if sink is None else sink
    changes = np.flatnonzero(np.diff(records.column("partition").to_numpy(), prepend=-1)).tolist()
    with pq.ParquetWriter(sink, RECORD_SCHEMA, **(CHOSEN | options)) as writer:
        for start, end in zip(changes, [*changes[1:], len(records)], strict=True):
            writer.write_table(records.slice(start, end - start), row_group_size=end - start)
    return sink


def line(name: str, record_count: int, seconds: float, size_bytes: int | None = None) -> None:
    """Print one figure."""
    size = f"{size_bytes:>11,} B" if size_bytes is not None else ""
    print(f"  {name:<34}{seconds * 1e3:>9.2f} ms {record_count / seconds / 1e6:>7.2f} M records/s {size}")


def measure(record_count: int, kind: str, *, distinct_keys: int) -> None:
    """One block: encoding in every way, and reading back."""
    records = make_records(record_count, kind=kind, distinct_keys=distinct_keys)
    rounds = 30 if record_count < 1000 else 5
    print(f"\n{record_count:,} records, {PARTITION_COUNT} partitions, {kind} values, {distinct_keys:,} distinct keys")
    for name, options in VARIANTS.items():
        size_bytes = bare(records, options).getvalue().size
        line(name, record_count, cpu_seconds(lambda chosen=options: bare(records, chosen), rounds=rounds), size_bytes)
    for compression in COMPRESSIONS:
        segment = encode_segment(records, compression=compression)
        seconds = cpu_seconds(lambda chosen=compression: encode_segment(records, compression=chosen), rounds=rounds)
        line(f"encode_segment, {compression}", record_count, seconds, len(segment.data))
    segment = encode_segment(records, compression="zstd")
    ref, footer_bytes = segment.ref("segments/measured.parquet"), segment.data[segment.footer_start :]
    footer = decode_footer(footer_bytes, ref)
    line(
        "decode_footer",
        record_count,
        cpu_seconds(lambda: decode_footer(footer_bytes, ref), rounds=rounds),
        len(footer_bytes),
    )
    group = footer.row_groups[-1]
    data = segment.data[group.start : group.end]
    seconds = cpu_seconds(lambda: decode_row_group(footer, len(footer.row_groups) - 1, data), rounds=rounds)
    line("decode_row_group, the last", group.record_count, seconds, len(data))


def measure_partitioner() -> None:
    """Keys hashed per second."""
    generator = np.random.default_rng(1)
    print("\npartition_for_keys, 200,000 keys")
    for name, template in (("6 bytes", "N{:05d}"), ("5 to 11 bytes", "user-{}"), ("36 bytes", "{:036d}")):
        keys = pa.array([template.format(number) for number in generator.integers(0, 100_000, 200_000)]).cast(
            pa.binary()
        )
        line(name, len(keys), cpu_seconds(lambda chosen=keys: partition_for_keys(chosen, PARTITION_COUNT), rounds=5))


def measure_beside_a_busy_thread() -> None:
    """Wall time beside a thread that never pauses: the cost of giving up the interpreter's lock and getting it back."""
    records = make_records(80_000, kind="json")
    print("\n80,000 records, wall time beside a thread that never rests (median of 10)")
    stop = threading.Event()
    busy = threading.Thread(target=lambda: all(not stop.is_set() for _ in itertools.count()))
    busy.start()
    try:
        for name, work in (
            ("encode_segment, native sink", lambda: encode_segment(records, compression="zstd")),
            ("bare writer, sink in Python", lambda: bare(records, {}, sink=io.BytesIO())),
        ):
            seconds = []
            for _ in range(10):
                start = time.perf_counter()
                work()
                seconds.append(time.perf_counter() - start)
            line(name, len(records), sorted(seconds)[5])
    finally:
        stop.set()
        busy.join()


def main() -> None:
    """Print every block."""
    pa.set_cpu_count(1)
    print(f"Python {sys.version.split()[0]}, pyarrow {pa.__version__}")
    for record_count in (100, 10_000, 80_000):
        for kind in ("json", "random"):
            measure(record_count, kind, distinct_keys=5_000)
    measure(10_000, "json", distinct_keys=50)
    measure_partitioner()
    measure_beside_a_busy_thread()


if __name__ == "__main__":
    main()
