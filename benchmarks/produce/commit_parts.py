"""``commit_parts.py``: prints as JSON the least CPU in µs of the parts of a commit of few records, by the tree that Python finds.

Each part runs alone and warm: in a gateway, between other work, it takes more.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from typing import Final

import numpy as np
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from gateway.kafka.wire.batch_head import read_head
from gateway.kafka.wire.decoding import decode_together
from log_format.records.single import RecordAtOffset, SingleRecord
from log_format.segments.segment import encode_segment
from log_format.segments.single_record_encoding import encode_single_record
from log_format.stores import open_store
from log_format.topic.append import assign_offsets
from log_format.topic.batch import Batch

CALLS: Final = 40
ROUNDS: Final = 25
BATCHES: Final = 5
RECORDS: Final = 146
NOW_MS: Final = 1_700_000_000_000


def _least_us(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        for _ in range(CALLS):
            call()
        best = min(best, (time.process_time_ns() - began) / CALLS / 1000)
    return best


def main() -> int:
    """Measure and print."""
    chance = random.Random(1)
    encoded = []
    for _ in range(BATCHES):
        batch = DefaultRecordBatchBuilder(2, 0, 0, 1, 0, 0, 1 << 20)
        for number in range(RECORDS):
            batch.append(number, NOW_MS, None, bytes(chance.choices(range(65, 91), k=100)), [])
        encoded.append(memoryview(bytes(batch.build())))
    heads = [read_head(each) for each in encoded]
    decoded = decode_together(heads, encoded, -1, 1 << 20)
    batches = [
        Batch(topic_id="t", records=decoded.slice(number * RECORDS, RECORDS), partitions=0, record_bytes_max=100)
        for number in range(BATCHES)
    ]
    start = np.zeros(1, np.int64)
    placed = assign_offsets(batches, start, log_append_time=False)
    single = RecordAtOffset(0, 1, SingleRecord(NOW_MS, None, bytes(100)))
    numbers = count()
    with tempfile.TemporaryDirectory() as scratch:
        store = open_store(f"file://{scratch}")

        def two_puts() -> None:
            number = next(numbers)
            store.put(f"topics/t/segments/{number}.parquet", bytes(2_500))
            store.put_if_absent(f"topics/t/_delta_log/{number:020}.json", bytes(900))

        parts = {
            f"decode {BATCHES} batches of {RECORDS}": lambda: decode_together(heads, encoded, -1, 1 << 20),
            "place them": lambda: assign_offsets(batches, start, log_append_time=False),
            "encode their segment": lambda: encode_segment(placed, compression="zstd"),
            "encode a segment of one record": lambda: encode_single_record(single, compression="zstd"),
            "two PUTs, directory": two_puts,
        }
        print(json.dumps({name: _least_us(part) for name, part in parts.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
