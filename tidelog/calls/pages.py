"""Paged lists of the API: ``{"queues": […], "next": "…"}``; the last page has no ``next``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec

from tidelog.http.transport import Reply

_T = TypeVar("_T")


class Page(Protocol):
    """Common members of all pages."""

    @property
    def next(self) -> str | None:
        """Key after which the next page begins; None on the last page."""


_PageT = TypeVar("_PageT", bound=Page)


def paged(member: str, kind: type[_T], ask: Callable[[str | None], Reply]) -> Iterator[_T]:
    """Yield each value of ``member``, of type ``kind``, on all pages.

    ``ask`` requests the page after a ``next``. Raises what ``ask`` raises.
    """
    for page in pages(_page(member, kind), ask):  # type: ignore[arg-type]
        yield from getattr(page, member)


def pages(kind: type[_PageT], ask: Callable[[str | None], Reply]) -> Iterator[_PageT]:
    """Yield each page, of type ``kind``. Raises what ``ask`` raises."""
    after = None
    while True:
        page = ask(after).decode(kind)
        yield page
        if (after := page.next) is None:
            return


@cache
def _page(member: str, kind: type) -> Any:
    return msgspec.defstruct("Page", [(member, tuple[kind, ...]), ("next", str | None, None)], frozen=True)  # type: ignore[valid-type]
