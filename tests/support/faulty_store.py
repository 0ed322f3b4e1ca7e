"""A store whose operations a test counts, holds up, and lets fail."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Self

from log_format.errors import StoreUnavailable
from log_format.store import ObjectInfo, ObjectStore
from log_format.stores.memory import MemoryStore

Hook = Callable[[str, str], object]
"""Is given the operation and its key; may raise or wait."""
Step = BaseException | Callable[..., Any] | None
"""What to raise, or to call instead with the real operation, its key and its data. ``None``: the real operation."""


def nothing(_operation: str, _key: str) -> None:
    """The hook of a store that works."""


class FaultyStore:
    """An ``ObjectStore`` around another one, by default a new one in memory.

    ``before`` and ``after`` are called around each operation. ``script["put"]`` holds what becomes of the next puts, first one
    first. ``requests`` notes the operations with their keys; ``calls`` counts them.
    """

    def __init__(self, objects: ObjectStore | None = None, *, before: Hook = nothing, after: Hook = nothing) -> None:
        self.objects: ObjectStore = objects if objects is not None else MemoryStore()
        self.before = before
        self.after = after
        self.script: dict[str, list[Step]] = {}
        self.calls: Counter[str] = Counter()
        self.requests: list[tuple[str, str]] = []
        self.uri = self.objects.uri
        self.lists_from_key = self.objects.lists_from_key

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        data: bytes = self._do("get", lambda key: self.objects.get(key, bytes_max=bytes_max), key)
        return data

    def get_range(self, key: str, start: int, end: int) -> bytes:
        data: bytes = self._do("get_range", self.objects.get_range, key, start, end)
        return data

    def head(self, key: str) -> ObjectInfo:
        info: ObjectInfo = self._do("head", self.objects.head, key)
        return info

    def put(self, key: str, data: bytes) -> None:
        self._do("put", self.objects.put, key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._do("put_if_absent", self.objects.put_if_absent, key, data)

    def copy_if_absent(self, source: str, target: str) -> None:
        self._do("copy_if_absent", lambda target: self.objects.copy_if_absent(source, target), target)

    def delete(self, key: str) -> None:
        self._do("delete", self.objects.delete, key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        listing: Iterator[ObjectInfo] = self._do(
            "list", lambda prefix: self.objects.list(prefix, start_after=start_after), prefix
        )
        return listing

    def list_directories(self, prefix: str) -> Iterator[str]:
        listing: Iterator[str] = self._do("list_directories", self.objects.list_directories, prefix)
        return listing

    def _do(self, operation: str, real: Callable[..., Any], key: str, *arguments: Any) -> Any:
        self.calls[operation] += 1
        self.requests.append((operation, key))
        self.before(operation, key)
        steps = self.script.get(operation)
        step = steps.pop(0) if steps else None
        if isinstance(step, BaseException):
            raise step
        result = real(key, *arguments) if step is None else step(real, key, *arguments)
        self.after(operation, key)
        return result

    def go_down(self) -> None:
        """Refuse everything from now on."""

        def refuse(_operation: str, key: str) -> None:
            raise StoreUnavailable(key, "the store is down", may_have_happened=False)

        self.before = refuse

    def come_back(self) -> None:
        """Do everything again."""
        self.before = self.after = nothing


class Gate:
    """Holds up the operations of one kind until it is opened; a context manager, so that no thread stays behind."""

    def __init__(self, store: FaultyStore, operation: str, suffix: str = "") -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()
        self._store = store

        def wait(current: str, key: str) -> None:
            if current == operation and key.endswith(suffix):
                self.reached.set()
                assert self._opened.wait(20), "the gate was never opened"

        store.before = wait

    async def wait_until_reached(self) -> None:
        """Until an operation stands before the gate."""
        assert await asyncio.to_thread(self.reached.wait, 10)

    def open(self) -> None:
        self._opened.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        self._store.come_back()
