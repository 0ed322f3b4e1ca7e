"""Visitors of pages, each with a profile of its own in Chromium; a profile whose visitor has left is wiped, and serves the next.

A new profile is a new window with all that belongs to one: it takes more of a processor than the page that is tested.
"""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Browser, BrowserContext

IDLE_MAX: Final = 4
"""Profiles that wait for a visitor: a file's tests visit one or two gateways, and no later file visits those."""


class Visitors:
    """Profiles of one browser. The first page of each is empty, and keeps its window."""

    def __init__(self, browser: Browser, wait_ms: int) -> None:
        self._browser = browser
        self._wait_ms = wait_ms
        self._idle: list[tuple[str, BrowserContext]] = []

    def take(self, origin: str) -> BrowserContext:
        """A profile that knows nothing; paths of its pages lie below ``origin``."""
        fitting = [place for place, (of, _) in enumerate(self._idle) if of == origin]
        return self._idle.pop(fitting[-1])[1] if fitting else self._made(origin)

    def give_back(self, origin: str, profile: BrowserContext) -> None:
        """Its visitor has left: pages, storage, cookies and cache are gone."""
        window, *pages = profile.pages
        for page in pages:
            page.close()
        session = profile.new_cdp_session(window)
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        session.send("Network.clearBrowserCache")
        session.detach()
        self._idle.append((origin, profile))
        if len(self._idle) > IDLE_MAX:
            self._idle.pop(0)[1].close()

    def _made(self, origin: str) -> BrowserContext:
        made = self._browser.new_context(
            base_url=origin,
            locale="en-GB",
            timezone_id="UTC",
            permissions=["clipboard-read", "clipboard-write"],
        )
        made.set_default_timeout(self._wait_ms)
        made.new_page()
        return made
