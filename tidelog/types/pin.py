"""Pins as the API describes them."""

from __future__ import annotations

import msgspec


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A pinned version of a topic's table, which every Delta reader can read until the pin ends.

    Times are milliseconds since the epoch; ``expires_at`` None: the pin stays until it is deleted. ``held_back_bytes``: stored
    bytes that the version has and the table has no more; None: unknown, since its checkpoint can't be read.
    """

    name: str
    version: int
    created_at: int = 0
    expires_at: int | None = None
    held_back_bytes: int | None = None


class PinList(msgspec.Struct, frozen=True, kw_only=True):
    """The pins of a topic, by name, and the stored bytes that they hold back together."""

    pins: tuple[Pin, ...]
    held_back_bytes: int | None = None
