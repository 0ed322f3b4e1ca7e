"""Bytes of consumers: the topics that a member subscribes to, and the partitions that its leader assigned to it.

While members assign partitions among themselves, Tidelog only shows the contents (lag, descriptions): bytes that it can't
read, and names that no topic can have, are ignored. Subscription and assignment begin alike in every version, big-endian:
``version int16``, then an array of topic names, or of a topic name and an array of partitions; user data follows. After that a
subscription has the partitions that its member reads, from version 1 on.

Source: Kafka, ``ConsumerProtocolSubscription.json``, ``ConsumerProtocolAssignment.json``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from log_format.groups.row import Partitions
from log_format.topic_name import is_topic_name

PROTOCOL_TYPE: Final = "consumer"
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_NO_USER_DATA: Final = _INT.pack(-1)


def subscribed_topics(metadata: bytes) -> tuple[str, ...]:
    """Return the topics in a member's metadata, in order of name; none if the metadata can't be read."""
    try:
        reader = _Reader(metadata)
        return tuple(sorted({name for _ in range(reader.count()) if is_topic_name(name := reader.text())}))
    except (struct.error, ValueError):
        return ()


def assigned_partitions(assignment: bytes) -> Partitions:
    """Return the partitions in a member's assignment; none if the assignment can't be read."""
    try:
        return _Reader(assignment).partitions()
    except (struct.error, ValueError):
        return {}


def owned_partitions(metadata: bytes) -> Partitions:
    """Return the partitions that a member reads while it joins; none in version 0, whose clients give up all of them before.

    Raises ``ValueError`` for bytes that are no subscription.
    """
    try:
        reader = _Reader(metadata)
        for _ in range(reader.count()):
            reader.text()
        if not reader.version:
            return {}
        reader.data()
        return reader.partitions()
    except struct.error as problem:
        raise ValueError("no subscription") from problem


def has_user_data(assignment: bytes) -> bool:
    """Return whether an assignment says more than partitions, as that of Kafka Streams does, or can't be read."""
    if not assignment:
        return False
    try:
        reader = _Reader(assignment)
        reader.partitions()
        return bool(reader.data())
    except (struct.error, ValueError):
        return True


def subscription_of(topics: Iterable[str]) -> bytes:
    """Return the metadata of a member that subscribes to these topics."""
    named = [_text(topic) for topic in topics]
    return b"".join((_SHORT.pack(0), _INT.pack(len(named)), *named, _NO_USER_DATA))


def assignment_of(partitions: Partitions) -> bytes:
    """Return the bytes of an assignment with these partitions."""
    parts = [_SHORT.pack(0), _INT.pack(len(partitions))]
    for topic, numbers in partitions.items():
        parts += (_text(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join((*parts, _NO_USER_DATA))


class _Reader:
    """Reader of a subscription or assignment. Raises ``struct.error`` or ``ValueError`` for other bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = _SHORT.size

    @property
    def version(self) -> int:
        return int(_SHORT.unpack_from(self._data)[0])

    def integer(self) -> int:
        (value,) = _INT.unpack_from(self._data, self._at)
        self._at += _INT.size
        return int(value)

    def count(self) -> int:
        count = self.integer()
        if not 0 <= count <= len(self._data):
            raise ValueError("no array is so long")
        return count

    def text(self) -> str:
        (size,) = _SHORT.unpack_from(self._data, self._at)
        start = self._at + _SHORT.size
        self._at = start + size
        if size < 0 or self._at > len(self._data):
            raise ValueError("no text is so long")
        return self._data[start : self._at].decode()

    def data(self) -> bytes:
        size = max(0, self.integer())  # -1 means none.
        start = self._at
        self._at = start + size
        if self._at > len(self._data):
            raise ValueError("no data are so long")
        return self._data[start : self._at]

    def partitions(self) -> Partitions:
        found: dict[str, set[int]] = {}
        for _ in range(self.count()):
            topic = self.text()
            found.setdefault(topic, set()).update(self.integer() for _ in range(self.count()))
        kept = {topic: tuple(sorted(one for one in found[topic] if one >= 0)) for topic in sorted(found)}
        return {topic: numbers for topic, numbers in kept.items() if numbers and is_topic_name(topic)}


def _text(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data
