"""Lists that gateways answer page by page: ``{"queues": […], "next": "…"}``; the last page has no ``next``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, TypeVar

import msgspec

from tidelog.http.transport import Reply

_T = TypeVar("_T")


def paged(member: str, kind: type[_T], ask: Callable[[str | None], Reply]) -> Iterator[_T]:
    """Each of ``member``'s values, a ``kind``. ``ask``: for the page behind this ``next``. Raises what it raises."""
    after = None
    while True:
        page = ask(after).decode(_page(member, kind))  # type: ignore[arg-type]
        yield from getattr(page, member)
        if (after := page.next) is None:
            return


@cache
def _page(member: str, kind: type) -> Any:
    return msgspec.defstruct("Page", [(member, tuple[kind, ...]), ("next", str | None, None)], frozen=True)  # type: ignore[valid-type]
