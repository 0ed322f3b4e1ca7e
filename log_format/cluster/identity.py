"""The permanent identity of a store's gateways: an id, and the key that proves producer ids.

It is one object, ``system/cluster.json``: ``{"cluster_id": text, "producer_key": hexadecimal digits}``. The first process that
needs it puts it if absent; it never changes. The key keeps clients from inventing ids by accident or mischief. Every reader of
the store knows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from log_format import layout, limits
from log_format.errors import DECODE_ERRORS, CorruptData, ObjectExists, ObjectMissing
from log_format.ids import NewId
from log_format.store import ObjectStore, read_bounded


@dataclass(frozen=True, slots=True)
class Cluster:
    """The identity of a store's gateways."""

    cluster_id: str
    producer_key: bytes


class _Stored(msgspec.Struct, frozen=True):
    cluster_id: str
    producer_key: str


_decode: Final = msgspec.json.Decoder(_Stored).decode


def load_cluster(store: ObjectStore, new_id: NewId) -> Cluster:
    """Return the store's cluster, creating it if there is none. ``new_id`` must be hard to guess (a random UUID is).

    Raises ``StoreUnavailable``, ``CorruptData``.
    """
    try:
        data = _read(store)
    except ObjectMissing:
        key = (new_id() + new_id()).replace("-", "")
        data = msgspec.json.encode(_Stored(cluster_id=new_id(), producer_key=key))
        try:
            store.put_if_absent(layout.CLUSTER_KEY, data)
        except ObjectExists:
            data = _read(store)
    try:
        stored = _decode(data)
        return Cluster(stored.cluster_id, bytes.fromhex(stored.producer_key))
    except (*DECODE_ERRORS, ValueError) as problem:
        raise CorruptData(f"{layout.CLUSTER_KEY} can't be used: {problem}.", object=layout.CLUSTER_KEY) from problem


def may_be_same(store: ObjectStore, other: ObjectStore) -> bool:
    """Return whether both stores have the same cluster, or one has none yet. Raises ``StoreUnavailable``."""
    try:
        return _read(store) == _read(other)
    except ObjectMissing:
        return True


def _read(store: ObjectStore) -> bytes:
    return read_bounded(store, layout.CLUSTER_KEY, limits.CLUSTER_BYTES_MAX)
