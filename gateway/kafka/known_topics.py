"""Topics by their ids: Kafka's newer requests name no topic by its name.

Ids are learned from what this gateway tells clients. What another gateway told it learns by a look at all topics, at most
one every ``LOOK_MS``.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from gateway.log_engine import LogEngine
from log_format.errors import BackOff
from log_format.topic.state import TopicState

KNOWN_MAX: Final = 100_000
"""Some 300 bytes each."""
LOOK_MS: Final = 5_000
_PAGE: Final = 1_000


class KnownTopics:
    """Belongs to the event loop."""

    def __init__(self, engine: LogEngine) -> None:
        self._engine = engine
        self._names: OrderedDict[uuid.UUID, str] = OrderedDict()
        self._looked_ms: int | None = None

    def learn(self, topic_id: uuid.UUID, name: str) -> None:
        """The topic has this id."""
        if self._names.get(topic_id) != name:
            self._names[topic_id] = name
            if len(self._names) > KNOWN_MAX:
                self._names.popitem(last=False)

    def told(self, state: TopicState) -> uuid.UUID | None:
        """The topic's id as a client is told it: the client may use it at once."""
        if state.topic_id is None:
            return None
        topic_id = uuid.UUID(state.topic_id)
        self.learn(topic_id, state.topic)
        return topic_id

    def is_of(self, topic_id: uuid.UUID | None, state: TopicState) -> bool:
        """Whether the id, if one was given, is the topic's: it may have been re-created under its name. Else it is forgotten."""
        if topic_id is None or (state.topic_id is not None and topic_id == uuid.UUID(state.topic_id)):
            return True
        self._names.pop(topic_id, None)
        return False

    async def name(self, topic_id: uuid.UUID | None) -> str | None:
        """The topic's name; None where no topic is known to have the id, or that can't be looked up now: clients then ask for
        metadata, and again."""
        try:
            return await self.looked_up(topic_id)
        except BackOff:
            return None

    async def looked_up(self, topic_id: uuid.UUID | None) -> str | None:
        """The topic's name; None where no topic is known to have the id. Raises as ``Administration.page``."""
        if topic_id is None:
            return None
        known = self._names.get(topic_id)
        now_ms = self._engine.clock.monotonic_ms()
        if known is None and (self._looked_ms is None or now_ms - self._looked_ms >= LOOK_MS):
            self._looked_ms = now_ms
            await self._look()
            known = self._names.get(topic_id)
        return known

    async def current(self, topic_id: uuid.UUID | None, is_allowed: Callable[[str], bool]) -> str | None:
        """The name of the topic that has the id now, by a look at it: it may have been deleted, and made anew under its name.
        What the caller has no right to costs the store no look.

        Raises as ``Administration.page``.
        """
        name = await self.looked_up(topic_id)
        if name is None or not is_allowed(name):
            return name
        opened = await self._engine.topics.fresh(name, self._engine.clock.monotonic_ms())
        return name if self.is_of(topic_id, opened.state) else None

    async def _look(self) -> None:
        after: str | None = ""
        while after is not None:
            page = await self._engine.administration.page("", after, _PAGE)
            for state in page.topics:
                self.told(state)
            after = page.next_after
