"""Which journal a topic's appends go to, and the number that fences older appends.

A topic with the property ``tidelog.journal`` takes no appends to its own log: they go to that journal
(docs/decisions/035-journals.md). The attachment's number grows with each change of the topic, and the journal takes appends only
for the number that is open. So a change closes the number first; after that no append that was made for the old settings can be
committed.
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
    """A topic's stay at a journal.

    ``journal``: the journal's number. ``number``: the number of the topic's present settings, which its appends must name.
    ``first``: the number with which the stay began; before that the topic had its own commits, or was at another journal.
    """

    journal: int
    number: int
    first: int

    def properties(self) -> dict[str, str]:
        """Return the attachment as table properties."""
        return {JOURNAL_PROPERTY: f"{self.journal}/{self.number}/{self.first}"}

    def following(self, number: int) -> Attachment:
        """Return an attachment of the same stay with another number."""
        return self._replace(number=number)


class LastMove(NamedTuple):
    """When the topic last moved (ms since the epoch), and the reason, as text for people."""

    at_ms: int
    reason: str

    def properties(self) -> dict[str, str]:
        """Return the move as table properties."""
        return {MOVED_PROPERTY: f"{self.at_ms} {self.reason}"}


class TopicLocation(Protocol):
    """A topic's state, as far as its place (own commits or a journal) is concerned."""

    @property
    def topic(self) -> str:
        """Name of the topic."""

    @property
    def topic_id(self) -> str | None:
        """Id of the topic's present incarnation; None if the topic does not exist."""

    @property
    def attachment(self) -> Attachment | None:
        """Journal that the topic's appends go to; None for own commits."""

    @property
    def moved_version(self) -> int:
        """Version of the last change of place, as in ``TopicState``."""


class TopicMove(NamedTuple):
    """The places between which a change takes a topic.

    ``closed``: attachment whose number the journal has closed; None for a topic with its own commits. ``to``: attachment after
    the change; a topic that stays at its journal gets another number. ``moved``: time and reason, when the topic goes to another
    place. ``topic_id``: incarnation whose number is closed, since a re-created topic may have the same number. ``seen_version``:
    for a topic that joins a journal, the version of its log before the number was chosen. If the topic has moved after that
    version, a stay that has ended may have used the number.
    """

    closed: Attachment | None = None
    to: Attachment | None = None
    moved: LastMove | None = None
    topic_id: str | None = None
    seen_version: int | None = None

    def check(self, state: TopicLocation) -> None:
        """Raise ``TopicMoved`` unless the topic is still at the place that this move starts from.

        Otherwise an append could follow the change unseen.
        """
        if state.attachment != self.closed or (self.closed is not None and state.topic_id != self.topic_id):
            raise TopicMoved(state.topic)
        if self.seen_version is not None and state.moved_version > self.seen_version:
            raise TopicMoved(state.topic)

    def changes(self, state: TopicLocation) -> bool:
        """Return whether the topic is not yet where this move takes it."""
        return state.attachment != self.to


NO_MOVE: Final = TopicMove()
"""Move of a topic with its own commits that keeps them."""


class TopicMoved(BackOff):
    """Error: the topic's appends now go to a journal, or its journal has closed the number. Nothing happened; look the topic up
    again."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"Topic {topic!r} was moved between its own commits and a journal meanwhile.", topic=topic)


def parse_last_move(properties: Mapping[str, str]) -> LastMove | None:
    """Return when and why the topic was moved to its place; None if it has been there since its creation."""
    match = _MOVED.fullmatch(properties.get(MOVED_PROPERTY, ""))
    return None if match is None else LastMove(int(match[1]), match[2])


def parse_attachment(topic: str, properties: Mapping[str, str]) -> Attachment | None:
    """Return the attachment among a topic's table properties, None without one.

    Raises ``CorruptData`` for an unreadable one, since a guess could assign offsets twice.
    """
    text = properties.get(JOURNAL_PROPERTY)
    if text is None:
        return None
    match = _VALUE.fullmatch(text)
    if match is None:
        raise CorruptData(f"The {JOURNAL_PROPERTY} of topic {topic!r} is {text!r}.", topic=topic)
    return Attachment(*map(int, match.groups()))
