"""Judging batches of many topics at one state of a journal, one after another, and assigning their offsets.

Each batch comes with its topic's number, by the topic's own log. The journal accepts the batch if it has the topic open under the
same number. A topic that the journal does not have yet is attached by the same commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from log_format import limits
from log_format.errors import BackOff, ErrorCode, TidelogError
from log_format.journal.entries import Attach, Entry
from log_format.journal.notes import new_entries
from log_format.journal.state import JournalState
from log_format.journal.topics import JournalTopic, TopicsEdit
from log_format.segments.run import Run
from log_format.topic.append import AppendRequest, expected_offset_error
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.producers import Counts, ProducerStamp, SequenceCheck, request_key

Verdict = Duplicate | TidelogError | int | None
"""Verdict on one batch. None: append the batch. A number: the batch repeats the request of the batch with that number in this
commit."""


class TopicJudgement:
    """The part of one commit for one topic so far."""

    __slots__ = ("accepted", "applied", "check", "counts", "topic")

    def __init__(self, topic: JournalTopic) -> None:
        self.topic = topic
        self.check: SequenceCheck | None = None
        """Check of stamps, made for the first stamped batch."""
        self.counts: dict[int, int] = {}
        """Partition -> records of the batches so far."""
        self.accepted: dict[tuple[ProducerStamp, Counts], int] = {}
        self.applied: dict[str, int] = {}

    def base(self, partition: int) -> int:
        """Return the offset that the partition's next record gets."""
        return int(self.topic.next_offsets[partition]) + self.counts.get(partition, 0)


class BatchJudge:
    """The judging of one commit on top of ``state``.

    Args:
        state: the journal.
        now_ms: present time, in ms since the epoch.
        notes: entries to commit before all batches, as far as they still say something new.
        assume_order: accept batches that are ahead, assuming that the missing ones get committed.
    """

    def __init__(
        self, state: JournalState, now_ms: int, *, notes: Sequence[Entry] = (), assume_order: bool = False
    ) -> None:
        self._edit = TopicsEdit(state.topics)
        self._now_ms = now_ms
        self._assume_order = assume_order
        self._topics: dict[str, TopicJudgement] = {}
        self._runs_left = limits.JOURNAL_RUNS_MAX
        self.entries: list[Entry] = new_entries(notes, self._edit, now_ms)
        """Entries to commit before the batches."""

    def topic(self, topic_id: str, number: int, attaching: Callable[[], Attach] | None) -> TopicJudgement | None:
        """Return the topic if it is open under ``number``, attaching it by ``attaching`` if needed; None if that is
        impossible."""
        of_topic = self._topics.get(topic_id)
        if of_topic is None:
            topic = self._edit.by_id.get(topic_id)
            if topic is None or not topic.is_open:
                if attaching is None or _is_closed(self._edit, topic_id, number):
                    return None
                entry = attaching()
                self._edit.apply([entry], self._now_ms)
                self.entries.append(entry)
            of_topic = self._topics[topic_id] = TopicJudgement(self._edit.by_id[topic_id])
        return of_topic if _is_open_under(of_topic.topic, number) else None

    def verdict(self, asked: AppendRequest, of_topic: TopicJudgement, refused: TidelogError | None = None) -> Verdict:
        """Return the verdict on one batch, given those that were accepted. ``refused``: the error if the topic's
        settings refuse it."""
        verdict: Verdict = None
        if asked.stamp is not None:
            same = of_topic.accepted.get(request_key(asked.stamp, asked.counts))
            verdict = same if same is not None else self._sequences(of_topic).judge(asked.stamp, asked.counts)
        if verdict is None and asked.transaction is not None:
            same = of_topic.applied.get(asked.transaction.transaction_id)
            verdict = same if same is not None else of_topic.topic.transactions.judge(asked.transaction)
        if verdict is None:
            verdict = refused
        if verdict is None and not self._assume_order:
            verdict = expected_offset_error(asked, of_topic.topic.next_offsets, of_topic.counts)
        if verdict is None and len(asked.counts) > self._runs_left:
            begun = sum(partition not in of_topic.counts for partition, _ in asked.counts)
            verdict = _too_many_runs_error(of_topic.topic.name) if begun > self._runs_left else None
        return verdict

    def accept(self, number: int, asked: AppendRequest, of_topic: TopicJudgement) -> tuple[AppendedRange, ...]:
        """Append the batch, which has this number in the commit; return its offset ranges."""
        counts = of_topic.counts
        begun = len(counts)
        offset_ranges = []
        for partition, count in asked.counts:
            before = counts.get(partition, 0)
            offset_ranges.append(AppendedRange(partition, int(of_topic.topic.next_offsets[partition]) + before, count))
            counts[partition] = before + count
        if asked.stamp is not None:
            of_topic.accepted[request_key(asked.stamp, asked.counts)] = number
            self._sequences(of_topic).accept(asked.stamp, asked.counts)
        if asked.transaction is not None:
            of_topic.applied[asked.transaction.transaction_id] = number
        self._runs_left -= len(counts) - begun
        return tuple(offset_ranges)

    def accept_plain(self, runs: Sequence[Run], of_topic: TopicJudgement) -> bool:
        """Append batches with these runs, which have no stamp, expected offset or transaction, so that only their number of runs
        is judged.

        Return False if the runs are too many; the commit must then leave them out.
        """
        counts = of_topic.counts
        begun = len(counts)
        for run in runs:
            counts[run.partition] = counts.get(run.partition, 0) + run.record_count
        self._runs_left -= len(counts) - begun
        return self._runs_left >= 0

    def _sequences(self, of_topic: TopicJudgement) -> SequenceCheck:
        if of_topic.check is None:
            topic = of_topic.topic
            of_topic.check = SequenceCheck(
                topic.producers, self._now_ms, topic.settings[0], assume_order=self._assume_order
            )
        return of_topic.check


def _is_closed(edit: TopicsEdit, topic_id: str, number: int) -> bool:
    """Return whether the topic can't be attached under the number any more."""
    return number <= edit.closed_number(topic_id)


def _is_open_under(topic: JournalTopic, number: int) -> bool:
    """Return whether the open number is ``number``, so that the settings by which the batches were judged are the
    present ones."""
    return topic.number == number


def _too_many_runs_error(topic: str) -> TidelogError:
    return BackOff(
        f"Too many partitions are written at once: the records of topic {topic!r} were not written.",
        code=ErrorCode.OVERLOADED,
    )
