"""The addresses of a client, which of them to ask next, and how long one rests after a failure."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence

from tidelog import limits
from tidelog.arguments import check_servers
from tidelog.http.connection import Address


class Endpoint:
    """An address and its rest. Safe from any thread: a race makes a pause too short or too long by one failure at worst."""

    __slots__ = ("_failures", "_rests_until_s", "address")

    def __init__(self, url: str, ca_file: str | None = None) -> None:
        self.address = Address(url, ca_file)
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

    def __init__(self, bootstrap_servers: str | Sequence[str] | None, ca_file: str | None = None) -> None:
        """A URL, several separated by commas, or a sequence of them; None: ``TIDELOG_URL``, else ``DEFAULT_URL``.

        ``ca_file`` as ``Address`` takes it; None: ``TIDELOG_CA_FILE``, if that is set.

        Raises ``ValueError`` for what is no ``http`` or ``https`` URL; a missing scheme means ``http``. Raises ``TypeError``
        for what is no address at all.
        """
        check_servers(bootstrap_servers)
        if bootstrap_servers is None:
            bootstrap_servers = os.environ.get("TIDELOG_URL") or limits.DEFAULT_URL
        texts = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
        urls = [text.strip() if "://" in text else f"http://{text.strip()}" for text in texts if text.strip()]
        if not urls:
            raise ValueError("no address of a gateway is given")
        self.ca_file = ca_file or os.environ.get("TIDELOG_CA_FILE") or None
        self._endpoints = [Endpoint(url, self.ca_file) for url in dict.fromkeys(urls)]
        self._current = 0
        self._lock = threading.Lock()

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs, in the order given."""
        return tuple(endpoint.url for endpoint in self._endpoints)

    def of_url(self, url: str) -> Endpoint | None:
        """The address with this base URL, if it is one of them."""
        return next((endpoint for endpoint in self._endpoints if endpoint.url == url), None)

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
