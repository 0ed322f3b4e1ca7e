"""Judges batches of many topics at one state of a journal, one after the other, and says which places they get.

Each batch comes with its topic's number, as the topic's own log has it. The journal takes the batch where it has the topic open
under the same number. A topic that the journal does not have yet is attached by the same commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from log_format import limits
from log_format.errors import BackOff, ErrorCode, TidelogError
from log_format.journal.entries import Attach, Entry
from log_format.journal.notes import news
from log_format.journal.state import JournalState
from log_format.journal.topics import JournalTopic, TopicsEdit
from log_format.segments.run import Run
from log_format.topic.append import Asked, mismatch
from log_format.topic.appended import Appended, Duplicate
from log_format.topic.producers import Counts, ProducerStamp, SequenceCheck, same_request

Verdict = Duplicate | TidelogError | int | None
"""Of one batch. None: append it. A number: it repeats the request of that batch of this commit."""


class OfTopic:
    """What one commit has for one topic so far."""

    __slots__ = ("applied", "check", "counts", "taken", "topic")

    def __init__(self, topic: JournalTopic) -> None:
        self.topic = topic
        self.check: SequenceCheck | None = None
        """Made for the first stamped batch."""
        self.counts: dict[int, int] = {}
        """Records before the batch at hand, by partition."""
        self.taken: dict[tuple[ProducerStamp, Counts], int] = {}
        self.applied: dict[str, int] = {}

    def base(self, partition: int) -> int:
        """The offset of the next record."""
        return int(self.topic.next_offsets[partition]) + self.counts.get(partition, 0)


class Judging:
    """One commit on top of ``state``. ``notes``: entries before all batches, where they still say something new.

    ``assume_order``: batches that are only ahead of others are taken.
    """

    def __init__(
        self, state: JournalState, now_ms: int, *, notes: Sequence[Entry] = (), assume_order: bool = False
    ) -> None:
        self._edit = TopicsEdit(state.topics)
        self._now_ms = now_ms
        self._assume_order = assume_order
        self._topics: dict[str, OfTopic] = {}
        self._runs_left = limits.JOURNAL_RUNS_MAX
        self.entries: list[Entry] = news(notes, self._edit, now_ms)
        """Those that go before the batches."""

    def topic(self, topic_id: str, number: int, attaching: Callable[[], Attach] | None) -> OfTopic | None:
        """The topic, open under ``number``; by ``attaching`` where that is needed. None where it is not, and can't be."""
        of_topic = self._topics.get(topic_id)
        if of_topic is None:
            topic = self._edit.by_id.get(topic_id)
            if topic is None or not topic.is_open:
                if attaching is None or _is_closed(self._edit, topic_id, number):
                    return None
                entry = attaching()
                self._edit.take([entry], self._now_ms)
                self.entries.append(entry)
            of_topic = self._topics[topic_id] = OfTopic(self._edit.by_id[topic_id])
        return of_topic if _is_open_for(of_topic.topic, number) else None

    def verdict(self, asked: Asked, of_topic: OfTopic, refused: TidelogError | None = None) -> Verdict:
        """On one batch, given those that were taken. ``refused``: why the topic's settings refuse it."""
        verdict: Verdict = None
        if asked.stamp is not None:
            same = of_topic.taken.get(same_request(asked.stamp, asked.counts))
            verdict = same if same is not None else self._sequences(of_topic).judge(asked.stamp, asked.counts)
        if verdict is None and asked.transaction is not None:
            same = of_topic.applied.get(asked.transaction.transaction_id)
            verdict = same if same is not None else of_topic.topic.transactions.judge(asked.transaction)
        if verdict is None:
            verdict = refused
        if verdict is None and not self._assume_order:
            verdict = mismatch(asked, of_topic.topic.next_offsets, of_topic.counts)
        if verdict is None and len(asked.counts) > self._runs_left:
            begun = sum(partition not in of_topic.counts for partition, _ in asked.counts)
            verdict = _too_many(of_topic.topic.name) if begun > self._runs_left else None
        return verdict

    def take(self, number: int, asked: Asked, of_topic: OfTopic) -> tuple[Appended, ...]:
        """The batch, the ``number``-th, is appended: its places."""
        counts = of_topic.counts
        begun = len(counts)
        places = []
        for partition, count in asked.counts:
            before = counts.get(partition, 0)
            places.append(Appended(partition, int(of_topic.topic.next_offsets[partition]) + before, count))
            counts[partition] = before + count
        if asked.stamp is not None:
            of_topic.taken[same_request(asked.stamp, asked.counts)] = number
            self._sequences(of_topic).take(asked.stamp, asked.counts)
        if asked.transaction is not None:
            of_topic.applied[asked.transaction.transaction_id] = number
        self._runs_left -= len(counts) - begun
        return tuple(places)

    def take_plain(self, runs: Sequence[Run], of_topic: OfTopic) -> bool:
        """As ``verdict`` and ``take`` of batches with these runs together, of which nothing but the number of runs is judged: no
        stamp, no expected offset, no transaction. False: they are too many, and the commit is without them."""
        counts = of_topic.counts
        begun = len(counts)
        for run in runs:
            counts[run.partition] = counts.get(run.partition, 0) + run.record_count
        self._runs_left -= len(counts) - begun
        return self._runs_left >= 0

    def _sequences(self, of_topic: OfTopic) -> SequenceCheck:
        if of_topic.check is None:
            topic = of_topic.topic
            of_topic.check = SequenceCheck(
                topic.producers, self._now_ms, topic.settings[0], assume_order=self._assume_order
            )
        return of_topic.check


def _is_closed(edit: TopicsEdit, topic_id: str, number: int) -> bool:
    """Whether the number can't be attached any more."""
    return number <= edit.closed_number(topic_id)


def _is_open_for(topic: JournalTopic, number: int) -> bool:
    """Whether the settings that the batches were judged by are those of the open number."""
    return topic.number == number


def _too_many(topic: str) -> TidelogError:
    return BackOff(
        f"Too many partitions are written at once: the records of topic {topic!r} were not.",
        code=ErrorCode.OVERLOADED,
    )
