"""The log of one topic: the table below ``topics/<topic>/``, and how a checkpoint of it becomes a ``TopicState``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from log_format import layout
from log_format.checkpoints.state import read_checkpoint
from log_format.clock import Clock
from log_format.delta.log import Map, TableLog
from log_format.delta.table import Table
from log_format.store import ObjectStore
from log_format.topic.state import TopicState


def topic_table(topic: str) -> Table[TopicState]:
    """The root of a topic's table and how it is read."""

    def state_of(data: bytes, version: int) -> TopicState:
        return read_checkpoint(data, topic, version)

    return Table(
        root=layout.topic_root(topic),
        label=f"topic {topic!r}",
        fields={"topic": topic},
        absent=partial(TopicState.absent, topic),
        read_checkpoint=state_of,
    )


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
