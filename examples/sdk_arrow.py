"""Send and read Arrow tables: columns instead of single records, for millions of them.

Start a gateway first (``tidelog serve --store ./log``), then ``python examples/sdk_arrow.py``. Needs pyarrow.
"""

from __future__ import annotations

import time

import pyarrow as pa
import pyarrow.compute as pc

from tidelog import Admin, Consumer, Producer

ROWS = 1_000_000


def main() -> None:
    """Send a table, read it back, query it."""
    numbers = pa.array(range(ROWS))
    table = pa.table(
        {
            "key": pc.binary_join_element_wise("sensor-", pc.cast(pc.bit_wise_and(numbers, 1023), pa.string()), ""),
            "value": pc.cast(numbers, pa.string()),
        }
    )
    with Admin() as admin:
        admin.create_topic("measurements", partition_count=4, exist_ok=True)
        ends = {partition: offsets.high_watermark for partition, offsets in admin.offsets("measurements").items()}

    with Producer(compression="zstd") as producer:
        began = time.monotonic()
        stored = producer.send_table("measurements", table).result()
        print(f"{stored.count:,} rows stored, {stored.count / (time.monotonic() - began):,.0f} a second")

    with Consumer("measurements") as consumer:
        for place in consumer.assignment():
            consumer.seek(place, ends[place.partition])
        parts: list[pa.Table] = []
        began = time.monotonic()
        while sum(part.num_rows for part in parts) < stored.count:
            parts.append(consumer.poll_arrow(timeout_ms=5_000))
        read = pa.concat_tables(parts)
        print(f"{read.num_rows:,} rows read, {read.num_rows / (time.monotonic() - began):,.0f} a second")
    counts = read.group_by("partition").aggregate([("offset", "count"), ("offset", "max")]).sort_by("partition")
    for row in counts.to_pylist():
        print(row)


if __name__ == "__main__":
    main()
