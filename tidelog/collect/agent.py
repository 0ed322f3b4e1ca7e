"""The running agent: one thread follows the files and gathers the next request while another sends the previous one.

While no gateway accepts requests the agent still follows the files, so that a file rotated meanwhile is still open at its turn.
It reads one request ahead, however much is unread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from tidelog.collect import limits
from tidelog.collect.batch import Batch
from tidelog.collect.collector import Collector
from tidelog.collect.counts import Counts
from tidelog.collect.delivery import Delivery
from tidelog.collect.journal import Journal, Level
from tidelog.collect.sink import GatewaySink
from tidelog.collect.state import Intent
from tidelog.errors import ClientClosed


def now_ms() -> int:
    """Return the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Agent:
    """A running agent.

    ``intent``: left by an earlier process. ``once``: end when all present files are read; else at ``stop``. ``on_tick`` is
    called about once a second.
    """

    def __init__(
        self,
        collector: Collector,
        delivery: Delivery,
        sink: GatewaySink,
        counts: Counts,
        journal: Journal,
        *,
        intent: Intent | None = None,
        once: bool = False,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        self._collector = collector
        self._delivery = delivery
        self._sink = sink
        self._counts = counts
        self._journal = journal
        self._intent = intent
        self._once = once
        self._on_tick = on_tick
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._looked = False
        self._scanned_at_s = float("-inf")
        self._told_none = False

    @property
    def incomplete(self) -> str:
        """Description of what this run knows to be missing in the topic; empty: nothing."""
        counts = self._counts
        found = (
            (counts.unread_files, "files that can't be read completely"),
            (counts.lost_bytes, "bytes lost"),
        )
        return "; ".join(f"{what}: {number:,}" for number, what in found if number)

    def stop(self) -> None:
        """Finish the request in flight, store the state, and let ``run`` return. May be called by a signal handler."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Run until the end.

        Raises ``GatewayError`` for problems that only an operator can fix, ``RecordsTooLarge``, and ``OSError`` when the state
        can't be written. Nothing is lost by these: the next run continues from there.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="tidelog-collect") as worker:
            try:
                self._journal.report(Level.INFO, "Started")
                self._look()
                if not self._finish(worker.submit(self._delivery.prepare)):
                    return
                left = self._intent
                if left is not None:
                    self._find_again(left)
                if left is not None and not self._finish(worker.submit(self._delivery.recover, left)):
                    return
                self._follow(worker)
                # A run with ``once`` does not wait to see whether a copy is complete.
                self._count_unsent(ended=self._once)
            finally:
                self._sink.stop(abort=True)

    def _follow(self, worker: ThreadPoolExecutor) -> None:
        sending: Future[None] | None = None
        batch: Batch | None = None
        while not self._stopping.is_set():
            self._look()
            if sending is not None and sending.done():
                sending.result()
                sending = None
            if batch is None:
                # While a request is in flight, a small one waits for more records: it could not be sent now anyway.
                batch = self._collector.next_batch(time.monotonic(), now_ms(), full_only=sending is not None)
            if sending is None and batch is not None:
                sending, batch = self._submit(worker, batch), None
                continue
            if sending is None:
                self._delivery.settle()
                if self._once and self._is_finished():
                    return
            self._wake.wait(limits.POLL_INTERVAL_S)
            self._wake.clear()
        if sending is None or self._finish(sending):
            self._delivery.settle()

    def _find_again(self, intent: Intent) -> None:
        """Wait for the copy of a file that may be in the middle of its rotation."""
        until_s = time.monotonic() + limits.COPY_WAIT_S
        while self._collector.read_again(intent.ranges)[1] and time.monotonic() < until_s:
            if self._stopping.wait(limits.POLL_INTERVAL_S):
                return
            self._look(again=True)

    def _submit(self, worker: ThreadPoolExecutor, batch: Batch) -> Future[None]:
        future = worker.submit(self._delivery.deliver, batch)
        future.add_done_callback(lambda _: self._wake.set())
        return future

    def _finish(self, future: Future[Any]) -> bool:
        """Wait for the future while following the files. Returns False if the agent stopped first, with the outcome in doubt."""
        while not future.done() and not self._stopping.is_set():
            self._look()
            wait([future], limits.POLL_INTERVAL_S)
        # If no gateway answers there is nothing to wait for.
        wait([future], 0 if self._sink.waits.is_set() else limits.STOP_WAIT_S)
        if not future.done():
            self._sink.stop(abort=True)
        try:
            future.result()
        except ClientClosed:
            return False
        return True

    def _look(self, *, again: bool = False) -> None:
        now_s = time.monotonic()
        if self._once and self._looked and not again:
            # Only what exists at the start is sent: a busy writer would keep the agent from ending.
            return
        self._looked = True
        if now_s - self._scanned_at_s >= limits.SCAN_INTERVAL_S:
            self._collector.scan(now_s, now_ms())
            self._scanned_at_s = time.monotonic()
            files, open_files = self._collector.open_count()
            if not files and not self._told_none:
                self._told_none = True
                self._journal.report(Level.WARNING, "No file matches the patterns")
            self._counts.observe(
                unread_bytes=self._collector.unread_bytes(),
                files=files,
                open_files=open_files,
                waiting=self._sink.waits.is_set(),
            )
            self._count_unsent(ended=False)
            self._on_tick()
        self._collector.look(now_s)

    def _count_unsent(self, *, ended: bool) -> None:
        """Count the files that are left out or can't be read. ``ended``: no more data is expected, and all are reported."""
        self._counts.set_skipped(self._collector.count_skipped(report=ended))
        self._counts.set_unread(self._collector.unread_files(ended=ended))

    def _is_finished(self) -> bool:
        return not self._collector.has_unfinished_lines
