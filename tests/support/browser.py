"""Chromium for the console's tests: pages that one test opens, and all that goes wrong in them.

1. What a page writes to its console as a warning or an error, throws, or asks of another origin, is a trouble.
2. So is a breach of the content security policy: Chromium writes it to the console.
3. A test that has the gateway refuse something says so (``Visits.expect``): Chromium reports each such answer.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request, sync_playwright

from tests.support.tracked_files import ROOT
from tests.support.visitors import Visitors

PROGRAM: Final = ROOT / "scripts" / "chromium.sh"
WAIT_MS: Final = 30_000
"""What a test waits for happens within this, on a busy machine too."""


def chromium() -> str:
    """The browser's path. Without one the test fails, and says what to do."""
    found = subprocess.run(["sh", PROGRAM, "path"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, "No Chromium in PATH: sh scripts/chromium.sh install"
    return found.stdout.strip()


@contextmanager
def running_browser() -> Iterator[Visitors]:
    """The visitors of one for the time of the block. It resolves no names, so that nothing leaves the machine."""
    flags = ["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]
    # A page is shown by a process that showed others of its profile: it need not start, nor compile the console's code again.
    flags.append("--renderer-process-limit=1")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=flags)
        try:
            yield Visitors(browser, WAIT_MS)
        finally:
            browser.close()


def show(
    page: Page,
    *,
    width: int = 1280,
    height: int = 800,
    scheme: Literal["light", "dark"] = "light",
    motion: Literal["reduce", "no-preference"] = "reduce",
) -> None:
    """Show the page on such a screen, to a visitor with these preferences."""
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme, reduced_motion=motion)


class Visits:
    """The pages that one test opens, each as a visitor of its own, and their troubles."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors
        self._taken: list[tuple[str, BrowserContext]] = []
        self._expected: set[str] = set()
        self._said: list[str] = []

    def expect(self, *answers: int | str) -> None:
        """Statuses that the gateway may answer, and network errors by Chromium's names for them."""
        for answer in answers:
            self._expected.add(f"status of {answer} " if isinstance(answer, int) else answer)

    def page(self, origin: str, *, cold: bool = False, **look: Any) -> Page:
        """An empty page of a new visitor, which goes nowhere but to ``origin``.

        ``look``: as ``show`` has it. ``cold``: none of the console's files is kept.
        """
        profile = self._visitors.take()
        self._taken.append((origin, profile))
        page = profile.new_page()
        if cold:
            session = profile.new_cdp_session(page)
            session.send("Network.clearBrowserCache")
            session.detach()
        show(page, **look)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self._said.append(f"thrown: {error.stack or error.message}"))
        page.on("request", lambda request: self._see(request, origin))
        page.on("websocket", lambda socket: self._said.append(f"a web socket: {socket.url}"))
        page.on("dialog", self._refuse)
        page.on("crash", lambda _: self._said.append("the page crashed"))
        return page

    def troubles(self) -> list[str]:
        """What went wrong in all of them, but what was expected."""
        return [said for said in self._said if not any(expected in said for expected in self._expected)]

    def close(self) -> None:
        while self._taken:
            self._visitors.give_back(*self._taken.pop())

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            self._said.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _refuse(self, dialog: Dialog) -> None:
        self._said.append(f"a script asks: {dialog.message}")
        dialog.dismiss()

    def _see(self, request: Request, origin: str) -> None:
        asked = urlsplit(request.url)
        if asked.scheme not in {"data", "blob"} and f"{asked.scheme}://{asked.netloc}" != origin:
            self._said.append(f"left the origin: {request.url[:200]}")
