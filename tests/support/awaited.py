"""An ASGI application's awaitable, run to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


def run(awaitable: Awaitable[T]) -> T:
    """What it gives, in an event loop of its own."""

    async def ask() -> T:
        return await awaitable

    return asyncio.run(ask())
