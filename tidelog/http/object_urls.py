"""Reads of a store's objects by signed URLs: the two operations that reading a segment needs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from log_format.errors import ObjectMissing, ObjectTooLarge, StoreUnavailable
from tidelog import limits
from tidelog.http.answer import AnswerLost, AnswerTooLarge, NeverSent
from tidelog.http.credentials import Credentials
from tidelog.http.endpoints import connect

if TYPE_CHECKING:
    from tidelog.http.connection import Address

ADDRESSES_MAX: Final = 8
"""Number of store hosts whose connections are kept."""


class ObjectUrls:
    """Reader of objects by their signed ``urls``, by key. Sends no credentials, and follows no redirects. Thread-safe."""

    def __init__(self, *, ca_file: str | None, timeout_ms: float) -> None:
        self.urls: Mapping[str, str] = {}
        # The store gets neither the client's token nor its certificate.
        self._credentials = Credentials(ca_file=ca_file, environment={})
        self._timeout_ms = timeout_ms
        self._addresses: dict[str, Address] = {}
        self._lock = threading.Lock()

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Return the whole object. Raises ``ObjectMissing``, ``ObjectTooLarge``, ``StoreUnavailable``."""
        assert bytes_max is not None, "segments are read up to the size in the log"
        return self._read(key, {}, bytes_max)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``. Raises ``ObjectMissing``, ``StoreUnavailable``."""
        return self._read(key, {"Range": f"bytes={start}-{end - 1}"}, end - start)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            for address in self._addresses.values():
                address.abort()

    def _read(self, key: str, headers: dict[str, str], bytes_max: int) -> bytes:
        url = urlsplit(self.urls[key])
        try:
            answer = self._address(f"{url.scheme}://{url.netloc}").exchange(
                "GET",
                f"{url.path}?{url.query}" if url.query else url.path,
                body=None,
                headers=headers,
                timeout_ms=self._timeout_ms,
                answer_bytes_max=max(bytes_max, limits.READ_BYTES),
            )
        except AnswerTooLarge as error:
            raise ObjectTooLarge(key, bytes_max + 1, bytes_max) from error
        except (NeverSent, AnswerLost, ValueError) as error:
            raise StoreUnavailable(key, f"{url.netloc}: {error}", may_have_happened=False) from error
        if answer.status == 404:
            raise ObjectMissing(key)
        if answer.status != (206 if headers else 200):
            raise StoreUnavailable(key, f"{url.netloc} answered {answer.status}", may_have_happened=False)
        return answer.body

    def _address(self, base: str) -> Address:
        with self._lock:
            known = self._addresses.get(base)
            if known is None:
                if len(self._addresses) >= ADDRESSES_MAX:
                    self._addresses.pop(next(iter(self._addresses))).close()
                known = self._addresses[base] = connect(base, self._credentials)
            return known
