"""``counted_gateway.py NOTES [option …]``: a gateway that notes each of its requests to the store.

``NOTES`` is a file of rows (``ROW``) for the measuring process, which reads it by ``benchmarks.harness.trace``. A listing is
noted once for each thousand keys, as S3 bills it. What a store's client repeats by itself is not seen here.

Run as a program it needs only the standard library and the gateway that Python finds: so it counts for any commit's gateway.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

KEYS_PER_LISTING: Final = 1_000
ROW: Final = struct.Struct("<ddIIIBBBB")
"""Start and end in monotonic seconds, CRC-32 of the table's root, version, bytes put, verb, kind, owner, 1 if it succeeded."""

VERBS: Final = ("PUT", "GET", "HEAD", "LIST", "DELETE")
"""Methods of a store begin with one of them."""
OWNERS: Final = ("topic", "journal", "system", "gateways")
_OWNER: Final = re.compile(r"(topics/[^/]*/)|(system/journals/[^/]*/)|(system/(?:transactions|consumer_offsets)/)")
KINDS: Final = ("segment", "commit", "checkpoint", "other")
_KIND: Final = re.compile(
    r"((?:segments|compacted)/)|(_delta_log/([0-9]{20})\.json$)|(_delta_log/(?:_last_checkpoint|[0-9]{20}\.checkpoint))"
)
VERSION_MAX: Final = 0xFFFFFFFF


def classified(key: str) -> tuple[int, int, int, int]:
    """Return the CRC-32 of the root of a key's table, the version in the key, its kind and its owner."""
    found = _OWNER.match(key)
    owner = len(OWNERS) - 1 if found is None else (found.lastindex or 1) - 1
    root = "" if found is None else found.group()
    named = _KIND.match(key, len(root))
    if named is None:
        return zlib.crc32(root.encode()), 0, KINDS.index("other"), owner
    kind = "segment" if named.group(1) else "commit" if named.group(2) else "checkpoint"
    version = min(int(named.group(3) or 0), VERSION_MAX)
    return zlib.crc32(root.encode()), version, KINDS.index(kind), owner


class CountedStore:
    """Another store whose requests are appended to an open file. Safe from any thread."""

    def __init__(self, store: Any, trace: int) -> None:
        self._store = store
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._store, name)
        verb = name.partition("_")[0].upper()
        if verb not in VERBS:
            return attribute
        counted = self._listed if name == "list" else self._asked
        call = partial(counted, attribute, VERBS.index(verb))
        setattr(self, name, call)
        return call

    def _asked(self, method: Callable[..., Any], verb: int, key: str, *arguments: Any, **named: Any) -> Any:
        start = time.monotonic()
        is_done = False
        try:
            answer = method(key, *arguments, **named)
            is_done = True
        finally:
            size = memoryview(arguments[0]).nbytes if verb == 0 and arguments else 0
            self._note(verb, key, start, size, is_done=is_done)
        if hasattr(answer, "__await__"):
            raise TypeError("the store's calls are asynchronous: their time would be wrong")
        return answer

    def _listed(self, method: Callable[..., Iterator[Any]], verb: int, prefix: str, **named: Any) -> Iterator[Any]:
        self._note(verb, prefix, time.monotonic(), 0, is_done=True)
        for number, info in enumerate(method(prefix, **named), 1):
            if number % KEYS_PER_LISTING == 0:
                self._note(verb, prefix, time.monotonic(), 0, is_done=True)
            yield info

    def _note(self, verb: int, key: str, start: float, size: int, *, is_done: bool) -> None:
        table, version, kind, owner = classified(key)
        # One small write to a file opened for appending is atomic among threads.
        os.write(self._trace, ROW.pack(start, time.monotonic(), table, version, size, verb, kind, owner, is_done))


def main() -> int:
    """Run the gateway."""
    trace = os.open(Path(sys.argv[1]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    from log_format import stores  # noqa: PLC0415 - the gateway's: not needed to read a trace

    def opened(uri: str, **options: Any) -> CountedStore:
        return CountedStore(open_store(uri, **options), trace)

    open_store = stores.open_store
    # Before the gateway imports it by name, wherever it does.
    with mock.patch.object(stores, "open_store", opened):
        from gateway.__main__ import main as gateway_main  # noqa: PLC0415

        return gateway_main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
