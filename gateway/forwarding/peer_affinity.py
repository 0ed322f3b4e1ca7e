"""Gateway to which the requests of a connection keep being passed on. If that gateway shares the port, the connection moves
there."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

AFFINITY: Final = "tidelog.leaning"
"""Key in a request's scope of its connection's ``PeerAffinity``."""


class PeerAffinity:
    """Leaning of one client's connection. ``url``: of the gateway that the last ``count`` requests were passed on to."""

    __slots__ = ("count", "url")

    def __init__(self) -> None:
        self.url = ""
        self.count = 0

    def count_forwarded(self, url: str) -> None:
        """Count a request that was answered by the gateway at ``url``."""
        self.count = self.count + 1 if url == self.url else 1
        self.url = url

    def reset(self) -> None:
        """Count a request that was served here."""
        self.count = 0


def affinity_of(scope: Scope) -> PeerAffinity:
    """Return the leaning of the request's connection; a new one for a connection that can't move."""
    found: PeerAffinity | None = scope.get(AFFINITY)
    return PeerAffinity() if found is None else found
