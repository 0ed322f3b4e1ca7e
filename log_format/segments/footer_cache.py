"""A cache of decoded footers with a limit in bytes, which evicts the least recently used. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict

from log_format.segments.footer import Footer


class FooterCache:
    """A cache of footers by object key. A segment never changes, so no entry is ever stale."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._footers: OrderedDict[str, Footer] = OrderedDict()
        self._bytes = 0

    @property
    def memory_bytes(self) -> int:
        """Estimated memory of the cached footers in bytes; at most the limit."""
        return self._bytes

    def get(self, key: str) -> Footer | None:
        """Return the object's footer; None if it is not cached."""
        with self._lock:
            footer = self._footers.get(key)
            if footer is not None:
                self._footers.move_to_end(key)
            return footer

    def put(self, key: str, footer: Footer) -> None:
        """Cache the footer, unless it alone exceeds the limit."""
        if footer.memory_bytes > self._bytes_max:
            return
        with self._lock:
            before = self._footers.pop(key, None)
            self._bytes += footer.memory_bytes - (before.memory_bytes if before is not None else 0)
            self._footers[key] = footer
            while self._bytes > self._bytes_max:
                _, dropped = self._footers.popitem(last=False)
                self._bytes -= dropped.memory_bytes
