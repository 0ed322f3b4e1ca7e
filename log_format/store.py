"""The protocol of an object store, and the promises that the format needs.

Keys are relative to the store's root, ``/``-separated, without a leading ``/``, and ordered by their UTF-8 bytes.

1. **Put-if-absent is atomic** among all processes: of concurrent calls for one key at most one succeeds.
2. **Read your writes**: an operation that begins after a successful put or delete returned sees its effect; so does a listing.
3. **No half objects**: a get or a listing shows a whole object or none, even after a crash during a put.
4. **Durable**: when a put returns, the object survives the crash of the process and of its machine.

Every call blocks until it has an answer or its bounded retries are used up. It is thread-safe, and raises only ``StoreError``
subclasses. A store retries a request only if that does no harm. It never retries ``put_if_absent`` once the request may have
reached the store, since the caller must learn whose object is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from log_format.errors import CorruptData, ObjectTooLarge


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """A stored object: its key, its size, and when it was last written (by the store's clock, milliseconds since the epoch)."""

    key: str
    size_bytes: int
    modified_at_ms: int


class ObjectReader(Protocol):
    """The read operations that segments need."""

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Return the whole object; one above ``bytes_max`` bytes is not read.

        Raises ``ObjectMissing``, ``ObjectTooLarge``, ``StoreUnavailable``.
        """

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``, ``0 <= start < end``, cut at the object's end (``b""`` if they begin there or
        later).

        Raises ``ObjectMissing``, ``StoreUnavailable``.
        """


@runtime_checkable
class ObjectStore(ObjectReader, Protocol):
    """A store in one bucket and prefix, or one directory, with the module's promises."""

    @property
    def uri(self) -> str:
        """Address of the store, as a Delta reader would name it: ``file:///directory`` or ``s3://bucket/prefix``."""

    @property
    def lists_from_key(self) -> bool:
        """Whether ``list`` with ``start_after`` costs only what it yields. Otherwise it costs the whole directory."""

    def put(self, key: str, data: bytes) -> None:
        """Write the object, replacing an earlier one. Raises ``StoreUnavailable``."""

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write the object if there is none. Raises ``ObjectExists``, ``StoreUnavailable``."""

    def copy_if_absent(self, source: str, target: str) -> None:
        """Write the object ``target`` with the bytes of ``source`` if there is no ``target``, by the store itself where it can.

        The copy may have the source's time. Raises ``ObjectMissing`` without a source, ``ObjectExists``, ``StoreUnavailable``.
        """

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects whose key starts with ``prefix`` and is above ``start_after``, in key order; pages are read as consumed.

        Raises ``StoreUnavailable`` during iteration.
        """

    def list_directories(self, prefix: str) -> Iterator[str]:
        """Yield each distinct name ``n`` such that a key starts with ``prefix + n + "/"``, in order.

        ``prefix`` is empty or ends with ``/``. Raises ``StoreUnavailable`` during iteration.
        """

    def delete(self, key: str) -> None:
        """Remove the object, if there is one. Raises ``StoreUnavailable``."""

    def head(self, key: str) -> ObjectInfo:
        """Return the object's size and time. Raises ``ObjectMissing``, ``StoreUnavailable``."""


@runtime_checkable
class SignsReads(Protocol):
    """A store that can let others read single objects without its credentials."""

    def read_url(
        self, key: str, valid_s: int, *, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> str | None:
        """Return a URL at which anyone may GET the object, ranges too; None if the store signs no URLs.

        ``method``: GET or HEAD. ``headers``: those of the store's own (``x-amz-…``) that the request must have, by name in lower
        case. The URL is valid for ``valid_s`` seconds, or until the store's own credentials expire.

        Sends no request to the store. Raises ``StoreUnavailable`` without credentials.
        """


@runtime_checkable
class CopiesMany(Protocol):
    """A store that copies many objects for less than one by one."""

    def copy_all_if_absent(self, copies: Sequence[tuple[str, str]]) -> None:
        """Copy each (source, target) as ``ObjectStore.copy_if_absent`` does, in any order; raises the same errors.

        After an error any of the copies may be there. On return all of them survive a crash.
        """


def copy_all_if_absent(store: ObjectStore, copies: Sequence[tuple[str, str]]) -> None:
    """Copy each (source, target), as ``CopiesMany`` specifies, also in a store that copies one by one."""
    if isinstance(store, CopiesMany):
        store.copy_all_if_absent(copies)
        return
    for source, target in copies:
        store.copy_if_absent(source, target)


def read_bounded(store: ObjectReader, key: str, bytes_max: int) -> bytes:
    """Return the object, which must not fill the memory if somebody replaced it by a large one.

    Raises ``CorruptData`` for a larger one, without reading it; ``ObjectMissing``, ``StoreUnavailable``.
    """
    try:
        return store.get(key, bytes_max=bytes_max)
    except ObjectTooLarge as problem:
        raise CorruptData(
            f"{key} has {problem.size_bytes} bytes, and Tidelog writes at most {bytes_max} there: it was replaced.",
            object=key,
        ) from problem
