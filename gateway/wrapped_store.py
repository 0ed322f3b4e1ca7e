"""A store in front of another one: each call goes on to it as it is. Subclasses change what they are for."""

from __future__ import annotations

from collections.abc import Iterator

from log_format.store import ObjectInfo, ObjectStore, SignsReads


class WrappedStore:
    """``store``, as it is. Safe from any thread, if the store is."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def uri(self) -> str:
        """See ``ObjectStore.uri``."""
        return self._store.uri

    @property
    def lists_from_key(self) -> bool:
        """See ``ObjectStore.lists_from_key``."""
        return self._store.lists_from_key

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """See ``ObjectStore.get``."""
        return self._store.get(key, bytes_max=bytes_max)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """See ``ObjectStore.get_range``."""
        return self._store.get_range(key, start, end)

    def put(self, key: str, data: bytes) -> None:
        """See ``ObjectStore.put``."""
        self._store.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """See ``ObjectStore.put_if_absent``."""
        self._store.put_if_absent(key, data)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """See ``ObjectStore.list``."""
        return self._store.list(prefix, start_after=start_after)

    def list_directories(self, prefix: str) -> Iterator[str]:
        """See ``ObjectStore.list_directories``."""
        return self._store.list_directories(prefix)

    def delete(self, key: str) -> None:
        """See ``ObjectStore.delete``."""
        self._store.delete(key)

    def head(self, key: str) -> ObjectInfo:
        """See ``ObjectStore.head``."""
        return self._store.head(key)

    def read_url(self, key: str, valid_s: int) -> str | None:
        """See ``SignsReads``. None: the store signs none."""
        return self._store.read_url(key, valid_s) if isinstance(self._store, SignsReads) else None
