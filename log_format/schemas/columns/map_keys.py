"""Keys that a map has twice: no document has such a member, and engines like DuckDB refuse the whole column."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TWICE = "it has a key twice"


def repeated_keys(keys: pa.Array, maps: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the indices of the entries whose key an earlier entry of the same map has.

    Args:
        keys: the key of each entry.
        maps: the map of each entry; entries of one map are together.
    """
    if len(maps) < 2 or not (maps[1:] == maps[:-1]).any():
        return np.empty(0, np.intp)
    codes = keys.dictionary_encode()
    both = maps.astype(np.int64) * len(codes.dictionary) + codes.indices.to_numpy()
    order = np.argsort(both, kind="stable")
    repeated: npt.NDArray[np.intp] = order[1:][both[order][1:] == both[order][:-1]]
    return repeated
