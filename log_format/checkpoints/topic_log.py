"""The log of one topic: its table at ``topics/<topic>/``, and loading a ``TopicState`` from a checkpoint."""

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
    """The description of a topic's table. It keeps only the name, since a gateway may have thousands of topics open."""

    __slots__ = ("_topic",)

    def __init__(self, topic: str) -> None:
        self._topic = topic

    @property
    def root(self) -> str:
        """Key prefix of all objects of the table, ending with a slash."""
        return layout.topic_root(self._topic)

    @property
    def label(self) -> str:
        """Name of the table in errors."""
        return f"topic {self._topic!r}"

    @property
    def fields(self) -> Mapping[str, Any]:
        """Fields of every error about the table."""
        return {"topic": self._topic}

    def absent(self) -> TopicState:
        """Return the state before the first commit."""
        return TopicState.absent(self._topic)

    def read_checkpoint(self, data: bytes, version: int) -> TopicState:
        """Return the state in a checkpoint's bytes at its version. Raises ``CorruptData``."""
        return read_checkpoint(data, self._topic, version)


def topic_table(topic: str) -> TableDescription[TopicState]:
    """Return the description of a topic's table."""
    return TopicTable(topic)


class TopicLog(TableLog[TopicState]):
    """The log of one topic's table."""

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
