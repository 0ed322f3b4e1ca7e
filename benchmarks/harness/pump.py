"""One direction of a connection that a proxy of this machine passes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

PIECE_BYTES: Final = 256 * 1024


async def pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, before: Callable[[bytes], Awaitable[None]]
) -> None:
    """Pass on what comes until one side ends, ``before`` each piece; then close."""
    try:
        while piece := await reader.read(PIECE_BYTES):
            await before(piece)
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
