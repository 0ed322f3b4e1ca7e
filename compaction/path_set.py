"""A set of file paths in 8 bytes each, for a topic's archive, which may have millions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

_UNSORTED_SHARE_MAX: Final = 8
"""The paths that came last are sorted in with the others when they are more than one in so many."""

Hashes = npt.NDArray[np.int64]


class PathSet:
    """A set of paths, by hashes of 64 bits: two of a million paths have the same once in 40 million sets."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._sorted: Hashes = np.empty(0, np.int64)
        self._newest: Hashes = np.empty(0, np.int64)
        self.add(paths)

    def __len__(self) -> int:
        return len(self._sorted) + len(self._newest)

    def add(self, paths: Iterable[str]) -> None:
        """Add the paths, each at most once."""
        self._newest = np.sort(np.append(self._newest, _hashes(paths)))
        if len(self._newest) * _UNSORTED_SHARE_MAX > len(self._sorted):
            self._sorted = np.sort(np.append(self._sorted, self._newest))
            self._newest = self._newest[:0]

    def contains(self, paths: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which of the paths are in the set."""
        wanted = _hashes(paths)
        return _are_in(wanted, self._sorted) | _are_in(wanted, self._newest)


def _hashes(paths: Iterable[str]) -> Hashes:
    return np.fromiter((hash(path) for path in paths), np.int64)


def _are_in(wanted: Hashes, known: Hashes) -> npt.NDArray[np.bool_]:
    if not len(known):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.asarray(known[places] == wanted, np.bool_)
