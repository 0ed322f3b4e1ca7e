"""The console as a visitor has it: a page of a route, as soon as its data is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from playwright.sync_api import Page, expect

from tests.support.browser import WAIT_MS, Visits, show

expect.set_options(timeout=WAIT_MS)

PAINT_MS_MAX: Final = 300
"""A page is painted within this, without data."""
PAINT_TRIES: Final = 6
NOWHERE: Final = "/no/such/page"
"""A route of the console that has a heading and asks the gateway for nothing."""


def escaped(text: str) -> str:
    """The text as the console shows it: what turns its direction is an escape."""
    return re.sub("[\u202a-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", text)


class Console:
    """Pages of one gateway. ``token``: whose rights they show."""

    def __init__(self, visits: Visits, url: str, token: str | None = None) -> None:
        self.visits = visits
        self.url = url
        self._token = token

    def open(self, route: str, **look: Any) -> Page:
        """The page of a route such as ``/groups``. ``look``: as ``Visits.page`` has it."""
        page = self.visits.page(self.url, **look)
        if self._token is not None:
            page.add_init_script(f"sessionStorage.setItem('tidelog.token', {json.dumps(self._token)})")
        return self.go(page, route)

    def go(self, page: Page, route: str) -> Page:
        """The page of another route, in the same tab: the console itself goes there, as by a link."""
        page.goto(f"{self.url}/#{route}")
        settled(page)
        return page


class Tab(Console):
    """All pages in one tab: the console is loaded once, and goes to the others by itself. For tests that look at what a page has.

    It leaves a page before it comes to the next: each begins with nothing that the one before has loaded, shown or opened.
    """

    def __init__(self, visits: Visits, url: str, token: str | None = None) -> None:
        super().__init__(visits, url, token)
        self._tab: Page | None = None

    def open(self, route: str, **look: Any) -> Page:
        if self._tab is None:
            self._tab = super().open(NOWHERE)
        show(self._tab, **look)
        self.leave()
        self._turn(route)
        settled(self._tab)
        return self._tab

    def leave(self) -> None:
        """What is shown now loads nothing."""
        self._turn(NOWHERE)

    @contextmanager
    def lent(self) -> Iterator[Tab]:
        """To one test, which leaves it, and has no trouble in it."""
        yield self
        self.leave()
        assert self.visits.troubles() == []

    def _turn(self, route: str) -> None:
        """Return when the page before is gone."""
        if self._tab is not None:
            self._tab.evaluate("route => { location.hash = route; }", route)
            self._tab.wait_for_function(
                "there => (document.querySelector('main h1')?.textContent === 'Page not found') === there",
                arg=route == NOWHERE,
            )


def first_paint(console: Console, route: str) -> tuple[Page, float]:
    """The page as a browser without any of its files gets it, and when it was painted first, in ms since it was asked for.

    It is opened again while it was late: the machine may have company, which makes it slower and never quicker.
    """
    for _ in range(PAINT_TRIES):
        page = console.open(route, cold=True)
        paint_ms: float = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        if paint_ms < PAINT_MS_MAX:
            break
    return page, paint_ms


def settled(page: Page) -> None:
    """Wait until nothing of the page is loading."""
    page.wait_for_function("() => document.querySelector('main h1') && !document.querySelector('main .loading')")


def row(page: Page, name: str) -> list[str]:
    """The texts of the cells of the table's row with this head, as soon as it is there."""
    found = page.locator("tr", has=page.get_by_role("rowheader", name=name, exact=True))
    expect(found).to_have_count(1)
    return [text.strip() for text in found.locator("th, td").all_inner_texts()]


def done(page: Page, text: str) -> None:
    """Wait for the message that something was done, and for its dialog to be closed."""
    expect(page.locator(".toasts")).to_contain_text(text)
    expect(page.locator("dialog")).to_have_count(0)
