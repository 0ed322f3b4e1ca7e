"""Process each record at most once: commit before it. After a crash the last records may be missing, and none comes twice.

``python examples/group_at_most_once.py results.txt`` writes a line for each record of ``orders``. Start it several times: the
processes share the partitions. Ctrl-C ends it.
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
            "orders", group="at-most-once", enable_auto_commit=False, session_timeout_ms=session_timeout_ms
        ) as consumer,
        contextlib.suppress(KeyboardInterrupt),
    ):
        while True:
            records = consumer.poll(timeout_ms=1_000, max_records=10)
            try:
                consumer.commit()
            except (StaleGeneration, UnknownMember):
                continue  # another member owns the partitions now; the next poll gets the new assignment
            for record in records:
                write_down(file, record)


def write_down(file: FileIO, record: Record) -> None:
    """Process a record, as an example."""
    file.write(b"%d@%d %s\n" % (record.partition, record.offset, record.value))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
