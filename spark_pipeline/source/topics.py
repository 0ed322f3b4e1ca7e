"""Topics of a query, each with its log, loaded once and kept fresh commit by commit.

1. A look costs one request per topic if nothing changed, and with a pattern one listing of the topics' names. A topic's first
   look loads its newest checkpoint and the commits after it.
2. Topics at a journal cost one request for all of them (``log_format.journal.refresh``). A state includes what only the journal
   has.
3. A recreated topic has another id (``TopicsView.ids``), and nothing in common with the one that was read before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from log_format import layout
from log_format.checkpoints.journal_log import JournalLogs
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.errors import RequestRefused, UnknownPartition, UnknownTopic
from log_format.journal.refresh import refresh_topics
from log_format.records.typed_columns import TypedColumns
from log_format.store import ObjectStore
from log_format.topic.config import check_topic_name
from log_format.topic.state import TopicState
from spark_pipeline.source.offsets import Positions
from spark_pipeline.source.options import Subscription

_REQUESTS_AT_ONCE: Final = 8
"""Number of concurrent looks at topics, and of concurrent fetches of one log's commits."""


@dataclass(frozen=True, slots=True)
class TopicsView:
    """Topics at one look: states and read partitions, by name."""

    states: dict[str, TopicState]
    partitions: dict[str, tuple[int, ...]]

    def ids(self) -> dict[str, str]:
        """Return the id of each topic."""
        return {topic: str(state.topic_id) for topic, state in self.states.items()}

    def ends(self) -> Positions:
        """Return the next offset of every partition that is read."""
        return {
            topic: {partition: self.states[topic].high_watermark(partition) for partition in partitions}
            for topic, partitions in self.partitions.items()
        }

    def starts(self) -> Positions:
        """Return the first readable offset of every partition that is read."""
        return {
            topic: {partition: self.states[topic].log_start(partition) for partition in partitions}
            for topic, partitions in self.partitions.items()
        }


class Topics:
    """Topics of one subscription in one store. For one thread."""

    def __init__(self, store: ObjectStore, subscription: Subscription) -> None:
        self._store = store
        self._subscription = subscription
        self._logs: dict[str, TopicLog] = {}
        self._pool = ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="tidelog-topics")
        self._commits = ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="tidelog-commits")
        self._journals = JournalLogs(store, SystemClock(), fetch_all=self._commits.map)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()
        self._commits.shutdown()

    def look(self, also: Iterable[str] = ()) -> TopicsView:
        """Return the subscription's current topics, and those of ``also`` that exist.

        Raises ``UnknownTopic`` for a missing topic that the subscription names, ``UnknownPartition`` for such a partition. A
        pattern may match none. Raises ``StoreUnavailable``, ``CorruptData``.
        """
        wanted = dict.fromkeys([*self._names(), *also])
        logs = [self._log(topic) for topic in wanted]
        states = refresh_topics(logs, self._journals.get, self._pool.map)
        found = {state.topic: state for state in states if state.exists}
        for topic in self._subscription.topics:
            if topic not in found:
                raise UnknownTopic(topic)
        return TopicsView(found, {name: self._partitions(state) for name, state in found.items()})

    def columns(self) -> list[TypedColumns]:
        """Return the typed columns of each topic that exists. Raises ``StoreUnavailable``, ``CorruptData``."""
        states = self._pool.map(TopicLog.refresh, [self._log(topic) for topic in self._names()])
        return [state.columns for state in states if state.exists]

    def _names(self) -> Iterable[str]:
        if self._subscription.pattern is None:
            return self._subscription.topics
        matches = re.compile(self._subscription.pattern).fullmatch
        return [name for name in self._store.list_directories(layout.TOPICS) if matches(name) and _is_topic_name(name)]

    def _log(self, topic: str) -> TopicLog:
        log = self._logs.get(topic)
        if log is None:
            log = self._logs[topic] = TopicLog(self._store, topic, SystemClock(), fetch_all=self._commits.map)
        return log

    def _partitions(self, state: TopicState) -> tuple[int, ...]:
        assigned = self._subscription.assigned
        if assigned is None:
            return tuple(range(state.partition_count))
        for partition in assigned[state.topic]:
            if partition >= state.partition_count:
                raise UnknownPartition(state.topic, partition, state.partition_count)
        return assigned[state.topic]


def _is_topic_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except RequestRefused:
        return False
    return True
