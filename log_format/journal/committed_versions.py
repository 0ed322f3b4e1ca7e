"""A journal's memory of which version committed which object, so that no object is committed twice and senders can ask.

An object that was offered at version v was committed at no version up to v. So a committer that remembers all objects committed
after v can tell whether this one was. A committer that has forgotten some of them does not commit the object. No clock takes
part.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from log_format.delta.table import NO_LOG
from log_format.limits import JOURNAL_TAKEN_REMEMBERED


class OutcomeForgotten(Exception):
    """Error: the memory does not reach back far enough to tell whether the object was committed."""


class CommittedVersions:
    """The newest objects that were committed or given up. ``after``: all versions later than this are remembered. Thread-safe."""

    def __init__(self, after: int = NO_LOG) -> None:
        self._lock = threading.Lock()
        self._versions: OrderedDict[str, int] = OrderedDict()
        self._after = after

    def add(self, path: str, version: int) -> None:
        """Record that ``version`` committed the object, or gave it up."""
        with self._lock:
            self._versions.setdefault(path, version)
            while len(self._versions) > JOURNAL_TAKEN_REMEMBERED:
                self._after = max(self._after, self._versions.popitem(last=False)[1])

    def version_of(self, path: str, offered_at: int) -> int | None:
        """Return the version that has an object offered at version ``offered_at``; None if none has so far. Raises
        ``OutcomeForgotten``."""
        with self._lock:
            version = self._versions.get(path)
            if version is None and offered_at < self._after:
                raise OutcomeForgotten
            return version
