"""Addresses of a client: the choice of the next one to ask, and the pause of one that failed."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog import limits
from tidelog.arguments import check_servers
from tidelog.http.credentials import Credentials

if TYPE_CHECKING:
    from tidelog.http.connection import Address


def connect(url: str, credentials: Credentials) -> Address:
    """Return the address of a gateway. The HTTP client is imported with the first one: urllib3 and ssl take 80 ms."""
    from tidelog.http.connection import Address  # noqa: PLC0415

    return Address(url, credentials.tls)


class Endpoint:
    """An address and its pause. Thread-safe: a race makes a pause wrong by one failure at worst."""

    __slots__ = ("_failures", "_rests_until_s", "address", "credentials")

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.address = connect(url, credentials)
        self.credentials = credentials
        self._failures = 0
        self._rests_until_s = 0.0

    @property
    def url(self) -> str:
        """Base URL of the address."""
        return self.address.url

    def paused_ms(self) -> float:
        """Return the milliseconds until the address may be asked again; 0 if it may be asked now."""
        return max(0.0, (self._rests_until_s - time.monotonic()) * 1000)

    def pause(self, at_least_ms: float = 0.0) -> None:
        """Record a failure, and pause the address."""
        longest_ms = min(limits.BACKOFF_FIRST_MS * 2.0**self._failures, limits.BACKOFF_LAST_MS)
        self._failures = min(self._failures + 1, 16)
        # Half of the pause is jitter, so that clients that failed together don't retry together.
        pause_ms = max(at_least_ms, longest_ms * random.uniform(0.5, 1.0))  # noqa: S311
        self._rests_until_s = time.monotonic() + pause_ms / 1000

    def recover(self) -> None:
        """Record an answer."""
        self._failures = 0


class Endpoints:
    """Bootstrap addresses, any of which may be down. The client stays with the one that answers."""

    def __init__(self, bootstrap_servers: str | Sequence[str] | None, credentials: Credentials | None = None) -> None:
        """Parse the addresses.

        Args:
            bootstrap_servers: a URL, several separated by commas, or a sequence of URLs, by default with ``http``; None:
                ``TIDELOG_URL``, else ``DEFAULT_URL``.
            credentials: None: from the environment.

        Raises ``ValueError`` for an invalid ``http`` or ``https`` URL, or one that must not get the token; ``TypeError`` for a
        value that is no address at all.
        """
        check_servers(bootstrap_servers)
        if bootstrap_servers is None:
            bootstrap_servers = os.environ.get("TIDELOG_URL") or limits.DEFAULT_URL
        texts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
        urls = [text.strip() if "://" in text else f"http://{text.strip()}" for text in texts if text.strip()]
        if not urls:
            raise ValueError("bootstrap_servers has no address of a gateway")
        self.credentials = credentials or Credentials()
        self._endpoints = [Endpoint(url, self.credentials) for url in dict.fromkeys(urls)]
        for endpoint in self._endpoints:
            self.credentials.check_address(endpoint.url)
        self._current = 0
        self._lock = threading.Lock()

    @property
    def urls(self) -> tuple[str, ...]:
        """Base URLs, in the given order."""
        return tuple(endpoint.url for endpoint in self._endpoints)

    def of_url(self, url: str) -> Endpoint | None:
        """Return the address with this base URL, or None."""
        return next((endpoint for endpoint in self._endpoints if endpoint.url == url), None)

    def healthy(self) -> list[Endpoint]:
        """Return the addresses that are not paused."""
        return [endpoint for endpoint in self._endpoints if endpoint.paused_ms() == 0]

    def choose(self) -> Endpoint:
        """Return the current address unless it is paused, else the next one that is not, else the one whose pause ends first."""
        with self._lock:
            count = len(self._endpoints)
            order = [(self._current + step) % count for step in range(count)]
            self._current = min(order, key=lambda index: self._endpoints[index].paused_ms())
            return self._endpoints[self._current]

    def close(self, *, abort: bool) -> None:
        """Close the connections; with ``abort`` also those in use."""
        for endpoint in self._endpoints:
            if abort:
                endpoint.address.abort()
            else:
                endpoint.address.close()
