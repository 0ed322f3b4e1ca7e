"""Estimated memory of a consumer group in every gateway that serves groups: measured on CPython 3.11, rounded up.

The coordinating gateway has the members twice, with an index of holders. The figures include that.
"""

from __future__ import annotations

from typing import Final

import msgspec

from log_format.groups.row import GroupRow, MemberRow, OffsetRow, Partitions, PendingOffsets

GROUP_BYTES: Final = 1_024
"""Bytes of a group: its mappings and its name."""
_OFFSET_BYTES: Final = 320
_METADATA_BYTES: Final = 64
_MEMBER_BYTES: Final = 1_536
_NAME_BYTES: Final = 128
"""Bytes of the name of a topic to which a member subscribes, without its characters."""
_TOPIC_BYTES: Final = 512
"""Bytes of a topic with partitions of a member."""
_TARGET_BYTES: Final = 96
"""Bytes of a partition in a member's target."""
_HELD_BYTES: Final = 200
"""Bytes of a partition that a member holds."""


def offset_bytes(row: OffsetRow) -> int:
    """Return the bytes of a committed offset. Texts that most offsets repeat are shared (``share_texts``)."""
    return _OFFSET_BYTES + (0 if row.metadata is None else _METADATA_BYTES + _text_bytes(row.metadata))


def pending_bytes(pending: PendingOffsets) -> int:
    """Return the bytes of pending offsets of a transaction. Their texts are not shared."""
    return GROUP_BYTES + sum(offset_bytes(row) + _OFFSET_BYTES for row in pending.offsets)


def row_bytes(row: GroupRow | None) -> int:
    """Return the bytes of a row's members."""
    return 0 if row is None else sum(member_bytes(member) for member in row.members)


def member_bytes(member: MemberRow) -> int:
    """Return the bytes of a member, its subscription and its partitions."""
    names = sum(_NAME_BYTES + 2 * _text_bytes(name) for name in member.topics)
    targets = _partitions_bytes(member.target, _TARGET_BYTES)
    reader = () if member.reader is None else (member.reader.principal, *member.reader.groups)
    names += sum(_NAME_BYTES + 2 * _text_bytes(name) for name in reader)
    classic = member.classic
    opaque = 0 if classic is None else sum(map(len, (classic.metadata, classic.assignment, *classic.protocols)))
    return _MEMBER_BYTES + names + targets + _partitions_bytes(member.held, _HELD_BYTES) + opaque


def share_texts(row: OffsetRow, other: OffsetRow | None) -> OffsetRow:
    """Return the row with its texts replaced by equal ones of another row of the same group."""
    if other is None:
        return row
    return msgspec.structs.replace(
        row,
        group=other.group,
        topic=_share_text(row.topic, other.topic),
        topic_id=_share_text(row.topic_id, other.topic_id),
        member=None if row.member is None else _share_text(row.member, other.member),
    )


def _share_text(text: str, other: str | None) -> str:
    return other if text == other and other is not None else text


def _partitions_bytes(partitions: Partitions, each_bytes: int) -> int:
    return sum(_TOPIC_BYTES + each_bytes * len(numbers) for numbers in partitions.values())


def _text_bytes(text: str) -> int:
    """Return what CPython takes for the characters: one, two or four bytes each, by the widest."""
    if text.isascii():
        return len(text)
    return len(text) * (1 if (largest := max(text)) < "\u0100" else 2 if largest < "\U00010000" else 4)
