"""Delivery of one request after another, each into the topic once, whatever happens in between.

For each request the agent stores its sequence and byte ranges, together with the progress of the previous one. It then sends
the request and waits until it is stored. If the agent is killed at any point, the next process finds the intent and sends the
same bytes under the same sequence; the gateway answers a stored request as a duplicate.

A producer id lives as long as the process, and one request longer. Otherwise two machines started from copies of one state file
would take each other's requests for their own.
"""

from __future__ import annotations

from tidelog.calls.producers import ProducerIdentity
from tidelog.collect import limits
from tidelog.collect.batch import Batch
from tidelog.collect.collector import Collector
from tidelog.collect.counts import Counts
from tidelog.collect.journal import Journal, Level
from tidelog.collect.sink import ProducerLost, RecordsTooLarge, Sink
from tidelog.collect.state import Intent, Range
from tidelog.collect.state_file import StateFile


class Delivery:
    """Delivery of one collector's batches."""

    def __init__(self, collector: Collector, sink: Sink, states: StateFile, journal: Journal, counts: Counts) -> None:
        self._collector = collector
        self._sink = sink
        self._states = states
        self._journal = journal
        self._counts = counts
        self._producer: ProducerIdentity | None = None
        self._sequence = 0
        self._dirty = True

    def prepare(self) -> bool:
        """Request the topic's form, and return whether it has changed.

        Raises ``GatewayError`` when there is no such topic, ``ValueError`` when it is unfit.
        """
        return self._collector.set_form(self._sink.topic_form())

    def recover(self, intent: Intent) -> None:
        """Finish the request that the previous process had begun.

        Must be called after the first scan, before anything is gathered.
        """
        batch, lost = self._collector.read_again(intent.ranges)
        stored_ranges = intent.ranges
        if batch is None:
            self._report_lost(lost, "Bytes are in doubt: they were sent without an answer, and can't be read again")
            return
        try:
            stored = self._sink.store(batch.body(), intent.producer, intent.sequence, in_doubt=True)
        except ProducerLost as error:
            self._report_doubtful(batch.ranges, str(error))
            self._report_lost(lost, "Bytes are in doubt: they were sent without an answer, and can't be read again")
            self.deliver(batch)
            stored_ranges = batch.ranges
        except RecordsTooLarge:
            self._journal.report(Level.INFO, "The topic's limit of record size has shrunk, records are split again")
            self.prepare()
            self.recover(intent)
            return
        else:
            self._count(batch, duplicate=stored.duplicate)
            # A duplicate means that the whole request is in the topic, including bytes that can't be read any more.
            if not stored.duplicate:
                stored_ranges = batch.ranges
                self._report_lost(lost, "Bytes are lost: they were not stored, and can't be read again")
        self._collector.resume_after(stored_ranges)
        self._dirty = True

    def deliver(self, batch: Batch) -> None:
        """Store the batch.

        Raises what ``Sink.store`` raises for an operator to fix, and ``OSError`` when the state can't be stored.
        """
        while True:
            if self._producer is None:
                self._producer, self._sequence = self._sink.open_producer(), 0
            intent = Intent(
                producer=self._producer,
                sequence=self._sequence,
                record_count=batch.record_count,
                ranges=batch.ranges,
            )
            self._states.save(self._collector.snapshot(intent))
            try:
                stored = self._sink.store(batch.body(), self._producer, self._sequence, in_doubt=False)
            except ProducerLost as error:
                self._producer = None
                if error.in_doubt:
                    self._report_doubtful(batch.ranges, str(error))
            except RecordsTooLarge as error:
                batch = self._split_again(batch, error)
            else:
                break
        if stored.record_count != batch.record_count:
            self._journal.report(
                Level.ERROR, "The gateway stored another number of records than was sent",
                sent=batch.record_count, stored=stored.record_count, ranges=self._named(batch.ranges),
            )  # fmt: skip
        self._sequence += 1
        self._collector.accept(batch.ranges)
        self._count(batch, duplicate=stored.duplicate)
        self._dirty = True

    def settle(self) -> None:
        """Store the state while nothing is in flight. Raises ``OSError``."""
        if self._dirty:
            self._states.save(self._collector.snapshot(None))
            self._dirty = False

    def _split_again(self, batch: Batch, error: RecordsTooLarge) -> Batch:
        if not self.prepare():
            raise error
        again, lost = self._collector.read_again(batch.ranges)
        self._report_lost(lost, "Bytes are lost: they were not stored, and can't be read again")
        if again is None:
            raise error
        return again

    def _count(self, batch: Batch, *, duplicate: bool) -> None:
        self._counts.stored(records=batch.record_count, file_bytes=batch.file_bytes, duplicate=duplicate)

    def _report_doubtful(self, ranges: tuple[Range, ...], reason: str) -> None:
        self._journal.report(
            Level.ERROR, "Records may be duplicated: whether they were stored before can no longer be found out",
            reason=reason, ranges=self._named(ranges),
        )  # fmt: skip

    def _report_lost(self, lost: list[Range], event: str) -> None:
        if lost:
            self._counts.lost(sum(each.size_bytes for each in lost))
            self._journal.report(Level.ERROR, event, ranges=self._named(tuple(lost)))

    def _named(self, ranges: tuple[Range, ...]) -> list[str]:
        shown = ranges[: limits.MISSING_SHOWN_MAX]
        return [f"{self._collector.path_of(each.file_id)}[{each.start.offset}:{each.end.offset}]" for each in shown]
