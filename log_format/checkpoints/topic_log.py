"""The log of one topic: the table below ``topics/<topic>/``, and how a checkpoint of it becomes a ``TopicState``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from log_format import layout
from log_format.checkpoints.state import read_checkpoint
from log_format.clock import Clock
from log_format.delta.log import Map, TableLog
from log_format.delta.table import TableDescription
from log_format.store import ObjectStore
from log_format.topic.state import TopicState


class TopicTable:
    """See ``TableDescription``. It keeps the name alone: a gateway may have thousands open."""

    __slots__ = ("_topic",)

    def __init__(self, topic: str) -> None:
        self._topic = topic

    @property
    def root(self) -> str:
        """See ``TableDescription``."""
        return layout.topic_root(self._topic)

    @property
    def label(self) -> str:
        """See ``TableDescription``."""
        return f"topic {self._topic!r}"

    @property
    def fields(self) -> Mapping[str, Any]:
        """See ``TableDescription``."""
        return {"topic": self._topic}

    def absent(self) -> TopicState:
        """See ``TableDescription``."""
        return TopicState.absent(self._topic)

    def read_checkpoint(self, data: bytes, version: int) -> TopicState:
        """See ``TableDescription``."""
        return read_checkpoint(data, self._topic, version)


def topic_table(topic: str) -> TableDescription[TopicState]:
    """The root of a topic's table and how it is read."""
    return TopicTable(topic)


class TopicLog(TableLog[TopicState]):
    """One topic's log: see ``TableLog``."""

    def __init__(
        self,
        store: ObjectStore,
        topic: str,
        clock: Clock,
        *,
        fetch_all: Map = map,
        on_change: Callable[[TopicState], None] | None = None,
    ) -> None:
        super().__init__(store, topic_table(topic), clock, fetch_all=fetch_all, on_change=on_change)
        self.topic = topic
