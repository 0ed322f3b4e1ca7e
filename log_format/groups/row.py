"""The content of a commit of ``system/consumer_offsets``: committed offsets, and the coordinator's record of a group's members.

Offsets are rows of the data file, for readers of the table with SQL. They are also in the tag ``tidelog.groups`` of its ``add``,
so that replay reads no data file. Members are in the tag only, since no other program needs them. The newest row of a (group,
topic, partition) counts; a null offset says that none is committed any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa

from log_format.cluster.proof import NOBODY
from log_format.delta.system_table import data_bytes
from log_format.delta.tag_compression import compress_tag, decompress_tag

TAG_GROUPS: Final = "tidelog.groups"
NO_EPOCH: Final = -1
"""Leader epoch of an offset that was committed without one."""
NO_GENERATION: Final = -1
"""Generation of an offset that no member committed."""
Partitions = dict[str, tuple[int, ...]]
"""Topic -> its partitions, ascending."""


class OffsetRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """A committed offset: the next one to read. Times are in milliseconds since the epoch."""

    group: str
    topic: str
    partition: int
    topic_id: str
    """Incarnation of the topic. An offset of a deleted one does not count."""
    offset: int | None
    metadata: str | None = None
    member: str | None = None
    generation: int = NO_GENERATION
    committed_at_ms: int
    leader_epoch: int = NO_EPOCH
    """Leader epoch as a Kafka client committed it, to be returned to clients."""

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition: the key within the group."""
        return (self.topic, self.partition)

    @property
    def position(self) -> int | None:
        """Offset at which the group continues; None if none is committed. A Kafka client commits -2 or -1 to begin at
        either end."""
        return None if self.offset is None or self.offset < 0 else self.offset


class Reader(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The principal of a member. What a pattern matches is limited to what this principal, or its groups, may read."""

    principal: str
    groups: tuple[str, ...] = ()


def belongs_to_another(reader: Reader | None, owner: str) -> bool:
    """Return whether a member of this reader belongs to another owner; False if one of the two has no owner."""
    return owner != NOBODY and reader is not None and reader.principal != owner


class ClassicMember(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """The state of a member of Kafka's classic protocol. Only the group's clients understand the bytes."""

    client_host: str
    metadata: bytes
    """Metadata for the protocol that the members chose."""
    assignment: bytes
    """Assignment by the leader for this generation."""
    protocols: tuple[str, ...] = ()
    """Names of the protocols that the member knows, the preferred one first, if the gateway assigned its partitions. Then both
    byte fields are empty, since its topics and its target have their content."""


class MemberRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """A member at its group's generation."""

    member_id: str
    client_id: str | None
    instance_id: str | None
    topics: tuple[str, ...]
    """Topics to which the member subscribes; empty with ``pattern``."""
    pattern: str | None
    session_timeout_ms: int
    target: Partitions
    """Partitions that this generation assigns to the member."""
    held: Partitions
    """Partitions that the member may still hold, from earlier generations or this one."""
    acknowledged: int
    """Last generation that the member acknowledged."""
    former_ids: tuple[str, ...] = ()
    """Ids of the members that it replaced (a static member that came back), newest last."""
    reader: Reader | None = None
    """Principal of the member; None if it joined a gateway without authentication."""
    rebalance_timeout_ms: int | None = None
    """Time that the member may take to release partitions, or to join again; None: its session timeout."""
    classic: ClassicMember | None = None
    """State of Kafka's classic protocol; None for a protocol in which the gateway assigns partitions."""

    @property
    def read_topics(self) -> set[str]:
        """Topics to which the member subscribes, by name or by its pattern."""
        return {*self.topics, *self.target}


class ClassicProtocol(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """The agreement of the members of Kafka's classic protocol at this generation."""

    protocol_type: str
    """``consumer``, ``connect``, or another kind of client."""
    protocol: str | None
    """Protocol that all members know; None without members."""
    leader: str | None
    """Member that assigned the partitions."""


class GroupRow(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """A group's members at one generation, and its coordinator."""

    group: str
    epoch: int
    """Number raised by each take-over; writes of an earlier coordinator are refused."""
    coordinator: str
    generation: int
    assignor: str | None
    members: tuple[MemberRow, ...]
    changed_at_ms: int
    classic: ClassicProtocol | None = None
    """Agreement of a generation that the members assigned among themselves; None if the gateway assigned it."""

    @property
    def is_classic(self) -> bool:
        """Whether the members themselves assign the next generation: all of them speak Kafka's classic protocol."""
        return all(one.classic is not None for one in self.members) if self.members else self.classic is not None

    @property
    def read_topics(self) -> set[str]:
        """Topics to which a member subscribes, by name or by its pattern."""
        return {topic for member in self.members for topic in member.read_topics}


class PendingOffsets(msgspec.Struct, frozen=True, array_like=True, kw_only=True, gc=False):
    """Offsets that become the group's when this transaction is committed, and are dropped when it is aborted."""

    transaction_id: str
    group: str
    offsets: tuple[OffsetRow, ...]
    prepared_at_ms: int


class GroupChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The changes of one decision, applied in this order. A commit has several, one after another."""

    groups: tuple[GroupRow, ...] = ()
    offsets: tuple[OffsetRow, ...] = ()
    pending: tuple[PendingOffsets, ...] = ()
    settled: tuple[tuple[str, str], ...] = ()
    """Groups and transactions whose offsets are no longer pending; those committed are in ``offsets``."""
    deleted: tuple[str, ...] = ()
    """Groups that are deleted, with all their offsets."""

    def __bool__(self) -> bool:
        return bool(self.groups or self.offsets or self.pending or self.settled or self.deleted)


_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("metadata", pa.string()),
        ("member", pa.string()),
        ("generation", pa.int32()),
        ("committed_at", _TIMESTAMP),
        ("topic_id", pa.string()),
    ]
)
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[GroupChanges])


def encode_rows(rows: Sequence[OffsetRow]) -> bytes:
    """Encode the data file of a commit with these rows: Parquet with ``SCHEMA``."""
    columns: dict[str, list[Any]] = {
        "group": [row.group for row in rows],
        "topic": [row.topic for row in rows],
        "partition": [row.partition for row in rows],
        "offset": [row.offset for row in rows],
        "metadata": [row.metadata for row in rows],
        "member": [row.member for row in rows],
        "generation": [None if row.generation == NO_GENERATION else row.generation for row in rows],
        "committed_at": [row.committed_at_ms * 1000 for row in rows],
        "topic_id": [row.topic_id for row in rows],
    }
    return data_bytes(pa.table(columns, schema=SCHEMA))


def encode_tag(changes: Sequence[GroupChanges]) -> str:
    """Encode the tag of an ``add`` with these changes: JSON; if long, compressed with zlib, as base64."""
    return compress_tag(_ENCODER.encode(changes))


def decode_tag(tag: str) -> list[GroupChanges]:
    """Decode the result of ``encode_tag``. Raises ``ValueError`` for anything else."""
    return _DECODER.decode(decompress_tag(tag))
