"""The topics that are open here, each once. Idle ones are forgotten when there are too many or they take too much memory.

``OpenTopic.memory_bytes`` says how much one takes: manifest, partitions, producers and the rest. The topic at hand is never
forgotten for it. While the topics in use take more than the budget, others are opened only to be mended or deleted: 503
``OVERLOADED``.

Each request that names a missing topic looks it up, and none keeps it: names that a client makes up cost no memory. Requests for
one name at one time share the look. A request that names very many goes by a listing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator

from gateway.call import Call, present_call
from gateway.engine.open_topic import OpenTopic, TopicParts
from gateway.problem import overloaded
from log_format import layout
from log_format.errors import BackOff, RequestRefused, StoreUnavailable, UnknownTopic
from log_format.topic.config import check_topic_name

MISSING_LOOKS_MAX = 200
"""Of one call at names that turn out to be of no topic. From then on it has the names listed once, and looks at what is there."""
_EVICTION_STEP = 64
"""Topics looked at by one eviction: with busy ones at the old end requests must not walk all topics."""


class TopicRegistry:
    """Belongs to the event loop."""

    def __init__(self, parts: TopicParts, topics: OrderedDict[str, OpenTopic]) -> None:
        """``topics``: where they are kept, by name."""
        self._parts = parts
        self._budget = parts.budget
        self._metrics = parts.access.metrics
        self._bounds = parts.access.bounds
        self._topics = topics

    def __iter__(self) -> Iterator[OpenTopic]:
        return iter(list(self._topics.values()))

    def __len__(self) -> int:
        return len(self._topics)

    @property
    def manifest_bytes(self) -> int:
        """Memory of the open topics' manifests."""
        return self._budget.used_bytes

    def known(self, name: str) -> OpenTopic | None:
        """The topic if it is open here."""
        return self._topics.get(name)

    def is_at_journal(self, name: str) -> bool:
        """Whether the topic is at a journal, as far as is known. The journals in use here know their topics by name."""
        known = self._topics.get(name)
        if known is None or not known.log.state.exists:
            return self._parts.journals.has(name)
        return known.log.state.attachment is not None

    def get(self, name: str, *, always: bool = False) -> OpenTopic:
        """The topic's object, made if need be. Nothing is read yet; the topic may not exist.

        Raises ``UnknownTopic`` for a name that no topic can have: it would name other objects of the store. ``BackOff``
        (``OVERLOADED``) where it is not open and the topics in use take too much, unless ``always``.
        """
        topic = self._topics.get(name)
        if topic is None:
            if not is_topic_name(name):
                raise UnknownTopic(name)
            self._evict(None)
            if self._budget.total_bytes > self._budget.bytes_max and not always:
                self._metrics.state_refusals.labels("topics").inc()
                raise overloaded(
                    f"Topic {name!r} is not opened: those in use take {self._budget.total_bytes} of {self._budget.bytes_max} "
                    "bytes. Have segments merged (tidelog maintain), read fewer topics at once, or raise manifest_bytes_max."
                )
            topic = OpenTopic(name, self._parts)
            self._keep(topic)
        else:
            self._topics.move_to_end(name)
        return topic

    async def fresh(self, name: str, arrival_ms: int, *, always: bool = False) -> OpenTopic:
        """The topic with a state not older than ``arrival_ms``; it may not exist. Raises as ``get`` and ``OpenTopic.fresh``."""
        call = present_call() if name not in self._topics else None
        topic = self.get(name, always=always)
        try:
            if call is None or call.missing_count < MISSING_LOOKS_MAX or await self._is_listed(call, name):
                await topic.fresh(arrival_ms)
        finally:
            self._account(topic)
        if call is not None and not topic.log.state.exists:
            call.missing_count += 1
        return topic

    async def names(self) -> list[str]:
        """The names of all topic directories, in order; some topics may exist no more. Raises ``BackOff``."""
        access = self._parts.access

        def listed() -> list[str]:
            return sorted(filter(is_topic_name, access.store.list_directories(layout.TOPICS)))

        try:
            return await access.look_pool.run(listed)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not list topics: {problem.detail}.") from problem

    async def _is_listed(self, call: Call, name: str) -> bool:
        """Whether a topic of this name may be there: a call that has named many that are not asks for all names, once."""

        async def listed() -> frozenset[str]:
            return frozenset(await self.names())

        if call.listed is None:
            call.listed = asyncio.create_task(listed())
        return name in await asyncio.shield(call.listed)

    async def loaded(self, name: str, arrival_ms: int) -> OpenTopic:
        """The topic as it is known, looked at only where it seems not to exist. Raises as ``OpenTopic.fresh``."""
        known = self._known(name)
        if known is not None:
            return known
        topic = self.get(name)
        if not topic.log.state.exists:
            return await self.fresh(name, arrival_ms)
        self._account(topic)
        return topic

    def _known(self, name: str) -> OpenTopic | None:
        """The topic where it is open, exists, and no other has to leave; else None: ``loaded`` tells."""
        topic = self._topics.get(name)
        if topic is None or not topic.log.state.exists or self._is_full:
            return None
        self._topics.move_to_end(name)
        return topic

    @property
    def _is_full(self) -> bool:
        """Whether topics have to leave memory."""
        return len(self._topics) > self._bounds.topics_loaded_max or self._budget.total_bytes > self._budget.bytes_max

    async def growing(self, name: str, arrival_ms: int) -> OpenTopic:
        """An existing topic as it is known, to append to it.

        Raises ``UnknownTopic``, ``BackOff`` (also ``OVERLOADED``: its manifest may not grow), and as ``OpenTopic.fresh``.
        """
        topic = await self.loaded(name, arrival_ms)
        topic.existing_own()
        if not self._budget.is_past(name):
            return topic
        # Maintenance is another process: only a look shows what it has done.
        if arrival_ms - (topic.log.observed_ms or 0) > self._bounds.log_poll_ms:
            topic = await self.fresh(name, arrival_ms)
        state = topic.existing()
        if self._budget.is_past(name):
            raise self._budget.refusal(state)
        return topic

    def retain(self, topic: OpenTopic) -> None:
        """Keep a topic that was just made: as a missing one it was forgotten."""
        if topic.name not in self._topics:
            self._keep(topic)
            self._evict(topic)

    def _keep(self, topic: OpenTopic) -> None:
        self._topics[topic.name] = topic
        self._budget.open(topic.name)
        topic.count_memory()
        self._metrics.topics_loaded.set(len(self._topics))

    def _account(self, topic: OpenTopic) -> None:
        if self._topics.get(topic.name) is not topic:
            return
        if not topic.log.state.exists and topic.is_idle:
            self._forget(topic.name)
            return
        self._evict(topic)

    def _evict(self, at_hand: OpenTopic | None) -> None:
        looked_at = 0
        while looked_at < min(_EVICTION_STEP, len(self._topics)) and self._is_full:
            name, topic = next(iter(self._topics.items()))
            looked_at += 1
            if topic.is_idle and topic is not at_hand:
                self._forget(name)
            else:
                self._topics.move_to_end(name)

    def _forget(self, name: str) -> None:
        del self._topics[name]
        self._budget.release(name)
        self._metrics.topics_loaded.set(len(self._topics))

    async def drain(self) -> None:
        """Flush every topic at the same time."""
        await asyncio.gather(*(topic.drain() for topic in self))


def is_topic_name(name: str) -> bool:
    """Whether a topic may have this name."""
    try:
        check_topic_name(name)
    except RequestRefused:
        return False
    return True
