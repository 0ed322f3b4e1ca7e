"""A store in front of another one: each call goes on to it unchanged. Subclasses change the calls that they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from log_format.store import ObjectInfo, ObjectStore, SignsReads, copy_all_if_absent


class WrappedStore:
    """``store``, unchanged. Safe from any thread, if the store is."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @property
    def uri(self) -> str:
        """URI of the store (``ObjectStore.uri``)."""
        return self._store.uri

    @property
    def lists_from_key(self) -> bool:
        """Whether a listing from a key on costs only what it yields (``ObjectStore.lists_from_key``)."""
        return self._store.lists_from_key

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Get an object (``ObjectStore.get``)."""
        return self._store.get(key, bytes_max=bytes_max)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Get a range of an object (``ObjectStore.get_range``)."""
        return self._store.get_range(key, start, end)

    def put(self, key: str, data: bytes) -> None:
        """Put an object (``ObjectStore.put``)."""
        self._store.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Put an object if it is absent (``ObjectStore.put_if_absent``)."""
        self._store.put_if_absent(key, data)

    def copy_if_absent(self, source: str, target: str) -> None:
        """Copy an object if the target is absent (``ObjectStore.copy_if_absent``)."""
        self._store.copy_if_absent(source, target)

    def copy_all_if_absent(self, copies: Sequence[tuple[str, str]]) -> None:
        """Copy many objects (``CopiesMany``)."""
        copy_all_if_absent(self._store, copies)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """List objects (``ObjectStore.list``)."""
        return self._store.list(prefix, start_after=start_after)

    def list_directories(self, prefix: str) -> Iterator[str]:
        """List directories (``ObjectStore.list_directories``)."""
        return self._store.list_directories(prefix)

    def delete(self, key: str) -> None:
        """Delete an object (``ObjectStore.delete``)."""
        self._store.delete(key)

    def head(self, key: str) -> ObjectInfo:
        """Return an object's info (``ObjectStore.head``)."""
        return self._store.head(key)

    def read_url(
        self, key: str, valid_s: int, *, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> str | None:
        """Return a signed URL for reading an object (``SignsReads``); None if the store signs none."""
        if not isinstance(self._store, SignsReads):
            return None
        return self._store.read_url(key, valid_s, method=method, headers=headers)
