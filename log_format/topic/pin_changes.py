"""Changes that pin a version of a topic's table, delete a pin, and drop pins that have expired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from log_format.delta.actions import Action
from log_format.delta.change import Proposal
from log_format.delta.table import NO_LOG
from log_format.errors import BackOff, ErrorCode, RequestRefused, UnknownTopic
from log_format.topic.attachment import TopicMove
from log_format.topic.changes import moved_metadata
from log_format.topic.pins import PIN_NAME, PIN_NAME_CHARACTERS_MAX, PINS_MAX, Pin, find_pin
from log_format.topic.state import TopicState
from log_format.topic.table_columns import protocol_of

KEPT_MS_MIN = 600_000
"""How much longer retention must keep an older version that is to be pinned. More than clocks of gateways and maintenance
differ by."""
LOOKED_MS_MAX = 60_000
"""How old a look at an older version may be when the version is pinned."""


class FileRetention(NamedTuple):
    """The settings by which removed files are deleted."""

    retention_ms: int
    files_kept: int
    kept_ms: int

    @classmethod
    def of(cls, state: TopicState) -> FileRetention:
        """Return the settings of a topic."""
        config = state.config
        names = ("deleted.file.retention.ms", "deleted.file.retention.count", "commit.retention.ms")
        return cls(*map(config.integer, names))


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderVersion:
    """A version below the head, of which everything exists and retention keeps everything for ``KEPT_MS_MIN`` longer.

    A plan of maintenance that was made before the pin deletes nothing of the version: it deletes only what was deletable at an
    earlier head, and by the same settings what is deletable only becomes more. So the pin must be committed on a head where
    ``live`` is still in the table.
    """

    version: int
    live: tuple[str, ...] | None
    """Paths of the version's files that were in the table when it was looked at; the others were removed before. None if another
    pin kept the version then."""
    retention: FileRetention
    """Settings at that time."""
    looked_at_ms: int
    """When it was looked at, in ms since the epoch."""
    archive_version: int = NO_LOG
    """The archive (``TopicState.archive.version``) at that time, whose files may be the version's, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePin:
    """A change that pins a version of the table. The result is the pin, and whether this change created it.

    Args:
        name: name of the pin.
        expires_at_ms: when the pin ends, ms since the epoch; None: never.
        topic_id: incarnation that is meant.
        older: the version to pin; None for the head that this change is committed on. Everything that was committed before is in
            that version, and no earlier plan of maintenance deletes a part of it.
        move: for a topic at a journal, whose records the table must have.

    A pin of the name that has the very version gets the new expiry.
    """

    name: str
    expires_at_ms: int | None
    topic_id: str
    older: OlderVersion | None = None
    move: TopicMove | None = None

    def __post_init__(self) -> None:
        """Raise ``RequestRefused`` for a name that a pin can't have."""
        if not PIN_NAME.fullmatch(self.name):
            what = f"must be 1 to {PIN_NAME_CHARACTERS_MAX} of A-Z, a-z, 0-9, '.', '_' and '-'"
            raise RequestRefused(f"The name of a pin {what}.", errors=[{"where": "/name", "what": what}])

    def propose(self, state: TopicState, now_ms: int) -> Proposal[tuple[Pin, bool]]:
        """Propose metadata with the pin.

        Raises ``UnknownTopic``, ``TopicMoved``, ``RequestRefused`` (``PIN_ALREADY_EXISTS``; too many pins), ``BackOff`` while
        another program's commit is not put back, and ``LookAgain``.
        """
        if state.topic_id != self.topic_id:
            raise UnknownTopic(state.topic)
        if self.move is not None:
            self.move.check(state)
        version = state.version if self.older is None else self.older.version
        kept = tuple(pin for pin in state.pins if not pin.is_expired(now_ms))
        known = find_pin(kept, self.name)
        if known is not None:
            self._refuse_other(state, known)
            if known.expires_at_ms == self.expires_at_ms:
                return Proposal(operation="PIN", actions=(), result=(known, False))
            pin, is_new = known._replace(expires_at_ms=self.expires_at_ms), False
        else:
            self._check(state, now_ms)
            pin, is_new = Pin(self.name, version, now_ms, self.expires_at_ms), True
            if len(kept) >= PINS_MAX:
                raise RequestRefused(f"Topic {state.topic!r} has {PINS_MAX} pins already: delete one first.")
        others = [other for other in kept if other.name != self.name]
        actions = pins_actions(state, [*others, pin], self.move)
        return Proposal(operation="PIN", actions=actions, result=(pin, is_new))

    def _refuse_other(self, state: TopicState, known: Pin) -> None:
        if self.older is None or self.older.version != known.version:
            raise RequestRefused(
                f"Topic {state.topic!r} has a pin {self.name!r} already, of version {known.version}: choose another name, or "
                "delete it first.",
                code=ErrorCode.PIN_ALREADY_EXISTS,
                topic=state.topic,
                version=known.version,
            )

    def _check(self, state: TopicState, now_ms: int) -> None:
        """Raise unless the version can be kept from this head on."""
        if self.older is None:
            if state.foreign.touched:
                raise BackOff(
                    f"Another program's commit to the table of topic {state.topic!r} is being put back: try again in a moment.",
                    topic=state.topic,
                )
            return
        if self.older.live is None:
            is_as_seen = any(pin.version == self.older.version for pin in state.pins)
        else:
            is_fresh = now_ms - self.older.looked_at_ms < LOOKED_MS_MAX
            is_unchanged = self.older.retention == FileRetention.of(state) and state.manifest.has_all(self.older.live)
            is_unchanged = is_unchanged and self.older.archive_version == state.archive.version
            is_as_seen = is_fresh and is_unchanged
        if not is_as_seen:
            raise LookAgain(f"What keeps version {self.older.version} changed meanwhile: try again.", topic=state.topic)


class LookAgain(BackOff):
    """Error: an older version must be looked at again before it can be pinned. Nothing happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePin:
    """A change that deletes a pin of the incarnation ``topic_id``. The result is the pin."""

    name: str
    topic_id: str

    def propose(self, state: TopicState, now_ms: int) -> Proposal[Pin]:
        """Propose metadata without the pin. Raises ``UnknownTopic``, ``RequestRefused`` (``UNKNOWN_PIN``)."""
        if state.topic_id != self.topic_id:
            raise UnknownTopic(state.topic)
        pin = find_pin(state.pins, self.name)
        if pin is None:
            raise unknown_pin(state.topic, self.name)
        del now_ms
        return Proposal(
            operation="UNPIN", actions=pins_actions(state, [other for other in state.pins if other != pin]), result=pin
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DropExpiredPins:
    """A change that drops the pins that have expired. The result is these pins."""

    topic_id: str

    def propose(self, state: TopicState, now_ms: int) -> Proposal[tuple[Pin, ...]]:
        """Propose metadata without them; no actions if there are none, or for another incarnation. Never raises."""
        expired = tuple(pin for pin in state.pins if pin.is_expired(now_ms)) if state.topic_id == self.topic_id else ()
        kept = [pin for pin in state.pins if pin not in expired]
        return Proposal(operation="UNPIN", actions=pins_actions(state, kept) if expired else (), result=expired)


def pins_actions(state: TopicState, pins: Sequence[Pin], move: TopicMove | None = None) -> list[Action]:
    """Return the actions that give the topic these pins. The first pin also brings the feature that stops earlier releases."""
    changed = replace(state, pins=tuple(sorted(pins)), has_table_feature=True)
    metadata = moved_metadata(changed, TopicMove(to=state.attachment) if move is None else move)
    if state.has_table_feature:
        return [metadata]
    return [protocol_of(state.columns, has_table_feature=True), metadata]


def unknown_pin(topic: str, name: str) -> RequestRefused:
    """Return the error for a pin that the topic does not have."""
    return RequestRefused(
        f"Topic {topic!r} has no pin {name!r}: 'tidelog pin list {topic}' shows its pins.",
        code=ErrorCode.UNKNOWN_PIN,
        topic=topic,
    )
