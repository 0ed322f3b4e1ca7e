"""The topics that are open in this gateway, each once. Idle ones are dropped when there are too many or they take too much
memory.

``OpenTopic.count_memory`` tells the budget how much a topic takes: manifest, partitions, producers and the rest. The topic
that a request is about is never dropped for it. While the topics in use take more than the budget, others are opened only to
be repaired or deleted: 503 ``OVERLOADED``.

Each request that names a missing topic looks the topic up, and none keeps it: names that a client makes up cost no memory.
Concurrent requests for one name share the look. A request that names very many missing topics uses a listing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator

from gateway.call import Call, current_call
from gateway.engine.open_table import OpenTable
from gateway.engine.open_topic import OpenTopic, TopicParts
from gateway.problem import overloaded
from log_format import layout
from log_format.errors import BackOff, StoreUnavailable, UnknownTopic
from log_format.topic_name import is_topic_name

MISSING_LOOKS_MAX = 200
"""Number of looks of one call at names that turn out to be of no topic. After so many the call lists the names once, and looks
only at topics that are listed."""
_EVICTION_STEP = 64
"""Number of topics that one eviction looks at: requests must not walk all topics when the least recently used ones are busy."""


class OpenTopics:
    """The topics that are open in this gateway, by name. Used on the event loop only."""

    def __init__(self, parts: TopicParts, topics: OrderedDict[str, OpenTopic]) -> None:
        """Use ``topics`` as the dictionary that keeps the open topics by name."""
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
        """Bytes of memory of the open topics' manifests."""
        return self._budget.used_bytes

    def known(self, name: str) -> OpenTopic | None:
        """Return the topic if it is open in this gateway, else None."""
        return self._topics.get(name)

    def is_at_journal(self, name: str) -> bool:
        """Return whether the topic is at a journal, as far as is known. Journals in use here know their topics by name."""
        known = self._topics.get(name)
        if known is None or not known.log.state.exists:
            return self._parts.journals.has(name)
        return known.log.state.attachment is not None

    def get(self, name: str, *, always: bool = False) -> OpenTopic:
        """Return the topic's object, created on first use. Nothing is read yet; the topic may not exist.

        ``always``: whether the topic is opened although the topics in use take too much memory; else this raises ``BackOff``
        (``OVERLOADED``). Raises ``UnknownTopic`` for a name that no topic can have: it would name other objects of the store.
        """
        topic = self._topics.get(name)
        if topic is None:
            if not is_topic_name(name):
                raise UnknownTopic(name)
            self._evict(None)
            if self._budget.total_bytes > self._budget.bytes_max and not always:
                self._metrics.state_refusals.labels("topics").inc()
                raise overloaded(
                    f"Topic {name!r} can't be opened: the segment lists of topics in use take {self._budget.total_bytes} "
                    f"of {self._budget.bytes_max} "
                    "bytes. Merge segments (tidelog maintain), read fewer topics at once, or raise manifest_bytes_max."
                )
            topic = OpenTopic(name, self._parts)
            self._keep(topic)
        else:
            self._topics.move_to_end(name)
        return topic

    async def fresh(self, name: str, arrival_ms: int, *, always: bool = False) -> OpenTopic:
        """Return the topic with a state not older than ``arrival_ms``; it may not exist. Raises what ``get`` and
        ``OpenTopic.fresh`` raise."""
        call = current_call() if name not in self._topics else None
        topic = self.get(name, always=always)
        try:
            if call is None or call.missing_count < MISSING_LOOKS_MAX or await self._is_listed(call, name):
                await topic.fresh(arrival_ms)
        finally:
            self._account(topic)
        if call is not None and not topic.log.state.exists:
            call.missing_count += 1
        return topic

    async def table_version(self, name: str) -> int:
        """Return the head of the topic's own log, by a look that begins now. Raises what ``fresh`` raises."""
        topic = self.get(name)
        try:
            own = await OpenTable.fresh(topic, self._parts.access.clock.monotonic_ms())
            return own.version
        finally:
            self._account(topic)

    async def names(self) -> list[str]:
        """Return the names of all topic directories, in order; some topics may exist no more. Raises ``BackOff``."""
        access = self._parts.access

        def listed() -> list[str]:
            return sorted(filter(is_topic_name, access.store.list_directories(layout.TOPICS)))

        try:
            return await access.look_pool.run(listed)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not list topics: {problem.detail}.") from problem

    async def _is_listed(self, call: Call, name: str) -> bool:
        """Return whether a topic of this name may exist, by a listing of all names that the call makes once."""

        async def listed() -> frozenset[str]:
            return frozenset(await self.names())

        if call.listed is None:
            call.listed = asyncio.create_task(listed())
        return name in await asyncio.shield(call.listed)

    async def loaded(self, name: str, arrival_ms: int) -> OpenTopic:
        """Return the topic as it is known; look at it only if it seems not to exist. Raises what ``OpenTopic.fresh`` raises."""
        known = self._known(name)
        if known is not None:
            return known
        topic = self.get(name)
        if not topic.log.state.exists:
            return await self.fresh(name, arrival_ms)
        self._account(topic)
        return topic

    def _known(self, name: str) -> OpenTopic | None:
        """Return the topic if it is open, exists, and no topic has to be dropped; else None: ``loaded`` decides."""
        topic = self._topics.get(name)
        if topic is None or not topic.log.state.exists or self._is_full:
            return None
        self._topics.move_to_end(name)
        return topic

    @property
    def _is_full(self) -> bool:
        """Whether topics have to be dropped from memory."""
        return len(self._topics) > self._bounds.topics_loaded_max or self._budget.total_bytes > self._budget.bytes_max

    async def for_append(self, name: str, arrival_ms: int) -> OpenTopic:
        """Return an existing topic as it is known, to append to it.

        Raises ``UnknownTopic``, ``BackOff`` (also ``OVERLOADED``: its manifest may not grow), and what ``OpenTopic.fresh``
        raises.
        """
        topic = await self.loaded(name, arrival_ms)
        topic.require_own_state()
        if not self._budget.is_exceeded(name):
            return topic
        # Maintenance is another process: only a look shows what it has done.
        if arrival_ms - (topic.log.observed_ms or 0) > self._bounds.log_poll_ms:
            topic = await self.fresh(name, arrival_ms)
        state = topic.require_state()
        if self._budget.is_exceeded(name):
            raise self._budget.refusal(state)
        return topic

    def retain(self, topic: OpenTopic) -> None:
        """Keep a topic that was just created: while it was missing, it was dropped."""
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
        """Drain all topics in parallel."""
        await asyncio.gather(*(topic.drain() for topic in self))
