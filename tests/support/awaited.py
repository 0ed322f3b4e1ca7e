"""An ASGI application's awaitable, run to its end, and what stands for its client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


def run(awaitable: Awaitable[T]) -> T:
    """What it gives, in an event loop of its own."""

    async def ask() -> T:
        return await awaitable

    return asyncio.run(ask())


class Sent(list[Any]):
    """The messages that an application has sent by ``add``."""

    async def add(self, message: Any) -> None:
        self.append(message)


async def unread() -> Any:
    """Of a client whose request has no body to read."""
    raise AssertionError("nothing is to be received")
