"""Spark's streams as witnesses of a run with misfortune: whenever a store that is gone ends them, they are started again."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.torture.tortured.checker import Log
from tests.torture.tortured.streams import Streams
from tests.torture.tortured.witness import contradictions, positions, truth_of

READY_SECONDS_MAX = 600.0
LOOK_SECONDS = 0.5


class StreamWitness:
    """One stream of ``format("tidelog")`` over all topics, and one of Delta's own source over ``native``."""

    def __init__(self, directory: Path, topics: dict[str, int], native: str, environment: dict[str, str]) -> None:
        self._native = native
        self._streams = Streams(directory, list(topics), [native], environment)
        self._streams.begin()
        self._restarts = 0
        self._batches = 0
        self._rows = 0
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="streams", daemon=True)
        self._keeper.start()

    def wait_until_ready(self) -> list[str]:
        """Return once the streams run; why they don't."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not self._streams.is_ready:
            if time.monotonic() > deadline:
                return ["Spark's streams do not start"]
            time.sleep(LOOK_SECONDS)
        return []

    def judged(self, log: Log) -> list[str]:
        """Wait until the streams have reached the log's end; what they read that is not as the log has it."""
        ends = {line: len(values) for line, values in log.items()}
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline and not self._has_seen(ends):
            time.sleep(LOOK_SECONDS)
        self.close()
        truth, found = truth_of(log), self._streams.differences
        for name, batches in self._streams.batches().items():
            self._batches += len(batches)
            self._rows += sum(map(len, batches))
            found += contradictions(f"Spark's {name}", batches, truth, {}, self._wanted(name, ends))
        return found

    def counts(self) -> dict[str, int]:
        """How much the streams read, and how often the store ended them."""
        return {
            "streams: micro-batches": self._batches,
            "streams: records": self._rows,
            "streams: started again": self._restarts,
        }

    def close(self) -> None:
        """End the streams."""
        self._ending.set()
        self._keeper.join()
        self._streams.stop()

    def _keep(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            if self._streams.failure is not None:
                self._restarts += 1
                self._streams.start_again()

    def _has_seen(self, ends: dict[tuple[str, int], int]) -> bool:
        return all(
            positions(batches).get(line, 0) >= end
            for name, batches in self._streams.batches().items()
            for line, end in self._wanted(name, ends).items()
        )

    def _wanted(self, name: str, ends: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        return ends if name == "tidelog" else {line: end for line, end in ends.items() if line[0] == self._native}
