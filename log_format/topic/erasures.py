"""Requests to erase what a topic has of a person: as the topic's table keeps them, and what one does to records (docs/format).

A request is in the table property ``tidelog.erasures`` until nothing of what it erased is in the store any more. The commit that
puts it there orders it against appends: it is about records below the next offsets of that commit, and about no later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from log_format.errors import DECODE_ERRORS, CorruptData
from log_format.layout import topic_root
from log_format.records.condition import Condition
from log_format.records.condition_syntax import ConditionError
from log_format.records.erasing import (
    HiddenCondition,
    Matcher,
    Rows,
    are_erased,
    digest_of,
    find_matches,
    mask_of,
    reveal_condition,
    without_contents,
)
from log_format.records.typed_columns import DATA, TYPED_NAMES, are_unjudged
from log_format.segments.key_filters import hash_key

ERASURES_PROPERTY: Final = "tidelog.erasures"

Keep = Literal["key", "nothing"]

SubjectPair = tuple[str, str]
"""The subjects of a topic's values and keys; empty: none."""
Judge = Callable[[pa.Table, SubjectPair | None], pa.Table | None]
"""Function that returns the typed columns of records by the schemas of these subjects, or else the topic's own; None: none."""


class Erasure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request, and what has been done. Times in ms since the epoch; ``ends`` by partition."""

    erasure_id: str
    requested_ms: int
    wanted: tuple[Matcher, ...]
    ends: tuple[int, ...] = ()
    """Next offsets when it was requested: records from there on are not touched."""
    before_ms: int | None = None
    """Only records with earlier timestamps; None: all of them."""
    within: Matcher | None = None
    """Only records that have this header, too; None: all. In a topic of dead letters: those of one topic."""
    keep: Keep = "key"
    """Whether erased records stay as keys without values, or leave gaps."""
    record_count: int = 0
    """Records that rewrites erased so far."""
    size_bytes: int = 0
    """Stored bytes of the segments that were replaced so far."""
    rewritten_version: int | None = None
    """Version of the log from which no segment in the table has what was asked for; None: not all are rewritten."""
    rewritten_ms: int | None = None
    where: HiddenCondition | None = None
    """Condition on typed columns: records that fulfil it are erased, too; None: only those of ``wanted``."""
    judged_by: SubjectPair | None = None
    """In a topic of dead letters: the subjects of the topic that they came from, by which the condition is judged; None: the
    records' own columns."""
    version: int | None = None
    """Version of the commit that recorded it; None: recorded by an earlier release, or in a restored copy of the topic."""
    hidden_hashes: tuple[str, ...] = ()
    """Of each key, in the order of ``wanted``, the hash by which filters of segments know it, hidden by the cluster's key
    (``hide_hash``)."""

    @property
    def is_rewritten(self) -> bool:
        """Whether the table has nothing left of it."""
        return self.rewritten_version is not None

    def key_hashes(self, secret: bytes) -> list[int] | None:
        """Return the hashes of the keys to erase (``hash_key``); None if not only keys are, or their hashes are unknown.

        Filters know nothing of ``where``.
        """
        if (
            not self.wanted
            or any(one.header is not None for one in self.wanted)
            or len(self.hidden_hashes) != len(self.wanted)
        ):
            return None
        hidden = zip(self.wanted, self.hidden_hashes, strict=True)
        return [int(text, 16) ^ mask_of(secret, one.digest) for one, text in hidden]

    def concerns(self, partition: int, base_offset: int) -> bool:
        """Return whether records of a partition from ``base_offset`` on may be among those to erase."""
        return partition < len(self.ends) and base_offset < self.ends[partition]


class ErasureNote(msgspec.Struct, frozen=True, kw_only=True):
    """A request as an object beside the topic's log has it, which outlives the topic: restored backups are erased by it.

    ``gone_ms``: when nothing of what it erased was left in the store; None: not known to be so.
    """

    erasure: Erasure
    topic_id: str
    gone_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedRecords:
    """Records after erasures, and how many records each erasure was about, by its id."""

    records: pa.Table
    counts: Mapping[str, int]


def hide_hash(secret: bytes, key: bytes) -> str:
    """Return the hash by which filters know a key, as a request has it: it tells nothing without the cluster's key."""
    return f"{hash_key(key) ^ mask_of(secret, digest_of(secret, key)):016x}"


def erase_records(
    records: pa.Table, erasures: Sequence[Erasure], secret: bytes, judge: Judge | None = None
) -> ErasedRecords:
    """Return the records after these erasures; none that an erasure is not about changes.

    Args:
        records: ``RECORD_SCHEMA`` and any typed columns.
        erasures: the requests.
        secret: the cluster's key, by which they name keys.
        judge: gives columns to records that no schema has judged yet, for conditions on columns; None: they have none.
    """
    emptied, dropped = np.zeros(records.num_rows, np.bool_), np.zeros(records.num_rows, np.bool_)
    counts: dict[str, int] = {}
    empty: Rows | None = None
    for erasure in erasures:
        found = _in_range(records, erasure)
        if found.any():
            found &= find_named(records, erasure, secret, judge)
        if erasure.keep == "key" and found.any():
            empty = are_erased(records) if empty is None else empty
            found &= ~empty
        if found.any():
            counts[erasure.erasure_id] = int(found.sum())
            target = emptied if erasure.keep == "key" else dropped
            target |= found
    if not counts:
        return ErasedRecords(records=records, counts=counts)
    records = without_contents(records, emptied)
    return ErasedRecords(records=records.filter(pa.array(~dropped)) if dropped.any() else records, counts=counts)


def find_named(records: pa.Table, erasure: Erasure, secret: bytes, judge: Judge | None = None) -> Rows:
    """Return which records a request names, whatever their offsets and times: by key and headers, and by columns.

    ``judge`` as for ``erase_records``.
    """
    found = find_matches(records, erasure.wanted, secret)
    if erasure.where is not None:
        found |= _find_holding(records, reveal_condition(secret, erasure.where), judge, erasure.judged_by)
    if erasure.within is not None and found.any():
        found &= find_matches(records, (erasure.within,), secret)
    return found


def find_meant(records: pa.Table, erasures: Iterable[Erasure], secret: bytes, judge: Judge | None = None) -> Rows:
    """Return which records any of these requests means, by key, headers, columns and time; they need no offsets yet
    (``BATCH_SCHEMA``).

    A record without key, value and headers is none: nothing of it could go. ``judge`` as for ``erase_records``.
    """
    found = np.zeros(records.num_rows, np.bool_)
    for erasure in erasures:
        meant = find_named(records, erasure, secret, judge)
        if erasure.before_ms is not None:
            meant &= _is_before(records, erasure.before_ms)
        found |= meant
    if found.any():
        found &= ~(are_erased(records) & np.asarray(pc.is_null(records.column("key")), np.bool_))
    return found


def notes_prefix(topic: str) -> str:
    """Return the key prefix of the notes of the topic's requests, ending with a slash."""
    return f"{topic_root(topic)}_erasures/"


def note_key(topic: str, erasure_id: str) -> str:
    """Return the key of a request's note."""
    return f"{notes_prefix(topic)}{erasure_id}.json"


def decode_note(data: bytes, key: str) -> ErasureNote:
    """Decode a note. Raises ``CorruptData``."""
    try:
        return _decode_note(data)
    except DECODE_ERRORS as problem:
        raise CorruptData(f"{key} is no note of a request to erase: {problem}.", object=key) from problem


def encode_erasures(erasures: Iterable[Erasure]) -> dict[str, str]:
    """Return the requests as table properties; none without requests."""
    listed = tuple(erasures)
    return {ERASURES_PROPERTY: msgspec.json.encode(listed).decode()} if listed else {}


def parse_erasures(topic: str, properties: Mapping[str, str]) -> tuple[Erasure, ...]:
    """Return the requests among a topic's table properties. Raises ``CorruptData``: to forget one would break a promise."""
    text = properties.get(ERASURES_PROPERTY)
    if text is None:
        return ()
    try:
        return _parse(text)
    except DECODE_ERRORS as problem:
        raise CorruptData(
            f"The {ERASURES_PROPERTY} of topic {topic!r} can't be used: {problem}.", topic=topic
        ) from problem


_decode: Final = msgspec.json.Decoder(tuple[Erasure, ...]).decode
_decode_note: Final = msgspec.json.Decoder(ErasureNote).decode
_parse: Final = lru_cache(maxsize=100)(_decode)


def _find_holding(records: pa.Table, condition: Condition, judge: Judge | None, judged_by: SubjectPair | None) -> Rows:
    """Return which records a condition holds for. ``judge`` gives columns to those that no schema has judged; to all of them, if
    they are letters from another topic (``judged_by``)."""
    if judged_by is not None:
        records = records.select([name for name in records.column_names if name not in TYPED_NAMES])
    found = condition.mask(records)
    unjudged = np.zeros(records.num_rows, np.bool_)
    for name in condition.columns if judge is not None else ():
        part = pc.is_valid(records.column("value" if name == DATA else "key"))
        missing = are_unjudged(records, name) if name in records.schema.names else part
        if missing is not None:
            unjudged |= missing.to_numpy()
    if judge is not None and unjudged.any():
        typed = judge(records.filter(pa.array(unjudged)), judged_by)
        if typed is not None:
            with suppress(ConditionError):  # the letters' subject was made anew with other types
                found[unjudged] = condition.mask(typed)
    return found


def _in_range(records: pa.Table, erasure: Erasure) -> Rows:
    partitions = records.column("partition").to_numpy()
    ends = np.zeros(1 + max(len(erasure.ends), int(partitions.max(initial=0))), np.int64)
    ends[: len(erasure.ends)] = erasure.ends
    found = records.column("offset").to_numpy() < ends[partitions]
    if erasure.before_ms is not None:
        found &= _is_before(records, erasure.before_ms)
    return np.asarray(found, np.bool_)


def _is_before(records: pa.Table, before_ms: int) -> Rows:
    return np.asarray(records.column("timestamp").cast(pa.int64()).to_numpy() < before_ms * 1000, np.bool_)
