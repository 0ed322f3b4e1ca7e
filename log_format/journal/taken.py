"""Which version of a journal took up which object: so none is taken up twice, and a sender can ask what became of its object.

An object that was offered at version v was taken up at no version up to v. So a committer that knows all objects taken up after
v can tell whether this one was. One that has forgotten some of them does not take it. No clock takes part.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from log_format.delta.table import NO_LOG
from log_format.limits import JOURNAL_TAKEN_REMEMBERED


class Forgotten(Exception):
    """Too much has happened since: whether the object was taken up is not known here."""


class TakenObjects:
    """The newest objects of one journal, and those that were given up. ``after``: later versions are known. Thread-safe."""

    def __init__(self, after: int = NO_LOG) -> None:
        self._lock = threading.Lock()
        self._versions: OrderedDict[str, int] = OrderedDict()
        self._after = after

    def add(self, path: str, version: int) -> None:
        """``version`` took the object up, or said that none will."""
        with self._lock:
            self._versions.setdefault(path, version)
            while len(self._versions) > JOURNAL_TAKEN_REMEMBERED:
                self._after = max(self._after, self._versions.popitem(last=False)[1])

    def version_of(self, path: str, offered_at: int) -> int | None:
        """The version that took up an object offered at version ``offered_at``; None: none so far. Raises ``Forgotten``."""
        with self._lock:
            version = self._versions.get(path)
            if version is None and offered_at < self._after:
                raise Forgotten
            return version
