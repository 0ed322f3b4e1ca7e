"""Which journal a topic's appends go to, and the number that fences them.

A topic with the property ``tidelog.journal`` takes no appends of its own: they go by that journal
(docs/decisions/035-journals.md). The number grows with each change of the topic. The journal takes appends of one open
number only. So a change that has closed the number knows that no append slips in behind it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from log_format.errors import BackOff, CorruptData

JOURNAL_PROPERTY: Final = "tidelog.journal"
MOVED_PROPERTY: Final = "tidelog.moved"
_MOVED: Final = re.compile(r"(0|[1-9][0-9]{0,15}) (.{1,500})")
_VALUE: Final = re.compile(r"(0|[1-9][0-9]{0,4})/([1-9][0-9]{0,17})/([1-9][0-9]{0,17})")


class Attachment(NamedTuple):
    """``journal``: its number. ``number``: of the topic's present settings. ``first``: the number with which this stay at the
    journal began; before it the topic had its own commits, or was at another journal."""

    journal: int
    number: int
    first: int

    def properties(self) -> dict[str, str]:
        """As table properties."""
        return {JOURNAL_PROPERTY: f"{self.journal}/{self.number}/{self.first}"}

    def following(self, number: int) -> Attachment:
        """The same stay under another number."""
        return self._replace(number=number)


class Moved(NamedTuple):
    """Since when (ms since the epoch) a topic is where it is, and why, for people."""

    at_ms: int
    reason: str

    def properties(self) -> dict[str, str]:
        """As table properties."""
        return {MOVED_PROPERTY: f"{self.at_ms} {self.reason}"}


class AtPlace(Protocol):
    """A topic's state, as far as its place is concerned."""

    @property
    def topic(self) -> str:
        """Its name."""

    @property
    def topic_id(self) -> str | None:
        """Of its present incarnation."""

    @property
    def attachment(self) -> Attachment | None:
        """The journal that its appends go by."""

    @property
    def moved_version(self) -> int:
        """See ``TopicState``."""


class Move(NamedTuple):
    """From where to where a change takes a topic. ``closed``: the attachment whose number the journal has closed, None for a
    topic with its own commits. ``to``: where the topic is then; a topic that stays at a journal gets another number.
    ``moved``: where it goes somewhere else. ``topic_id``: whose number is closed. A topic made anew may have the same number.
    ``seen_version``: of a topic that joins, its log's version before the number was chosen. A stay that began and ended since may
    have used the number, and the journal takes the next one for the same stay."""

    closed: Attachment | None = None
    to: Attachment | None = None
    moved: Moved | None = None
    topic_id: str | None = None
    seen_version: int | None = None

    def check(self, state: AtPlace) -> None:
        """Raise ``Attached`` unless the topic is where this was made for: else an append could slip in behind the change."""
        if state.attachment != self.closed or (self.closed is not None and state.topic_id != self.topic_id):
            raise Attached(state.topic)
        if self.seen_version is not None and state.moved_version > self.seen_version:
            raise Attached(state.topic)

    def changes(self, state: AtPlace) -> bool:
        """Whether the topic is at another place."""
        return state.attachment != self.to


STAYS: Final = Move()
"""For a topic with its own commits, which keeps them."""


class Attached(BackOff):
    """The topic's appends go by a journal now, or its journal has closed the number: look again. Nothing happened."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"Topic {topic!r} was moved between its own commits and a journal meanwhile.", topic=topic)


def moved_of(properties: Mapping[str, str]) -> Moved | None:
    """Why the topic is where it is; None: since its creation."""
    match = _MOVED.fullmatch(properties.get(MOVED_PROPERTY, ""))
    return None if match is None else Moved(int(match[1]), match[2])


def attachment_of(topic: str, properties: Mapping[str, str]) -> Attachment | None:
    """The attachment among a topic's table properties. Raises ``CorruptData``: a guess could give offsets twice."""
    text = properties.get(JOURNAL_PROPERTY)
    if text is None:
        return None
    match = _VALUE.fullmatch(text)
    if match is None:
        raise CorruptData(f"The {JOURNAL_PROPERTY} of topic {topic!r} is {text!r}.", topic=topic)
    return Attachment(*map(int, match.groups()))
