"""Requests to erase what a topic has of a person."""

from __future__ import annotations

from typing import Literal

import msgspec


class ErasedLetters(msgspec.Struct, frozen=True, kw_only=True):
    """A topic with dead letters of what is erased. ``erasure_id``: the request there; None: this caller may not delete there."""

    topic: str
    erasure_id: str | None


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """A request to erase. Times in milliseconds since the epoch.

    ``status``: ``requested``; ``rewritten``: the topic's table has nothing of it from ``version`` on; ``gone``: no object in the
    store has.
    """

    erasure_id: str
    status: Literal["requested", "rewritten", "gone"]
    requested_at: int
    keys: int = 0
    """Number of keys that it names; ``headers``: of header values."""
    headers: int = 0
    where: bool = False
    """Whether it has a condition on columns."""
    before: int | None = None
    """Only records with earlier timestamps; None: all."""
    keep: str = "key"
    """Whether erased records stay as keys without values (``key``) or leave gaps (``nothing``)."""
    records: int = 0
    """Number of records erased so far."""
    bytes: int = 0
    """Stored bytes of the segments rewritten so far."""
    version: int | None = None
    rewritten_at: int | None = None
    files_until: int | None = None
    """Time until which older files stay at most, except those that a failed write left."""
    gone_at: int | None = None
    dead_letters: tuple[ErasedLetters, ...] = ()
    """Requests about its dead letters in other topics, in the answer to it."""
    clones: tuple[str, ...] | None = ()
    """The topic's clones, each of which needs a request of its own, in the answer to it; None: unknown."""
    not_reached: tuple[str, ...] = ()
    """What the request does not reach, in the answer to it."""
