"""A topic's memory of the decided transactions whose records it has. With it each transaction is applied once, by whichever
process.

A commit that applies a transaction names the transaction, the version of ``system/transactions`` at which it was decided, and the
offset ranges of its records. The commit also names a *floor*: a version of ``system/transactions`` below which every decided
transaction had ended when the committer looked. The floor never goes down. A topic remembers a transaction until the floor has
passed the version of its decision; a transaction decided below the floor has ended. No clock takes part. The memory is bounded by
the number of transactions that are decided and not ended.

``tidelog.applied``  tag of an ``add``: JSON ``[floor, [[transaction id, decided version, [[partition, base offset, records], …]],
…]]``. Each transaction is also a ``txn`` (``transaction-<id>``), and so is the floor (``ended-transactions``). So a checkpoint
that another program writes has all of this except the offset ranges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from log_format.delta.actions import Add, Commit, Txn
from log_format.errors import BackOff, CorruptData
from log_format.topic.append_outcome import AppendedRange, Duplicate, decode_ranges, encode_ranges

TAG_APPLIED: Final = "tidelog.applied"
TRANSACTION_APP_ID: Final = "transaction-"
FLOOR_APP_ID: Final = "ended-transactions"


class TransactionStamp(NamedTuple):
    """The transaction that a batch applies. ``floor``: when the caller looked, every transaction decided below that version had
    ended."""

    transaction_id: str
    decided_version: int
    floor: int


class AppliedTransaction(NamedTuple):
    """A transaction whose records are in the topic, and their offset ranges."""

    decided_version: int
    offset_ranges: tuple[AppendedRange, ...]


class TransactionEnded(BackOff):
    """Error: another process has finished the transaction. Nothing was appended; read the transaction's row again."""

    def __init__(self, transaction_id: str) -> None:
        super().__init__(f"Transaction {transaction_id} was ended by another gateway.")


@dataclass(frozen=True, slots=True)
class AppliedTransactions:
    """A topic's memory of applied transactions at one version."""

    by_id: Mapping[str, AppliedTransaction]
    floor: int

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes. It grows with the number of transactions that have not ended, which are few."""
        return sum(384 + 192 * len(known.offset_ranges) for known in self.by_id.values())

    def judge(self, stamp: TransactionStamp) -> Duplicate | TransactionEnded | None:
        """Return ``Duplicate`` if the topic has the transaction's records, ``TransactionEnded`` if it has ended, None if it must
        be applied."""
        known = self.by_id.get(stamp.transaction_id)
        if known is not None:
            return Duplicate(known.offset_ranges)
        return TransactionEnded(stamp.transaction_id) if stamp.decided_version < self.floor else None

    def after(self, commit: Commit) -> AppliedTransactions:
        """Return the memory after a commit of the same incarnation of the topic. Raises ``CorruptData``."""
        by_id, floor = dict(self.by_id), self.floor
        for add in commit.adds:
            tag = (add.tags or {}).get(TAG_APPLIED)
            if add.data_change and tag is not None:
                newer = _decode_tag(tag, add.path)
                by_id |= newer.by_id
                floor = max(floor, newer.floor)
        return self if by_id == self.by_id else _above(by_id, floor)

    def with_applied(self, applied: Mapping[TransactionStamp, tuple[AppendedRange, ...]]) -> AppliedTransactions:
        """Return the memory after a commit that applies these transactions."""
        by_id = dict(self.by_id)
        by_id |= {stamp.transaction_id: AppliedTransaction(stamp.decided_version, at) for stamp, at in applied.items()}
        return _above(by_id, max(self.floor, *(stamp.floor for stamp in applied)))

    def needs(self, app_id: str) -> bool:
        """Return False if the ``txn`` is of a transaction that the topic may forget, so that a checkpoint can drop
        it; else True."""
        return not app_id.startswith(TRANSACTION_APP_ID) or app_id.removeprefix(TRANSACTION_APP_ID) in self.by_id

    def encoded(self) -> bytes:
        """Return the memory as JSON, for a checkpoint."""
        return _encode_tag(self.floor, [(one, *known) for one, known in self.by_id.items()])


NO_TRANSACTIONS: Final = AppliedTransactions(MappingProxyType({}), -1)

_Row = tuple[str, int, list[tuple[int, int, int]]]
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(tuple[int, list[_Row]])


def tag_with_transactions(
    add: Add, applied: Mapping[TransactionStamp, tuple[AppendedRange, ...]], floor_before: int
) -> Add:
    """Return the ``add`` of a flush that applies these transactions, tagged with the offset ranges of their records."""
    if not applied:
        return add
    floor = max(floor_before, *(stamp.floor for stamp in applied))
    rows = [(stamp.transaction_id, stamp.decided_version, offset_ranges) for stamp, offset_ranges in applied.items()]
    tag = _encode_tag(floor, rows)
    return msgspec.structs.replace(add, tags={**(add.tags or {}), TAG_APPLIED: tag.decode()})


def transaction_txns(stamps: Collection[TransactionStamp], floor_before: int, now_ms: int) -> list[Txn]:
    """Return the ``txn`` actions of a flush that applies these transactions."""
    txns = [
        Txn(app_id=f"{TRANSACTION_APP_ID}{stamp.transaction_id}", version=stamp.decided_version, last_updated=now_ms)
        for stamp in stamps
    ]
    if stamps:
        floor = max(floor_before, *(stamp.floor for stamp in stamps))
        txns.append(Txn(app_id=FLOOR_APP_ID, version=floor, last_updated=now_ms))
    return txns


def decode_applied(data: bytes) -> AppliedTransactions:
    """Decode the result of ``AppliedTransactions.encoded``. Raises ``ValueError`` (``msgspec.DecodeError``) for anything else."""
    floor, rows = _DECODER.decode(data)
    if not rows and floor == NO_TRANSACTIONS.floor:
        return NO_TRANSACTIONS
    return _above({one: AppliedTransaction(version, decode_ranges(plain)) for one, version, plain in rows}, floor)


def rebuild_from_txns(versions: Mapping[str, int]) -> AppliedTransactions:
    """Rebuild the memory from ``txn`` versions by appId; the offset ranges of the records are missing from it."""
    by_id = {
        app_id.removeprefix(TRANSACTION_APP_ID): AppliedTransaction(version, ())
        for app_id, version in versions.items()
        if app_id.startswith(TRANSACTION_APP_ID)
    }
    return _above(by_id, versions.get(FLOOR_APP_ID, NO_TRANSACTIONS.floor))


def _above(by_id: dict[str, AppliedTransaction], floor: int) -> AppliedTransactions:
    kept = {one: known for one, known in by_id.items() if known.decided_version >= floor}
    return AppliedTransactions(MappingProxyType(kept), floor)


def _decode_tag(tag: str, path: str) -> AppliedTransactions:
    try:
        return decode_applied(tag.encode())
    except ValueError as problem:
        raise CorruptData(f"The log's entry for segment {path} can't be used: {problem}.", segment=path) from problem


def _encode_tag(floor: int, rows: Iterable[tuple[str, int, tuple[AppendedRange, ...]]]) -> bytes:
    plain = [(one, version, encode_ranges(offset_ranges)) for one, version, offset_ranges in rows]
    return _ENCODER.encode((floor, plain))
