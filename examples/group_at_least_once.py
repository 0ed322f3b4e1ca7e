"""Process each record at least once: commit after it. After a crash the last records come again, and none is missing.

``python examples/group_at_least_once.py results.txt`` writes a line for each record of ``orders``. Start it several times: the
processes share the partitions. ``enable_auto_commit`` does the same; an explicit commit chooses the moment. Ctrl-C ends it.
"""

from __future__ import annotations

import contextlib
import sys
from io import FileIO
from pathlib import Path

from tidelog import Consumer, Record
from tidelog.errors import StaleGeneration, UnknownMember


def main(results: str, session_timeout_ms: int = 45_000) -> None:
    """Write records to the file until Ctrl-C."""
    with (
        Path(results).open("ab", buffering=0) as file,
        Consumer(
            "orders", group="at-least-once", enable_auto_commit=False, session_timeout_ms=session_timeout_ms
        ) as consumer,
        contextlib.suppress(KeyboardInterrupt),
    ):
        while True:
            for record in consumer.poll(timeout_ms=1_000, max_records=10):
                write_down(file, record)
            # Another member owns the partitions now and processes these records again; the next poll gets the new assignment.
            with contextlib.suppress(StaleGeneration, UnknownMember):
                consumer.commit()


def write_down(file: FileIO, record: Record) -> None:
    """Process a record, as an example."""
    file.write(b"%d@%d %s\n" % (record.partition, record.offset, record.value))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
