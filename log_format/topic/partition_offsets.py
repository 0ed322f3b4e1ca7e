"""The offsets that a topic's log has for each partition, as ``txn`` actions say them by their ``appId``:

* ``<partition>``: the partition's next offset
* ``log-start-<partition>``: its log start
* ``keys-compacted-<partition>``: the offset below which key compaction may have left gaps
* ``erased-<partition>``: the offset below which erasures may have changed records

None of them ever goes back within an incarnation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from log_format.delta.actions import Txn

LOG_START_APP_ID: Final = "log-start-"
KEYS_COMPACTED_APP_ID: Final = "keys-compacted-"
ERASED_APP_ID: Final = "erased-"
KINDS: Final = {
    "": "next_offsets",
    LOG_START_APP_ID: "log_starts",
    KEYS_COMPACTED_APP_ID: "keys_compacted",
    ERASED_APP_ID: "erased_ends",
}
"""Prefixes of the app ids, and the attributes of a topic's state that have the offsets."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")

Offsets = npt.NDArray[np.int64]


def offsets_after(known: Mapping[str, Offsets], txns: Iterable[Txn], partition_count: int) -> dict[str, Offsets]:
    """Return what these ``txn`` make of the offsets of each kind, by attribute (``KINDS``); others stay the same arrays.

    Raises ``ValueError`` with what is wrong.
    """
    found = dict(known)
    for txn in txns:
        kind = next((kind for kind in KINDS if kind and txn.app_id.startswith(kind)), "")
        number = txn.app_id.removeprefix(kind)
        if not _NUMBER.fullmatch(number):
            continue  # of another program
        offsets = found[KINDS[kind]]
        partition = int(number)
        if partition >= partition_count:
            if txn.version == 0:
                continue  # left over from an earlier incarnation with more partitions
            raise ValueError(f"txn {txn.app_id} names partition {partition} of {partition_count}")
        if txn.version < offsets[partition]:
            raise ValueError(f"txn {txn.app_id} goes back from {offsets[partition]} to {txn.version}")
        if not offsets.flags.writeable:
            offsets = found[KINDS[kind]] = offsets.copy()
        offsets[partition] = txn.version
    next_offsets, *limited = found.values()
    are_limits_old = all(found[name] is known[name] for name in KINDS.values() if name != "next_offsets")
    if not are_limits_old and any((offsets > next_offsets).any() for offsets in limited):
        raise ValueError("a log start, or where compaction or erasure came to, is beyond the next offset")
    return {name: frozen(offsets) for name, offsets in found.items()}


@lru_cache(maxsize=100)
def zeros(count: int) -> Offsets:
    """Return an array of zeros that all topics with ``count`` partitions share, since most offsets are 0 and stay 0."""
    return frozen(np.zeros(count, np.int64))


def frozen(offsets: Offsets) -> Offsets:
    """Make the array immutable, and return it."""
    offsets.flags.writeable = False
    return offsets
