"""The decided transactions whose records a topic has, so that each is applied once, whichever process finishes it.

A commit that applies a transaction names it, the version of ``system/transactions`` at which it was decided, and the places of
its records. It also has a *floor*: every transaction decided below that version had ended, as the committer has seen. The floor
never goes down. A topic remembers a transaction until the floor has passed it; of a forgotten one the floor says that it ended.
No clock takes part. The memory is bounded by the transactions that are decided and not ended.

``tidelog.applied``  tag of an ``add``: JSON ``[floor, [[transaction id, decided version, [[partition, base offset, records],
…]], …]]``. Each transaction is also a ``txn`` (``transaction-<id>``), and so is the floor (``ended-transactions``). So another
program's checkpoint has all but the places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from log_format.delta.actions import Add, Commit, Txn
from log_format.errors import BackOff, CorruptData
from log_format.topic.appended import Appended, Duplicate

TAG_APPLIED: Final = "tidelog.applied"
TRANSACTION_APP_ID: Final = "transaction-"
FLOOR_APP_ID: Final = "ended-transactions"


class TransactionStamp(NamedTuple):
    """The transaction that a batch applies. ``floor``: all decisions below that version had ended when the caller looked."""

    transaction_id: str
    decided_version: int
    floor: int


class AppliedTransaction(NamedTuple):
    """A transaction whose records are in the topic, and their places."""

    decided_version: int
    places: tuple[Appended, ...]


class TransactionEnded(BackOff):
    """Another process finished the transaction: read its row again. Nothing was appended."""

    def __init__(self, transaction_id: str) -> None:
        super().__init__(f"Transaction {transaction_id} was ended by another gateway.")


@dataclass(frozen=True, slots=True)
class AppliedTransactions:
    """A topic's memory of applied transactions at one version."""

    by_id: Mapping[str, AppliedTransaction]
    floor: int

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes: in proportion to the transactions that have not ended, which are few."""
        return sum(384 + 192 * len(known.places) for known in self.by_id.values())

    def judge(self, stamp: TransactionStamp) -> Duplicate | TransactionEnded | None:
        """Whether the topic has the transaction's records, or it has ended; None: neither, so apply it."""
        known = self.by_id.get(stamp.transaction_id)
        if known is not None:
            return Duplicate(known.places)
        return TransactionEnded(stamp.transaction_id) if stamp.decided_version < self.floor else None

    def after(self, commit: Commit) -> AppliedTransactions:
        """The memory after a commit of the same incarnation. Raises ``CorruptData``."""
        by_id, floor = dict(self.by_id), self.floor
        for add in commit.adds:
            tag = (add.tags or {}).get(TAG_APPLIED)
            if add.data_change and tag is not None:
                newer = _decoded(tag, add.path)
                by_id |= newer.by_id
                floor = max(floor, newer.floor)
        return self if by_id == self.by_id else _above(by_id, floor)

    def with_applied(self, applied: Mapping[TransactionStamp, tuple[Appended, ...]]) -> AppliedTransactions:
        """The memory after a commit that applies these."""
        by_id = dict(self.by_id)
        by_id |= {stamp.transaction_id: AppliedTransaction(stamp.decided_version, at) for stamp, at in applied.items()}
        return _above(by_id, max(self.floor, *(stamp.floor for stamp in applied)))

    def needs(self, app_id: str) -> bool:
        """Whether a checkpoint must keep the ``txn`` of this appId, as far as transactions are concerned."""
        return not app_id.startswith(TRANSACTION_APP_ID) or app_id.removeprefix(TRANSACTION_APP_ID) in self.by_id

    def encoded(self) -> bytes:
        """As JSON, for a checkpoint."""
        return _encoded(self.floor, [(one, *known) for one, known in self.by_id.items()])


NO_TRANSACTIONS: Final = AppliedTransactions(MappingProxyType({}), -1)

_Row = tuple[str, int, list[tuple[int, int, int]]]
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(tuple[int, list[_Row]])


def tagged(add: Add, applied: Mapping[TransactionStamp, tuple[Appended, ...]], floor_before: int) -> Add:
    """The ``add`` of a flush that applies these transactions, tagged with the places of their records."""
    if not applied:
        return add
    floor = max(floor_before, *(stamp.floor for stamp in applied))
    rows = [(stamp.transaction_id, stamp.decided_version, places) for stamp, places in applied.items()]
    tag = _encoded(floor, rows)
    return msgspec.structs.replace(add, tags={**(add.tags or {}), TAG_APPLIED: tag.decode()})


def named(stamps: Collection[TransactionStamp], floor_before: int, now_ms: int) -> list[Txn]:
    """The ``txn`` actions of a flush that applies these transactions."""
    txns = [
        Txn(app_id=f"{TRANSACTION_APP_ID}{stamp.transaction_id}", version=stamp.decided_version, last_updated=now_ms)
        for stamp in stamps
    ]
    if stamps:
        floor = max(floor_before, *(stamp.floor for stamp in stamps))
        txns.append(Txn(app_id=FLOOR_APP_ID, version=floor, last_updated=now_ms))
    return txns


def decode_applied(data: bytes) -> AppliedTransactions:
    """The memory from ``AppliedTransactions.encoded``. Raises ``ValueError`` (``msgspec.DecodeError``) for anything else."""
    floor, rows = _DECODER.decode(data)
    if not rows and floor == NO_TRANSACTIONS.floor:
        return NO_TRANSACTIONS
    return _above({one: AppliedTransaction(version, _places(plain)) for one, version, plain in rows}, floor)


def applied_by_txns(versions: Mapping[str, int]) -> AppliedTransactions:
    """The memory from ``txn`` versions by appId alone: all but the places of the records."""
    by_id = {
        app_id.removeprefix(TRANSACTION_APP_ID): AppliedTransaction(version, ())
        for app_id, version in versions.items()
        if app_id.startswith(TRANSACTION_APP_ID)
    }
    return _above(by_id, versions.get(FLOOR_APP_ID, NO_TRANSACTIONS.floor))


def _above(by_id: dict[str, AppliedTransaction], floor: int) -> AppliedTransactions:
    kept = {one: known for one, known in by_id.items() if known.decided_version >= floor}
    return AppliedTransactions(MappingProxyType(kept), floor)


def _decoded(tag: str, path: str) -> AppliedTransactions:
    try:
        return decode_applied(tag.encode())
    except ValueError as problem:
        raise CorruptData(f"The log's entry for segment {path} can't be used: {problem}.", segment=path) from problem


def _encoded(floor: int, rows: Iterable[tuple[str, int, tuple[Appended, ...]]]) -> bytes:
    plain = [
        (one, version, [(place.partition, place.base_offset, place.count) for place in places])
        for one, version, places in rows
    ]
    return _ENCODER.encode((floor, plain))


def _places(plain: Iterable[tuple[int, int, int]]) -> tuple[Appended, ...]:
    return tuple(Appended(*place) for place in plain)
