"""Counters of the agent, also as Prometheus metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from log_format.words import counted


class Counts:
    """Counters of one agent. Thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._records = self._counter("tidelog_collect_records", "Records stored in the topic.")
        self._file_bytes = self._counter("tidelog_collect_file_bytes", "Bytes of files stored in the topic.")
        self._requests = self._counter("tidelog_collect_requests", "Requests stored.")
        self._duplicates = self._counter(
            "tidelog_collect_duplicate_requests", "Requests that a retry found already stored."
        )
        self._lost_bytes = self._counter(
            "tidelog_collect_lost_bytes", "Bytes of files that may be missing from the topic; the log names them."
        )
        self._unread_bytes = self._gauge("tidelog_collect_unread_bytes", "Bytes of files not sent yet.")
        self._files = self._gauge("tidelog_collect_files", "Files in the state file.")
        self._open_files = self._gauge("tidelog_collect_open_files", "Files that are open.")
        self._left_out = self._gauge(
            "tidelog_collect_left_out_files", "Files skipped as copies of others; the log names them."
        )
        self._unread_files = self._gauge(
            "tidelog_collect_unread_files", "Files that can't be read completely; the log names them."
        )
        self._waiting = self._gauge("tidelog_collect_waiting", "1 while no gateway accepts requests.")
        self._stored_at = self._gauge(
            "tidelog_collect_last_stored_timestamp_seconds", "Time of the last stored request, since the epoch."
        )
        self.record_count = 0
        self.file_bytes = 0
        self.duplicate_count = 0
        self.lost_bytes = 0
        self.unread_bytes = 0
        self.left_out_files = 0
        self.unread_files = 0
        self.waiting = False

    def stored(self, *, records: int, file_bytes: int, duplicate: bool) -> None:
        """Count a stored request."""
        self.record_count += records
        self.file_bytes += file_bytes
        self._records.inc(records)
        self._file_bytes.inc(file_bytes)
        self._requests.inc()
        if duplicate:
            self.duplicate_count += 1
            self._duplicates.inc()
        self._stored_at.set_to_current_time()

    def lost(self, size_bytes: int) -> None:
        """Count bytes that may be missing."""
        self.lost_bytes += size_bytes
        self._lost_bytes.inc(size_bytes)

    def set_skipped(self, files: int) -> None:
        """Set the number of files that are left out."""
        self.left_out_files = files
        self._left_out.set(files)

    def set_unread(self, files: int) -> None:
        """Set the number of files that can't be read to their end."""
        self.unread_files = files
        self._unread_files.set(files)

    def observe(self, *, unread_bytes: int, files: int, open_files: int, waiting: bool) -> None:
        """Set the current gauges."""
        self.unread_bytes = unread_bytes
        self.waiting = waiting
        self._unread_bytes.set(unread_bytes)
        self._files.set(files)
        self._open_files.set(open_files)
        self._waiting.set(waiting)

    def totals(self) -> dict[str, int]:
        """Return the totals so far, by name."""
        return {
            "records": self.record_count,
            "file_bytes": self.file_bytes,
            "duplicate_requests": self.duplicate_count,
            "lost_bytes": self.lost_bytes,
            "left_out_files": self.left_out_files,
            "unread_files": self.unread_files,
        }

    def summary(self) -> str:
        """Return the current status as one line for the user."""
        sent = f"{counted(self.record_count, 'record')}, {self.file_bytes / 1e6:,.1f} MB sent"
        text = f"{sent}, {self.unread_bytes / 1e6:,.1f} MB to go"
        return f"{text}, no gateway" if self.waiting else text

    def _counter(self, name: str, text: str) -> Counter:
        return Counter(name, text, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)
