"""Visitors of pages, each with a profile of its own in Chromium; a profile whose visitor has left is wiped, and serves the next.

A new profile is a new window and a new process with all that belongs to them: they take more of a processor than the page that is
tested. A wiped profile keeps the console's files, which a gateway lets browsers keep for ever: their paths have their digest.
"""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Browser, BrowserContext

IDLE_MAX: Final = 4
"""Profiles that wait for a visitor: few tests have more at once."""


class Visitors:
    """Profiles of one browser. The first page of each is empty, and keeps its window."""

    def __init__(self, browser: Browser, wait_ms: int) -> None:
        self._browser = browser
        self._wait_ms = wait_ms
        self._idle: list[BrowserContext] = []

    def take(self) -> BrowserContext:
        """A profile without anything of an earlier visitor."""
        return self._idle.pop() if self._idle else self._made()

    def give_back(self, origin: str, profile: BrowserContext) -> None:
        """Its visitor has left: pages, storage and cookies are gone."""
        window, *pages = profile.pages
        for page in pages:
            page.close()
        session = profile.new_cdp_session(window)
        session.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "all"})
        session.detach()
        self._idle.append(profile)
        if len(self._idle) > IDLE_MAX:
            self._idle.pop(0).close()

    def _made(self) -> BrowserContext:
        made = self._browser.new_context(
            locale="en-GB",
            timezone_id="UTC",
            permissions=["clipboard-read", "clipboard-write"],
            ignore_https_errors=True,  # gateways with certificates of the tests
        )
        made.set_default_timeout(self._wait_ms)
        made.new_page()
        return made
