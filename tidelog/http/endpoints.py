"""The addresses of a client, which of them to ask next, and how long one rests after a failure."""

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
    """The address of a gateway. What speaks HTTP is imported with the first one: urllib3 and ssl take 80 ms."""
    from tidelog.http.connection import Address  # noqa: PLC0415

    return Address(url, credentials.tls)


class Endpoint:
    """An address and its rest. Safe from any thread: a race makes a pause too short or too long by one failure at worst."""

    __slots__ = ("_failures", "_rests_until_s", "address", "credentials")

    def __init__(self, url: str, credentials: Credentials) -> None:
        self.address = connect(url, credentials)
        self.credentials = credentials
        self._failures = 0
        self._rests_until_s = 0.0

    @property
    def url(self) -> str:
        """The base URL."""
        return self.address.url

    def resting_ms(self) -> float:
        """Milliseconds until it may be asked again; 0 when it may."""
        return max(0.0, (self._rests_until_s - time.monotonic()) * 1000)

    def rest(self, at_least_ms: float = 0.0) -> None:
        """Note a failure: the address rests for a while."""
        longest_ms = min(limits.BACKOFF_FIRST_MS * 2.0**self._failures, limits.BACKOFF_LAST_MS)
        self._failures = min(self._failures + 1, 16)
        # Half of the rest is jitter, so that clients that failed together don't come back together.
        pause_ms = max(at_least_ms, longest_ms * random.uniform(0.5, 1.0))  # noqa: S311
        self._rests_until_s = time.monotonic() + pause_ms / 1000

    def recover(self) -> None:
        """Note an answer."""
        self._failures = 0


class Endpoints:
    """One address or more, any of which may be dead. The client keeps to the one that answers."""

    def __init__(self, bootstrap_servers: str | Sequence[str] | None, credentials: Credentials | None = None) -> None:
        """A URL, several separated by commas, or a sequence of them; None: ``TIDELOG_URL``, else ``DEFAULT_URL``.

        ``credentials``: None is what the environment says.

        Raises ``ValueError`` for what is no ``http`` or ``https`` URL, or must not have the token; a missing scheme means
        ``http``. Raises ``TypeError`` for what is no address at all.
        """
        check_servers(bootstrap_servers)
        if bootstrap_servers is None:
            bootstrap_servers = os.environ.get("TIDELOG_URL") or limits.DEFAULT_URL
        texts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
        urls = [text.strip() if "://" in text else f"http://{text.strip()}" for text in texts if text.strip()]
        if not urls:
            raise ValueError("no address of a gateway is given")
        self.credentials = credentials or Credentials()
        self._endpoints = [Endpoint(url, self.credentials) for url in dict.fromkeys(urls)]
        for endpoint in self._endpoints:
            self.credentials.admit(endpoint.url)
        self._current = 0
        self._lock = threading.Lock()

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs, in the order given."""
        return tuple(endpoint.url for endpoint in self._endpoints)

    def of_url(self, url: str) -> Endpoint | None:
        """The address with this base URL, if it is one of them."""
        return next((endpoint for endpoint in self._endpoints if endpoint.url == url), None)

    def well(self) -> list[Endpoint]:
        """The addresses that do not rest."""
        return [endpoint for endpoint in self._endpoints if endpoint.resting_ms() == 0]

    def choose(self) -> Endpoint:
        """The current address unless it rests, else the next that does not, else the one whose rest ends first."""
        with self._lock:
            count = len(self._endpoints)
            order = [(self._current + step) % count for step in range(count)]
            self._current = min(order, key=lambda index: self._endpoints[index].resting_ms())
            return self._endpoints[self._current]

    def close(self, *, abort: bool) -> None:
        """Close the connections, those in use too with ``abort``."""
        for endpoint in self._endpoints:
            if abort:
                endpoint.address.abort()
            else:
                endpoint.address.close()
