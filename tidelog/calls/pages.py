"""Lists that gateways answer page by page: ``{"queues": […], "next": "…"}``; the last page has no ``next``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec

from tidelog.http.transport import Reply

_T = TypeVar("_T")


class Page(Protocol):
    """What a page has besides its entries."""

    @property
    def next(self) -> str | None:
        """Behind what the next page begins; None: this is the last one."""


_PageT = TypeVar("_PageT", bound=Page)


def paged(member: str, kind: type[_T], ask: Callable[[str | None], Reply]) -> Iterator[_T]:
    """Each of ``member``'s values, a ``kind``. ``ask``: for the page behind this ``next``. Raises what it raises."""
    for page in pages(_page(member, kind), ask):  # type: ignore[arg-type]
        yield from getattr(page, member)


def pages(kind: type[_PageT], ask: Callable[[str | None], Reply]) -> Iterator[_PageT]:
    """Each page, a ``kind``. As ``paged``."""
    after = None
    while True:
        page = ask(after).decode(kind)
        yield page
        if (after := page.next) is None:
            return


@cache
def _page(member: str, kind: type) -> Any:
    return msgspec.defstruct("Page", [(member, tuple[kind, ...]), ("next", str | None, None)], frozen=True)  # type: ignore[valid-type]
