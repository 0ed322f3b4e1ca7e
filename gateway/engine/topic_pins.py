"""The pins of topics: create, list and delete (``log_format.topic.pins``)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from gateway.call import second_part
from gateway.engine.open_table import TableAccess
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.pool import Pool
from log_format.checkpoints.pinned_versions import (
    held_back_bytes,
    keep_version,
    look_at_version,
    refuse_future_time,
    version_at,
)
from log_format.errors import BackOff, CorruptData, StoreUnavailable
from log_format.store import ObjectStore
from log_format.topic.pin_changes import CreatePin, DeletePin, LookAgain
from log_format.topic.pins import Pin
from log_format.topic.state import TopicState

_log = logging.getLogger("gateway.pins")

ResultT = TypeVar("ResultT")

_LOOKS_MAX: Final = 5
"""Number of looks at an older version whose files leave the table meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPin:
    """A pin, and the stored bytes that its version has and the table has not. None: its checkpoint can't be read."""

    pin: Pin
    held_back_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPinList:
    """A topic's pins that have not expired, by name, and the bytes that they hold back together; None if one can't be read."""

    pins: tuple[HeldPin, ...]
    held_back_bytes: int | None


class TopicPins:
    """Operations on pins. Used on the event loop only; reading of checkpoints runs in ``pool``."""

    def __init__(self, topics: OpenTopics, access: TableAccess, store: ObjectStore, pool: Pool) -> None:
        self._topics = topics
        self._clock = access.clock
        self._store = store
        self._pool = pool

    async def create(
        self, name: str, pin: str, *, expires_at_ms: int | None, version: int | None = None, at_ms: int | None = None
    ) -> tuple[HeldPin, bool]:
        """Pin a version of a topic's table; return the pin, and whether it is new. The version is readable then.

        Args:
            name: the topic.
            pin: name of the pin.
            expires_at_ms: when it ends, ms since the epoch; None: never.
            version: the version to pin.
            at_ms: pin the table of that time (ms since the epoch) instead. Neither: the present one, with every record that was
                acknowledged before the call; a topic at a journal is drained for it.

        Raises ``UnknownTopic``, ``RequestRefused`` (``PIN_ALREADY_EXISTS``, ``VERSION_GONE``, ``INVALID_REQUEST``), and what
        ``OpenTopic.commit`` raises. A checkpoint that can't be put now is put by maintenance; until then clean-up keeps the
        commits that give the version.
        """
        topic = await self._existing(name)
        change = partial(CreatePin, name=pin, expires_at_ms=expires_at_ms, topic_id=topic.state.existing_id)
        if at_ms is not None:
            refuse_future_time(at_ms, self._clock.now_ms())
            version = await self._run(name, partial(version_at, self._store, name, at_ms))
        if version is None:
            made, is_new = (await topic.moving.change(lambda move: change(move=move), is_drained=True)).result
        else:
            made, is_new = await self._pin_older(topic, change, version)
        held_back = None
        with second_part():  # A failure is in the answer.
            try:
                await self._keep(name, made)
                held_back = await self._held_back(topic.log.state, [made])
            except (BackOff, CorruptData) as problem:
                _log.warning(
                    "the checkpoint of pin %s of topic %s is left to maintenance: %s", pin, name, problem.detail
                )
        return HeldPin(pin=made, held_back_bytes=held_back), is_new

    async def list_pins(self, name: str) -> TopicPinList:
        """Return a topic's pins; put checkpoints that are missing. Raises ``UnknownTopic``, what ``OpenTopics.fresh`` raises."""
        topic = await self._topics.fresh(name, self._clock.monotonic_ms())
        state, now_ms = topic.require_state(), self._clock.now_ms()
        pins = [pin for pin in state.pins if not pin.is_expired(now_ms)]
        held = []
        for pin in pins:
            try:
                await self._keep(name, pin)
                held.append(HeldPin(pin=pin, held_back_bytes=await self._held_back(state, [pin])))
            except CorruptData:
                held.append(HeldPin(pin=pin, held_back_bytes=None))
        is_whole = all(each.held_back_bytes is not None for each in held)
        total = await self._held_back(state, pins) if is_whole and len(pins) > 1 else None
        if is_whole and len(pins) <= 1:
            total = sum(each.held_back_bytes or 0 for each in held)
        return TopicPinList(pins=tuple(held), held_back_bytes=total)

    async def delete(self, name: str, pin: str) -> None:
        """Delete a pin. Raises ``UnknownTopic``, ``RequestRefused`` (``UNKNOWN_PIN``), what ``OpenTopic.commit`` raises."""
        topic = await self._existing(name)
        await topic.commit(DeletePin(name=pin, topic_id=topic.state.existing_id))

    async def _pin_older(self, topic: OpenTopic, change: Callable[..., CreatePin], version: int) -> tuple[Pin, bool]:
        last: LookAgain | None = None
        for _ in range(_LOOKS_MAX):
            state = topic.log.state
            look = partial(look_at_version, self._store, topic.name, state, version, self._clock.now_ms())
            try:
                older = await self._run(topic.name, look)
                return (await topic.commit(change(older=older))).result
            except LookAgain as problem:
                last = problem
                await topic.look()
        assert last is not None
        raise last

    async def _existing(self, name: str) -> OpenTopic:
        topic = await self._topics.fresh(name, self._clock.monotonic_ms(), always=True)
        topic.require_state()
        return topic

    async def _keep(self, name: str, pin: Pin) -> None:
        await self._run(name, partial(keep_version, self._store, name, pin.version, self._clock.now_ms()))

    async def _held_back(self, state: TopicState, pins: list[Pin]) -> int:
        versions = [pin.version for pin in pins]
        return await self._run(
            state.topic, partial(held_back_bytes, self._store, state.topic, state, versions, self._clock.now_ms())
        )

    async def _run(self, name: str, work: Callable[[], ResultT]) -> ResultT:
        try:
            return await self._pool.run(work)
        except StoreUnavailable as problem:
            raise BackOff(
                f"The store did not return the log of topic {name!r}: {problem.detail}.", topic=name
            ) from problem
