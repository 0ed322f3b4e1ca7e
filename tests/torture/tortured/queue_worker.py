"""``python queue_worker.py``: a process that works through a queue with the SDK's ``QueueConsumer``, until SIGTERM or worse.

It notes each handler's beginning and end in a file before it does anything else: what it noted stands, whenever it is killed.
What a handler does with a record follows from the record's value (``deed_of``).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))

from tidelog import QueueConsumer, QueueRecord, TidelogError

DEEDS = {0: "fail", 1: "fail at first", 2: "slow", 3: "slow", 4: "die at first", 5: "exit at first", 6: "reject"}
"""By the value's checksum modulo 60; all other records are accepted at once."""
FIRST = 2
"""What is done at first is done in the first two deliveries."""
BREAKS = (1, 1, 2, 5, 30)
"""After how many records an iteration is left."""


def deed_of(value: str) -> str:
    """What handlers do with the record."""
    return DEEDS.get(zlib.crc32(value.encode()) % 60, "accept")


class Notes:
    """A line of JSON for each event, in one write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, what: str, record: QueueRecord) -> None:
        """What happens to a record now."""
        value = (record.value or b"").decode()
        line = [what, time.monotonic(), value, record.partition, record.offset, record.delivery_count]
        os.write(self._file, json.dumps(line).encode() + b"\n")


def handle(notes: Notes, record: QueueRecord) -> None:
    """Do what the record's value says."""
    notes.note("begin", record)
    deed, is_early = deed_of((record.value or b"").decode()), record.delivery_count <= FIRST
    if deed == "fail" or (deed == "fail at first" and is_early):
        raise ValueError("this record fails")
    if deed == "die at first" and is_early:
        os.kill(os.getpid(), signal.SIGKILL)
    if deed == "exit at first" and is_early:
        raise SystemExit(0)
    if deed == "slow":
        time.sleep(random.uniform(0.2, 1.0))
    if deed == "reject":
        record.reject("not wanted")
        return
    notes.note("accept", record)
    record.accept().add_done_callback(
        lambda done: notes.note("accepted" if done.exception() is None else "not accepted", record)
    )


def iterate(queue: QueueConsumer, notes: Notes) -> None:
    """Handle some records one by one, and leave."""
    left = random.choice(BREAKS)
    for record in queue:
        handle(notes, record)
        left -= 1
        if not left:
            break


def main() -> int:
    """Work until told to stop. A consumer that fails, or is left, is closed, and the next one begins."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--urls", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--workers", type=int, required=True, help="of run; 0: iterate")
    arguments = parser.parse_args()
    notes = Notes(arguments.notes)
    stopped: list[QueueConsumer | None] = [None]
    is_over: list[bool] = []

    def stop(*_: Any) -> None:
        is_over.append(True)
        if stopped[0] is not None:
            stopped[0].stop()

    signal.signal(signal.SIGTERM, stop)
    while not is_over:
        urls = arguments.urls.split(",")
        random.shuffle(urls)
        with QueueConsumer(arguments.queue, bootstrap_servers=urls, request_timeout_ms=5_000) as queue:
            stopped[0] = queue
            try:
                if is_over:
                    break
                if arguments.workers:
                    queue.run(partial(handle, notes), workers=arguments.workers)
                else:
                    iterate(queue, notes)
            except (TidelogError, ValueError, SystemExit) as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
