"""The index of a large transaction, which lists what its decision would otherwise name
(docs/decisions/081-large-transactions.md).

``system/transactions/staged/<transaction id>/<unique>.index``: JSON ``[[name, bytes], …]``, the staged batches of a Kafka client
in the order in which they are applied. It is put before the decision, which names it. An index that no decision names has no
meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from log_format.errors import DECODE_ERRORS, CorruptData
from log_format.transactions.staged_records import StagedLane, parse_name

SUFFIX: Final = ".index"
INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
"""Largest index, in bytes: several times the largest that a gateway writes."""


class IndexedBatch(NamedTuple):
    """A staged batch that an index names."""

    name: str
    size_bytes: int
    topic_hash: str
    lane: StagedLane


_Row = tuple[str, int]
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[_Row])


def is_index(name: str) -> bool:
    """Return whether the staged object of this name is an index."""
    return name.endswith(SUFFIX)


def encode_index(rows: Sequence[_Row]) -> bytes:
    """Encode the object."""
    return _ENCODER.encode(rows)


def decode_index(data: bytes, key: str) -> list[IndexedBatch]:
    """Decode the result of ``encode_index``. Raises only ``CorruptData``."""
    try:
        rows = _DECODER.decode(data)
    except DECODE_ERRORS as problem:
        raise CorruptData(f"{key} is no index of staged batches: {problem}.", object=key) from problem
    found = []
    for name, size_bytes in rows:
        staged = parse_name(name)
        if staged is None or staged.lane is None:
            raise CorruptData(f"{key} names {name[:100]!r}, which is no staged batch.", object=key)
        found.append(IndexedBatch(name, size_bytes, staged.topic_hash, staged.lane))
    return found


def group_by_topic(batches: Iterable[IndexedBatch]) -> list[list[IndexedBatch]]:
    """Return the batches of each topic, in order."""
    topics: dict[str, list[IndexedBatch]] = {}
    for batch in batches:
        topics.setdefault(batch.topic_hash, []).append(batch)
    return list(topics.values())
