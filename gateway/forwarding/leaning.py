"""Gateway to which the requests of a connection keep being passed on. If that gateway shares the port, the connection moves
there."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

LEANING: Final = "tidelog.leaning"
"""Key in a request's scope of its connection's ``Leaning``."""


class Leaning:
    """Leaning of one client's connection. ``url``: of the gateway that the last ``count`` requests were passed on to."""

    __slots__ = ("count", "url")

    def __init__(self) -> None:
        self.url = ""
        self.count = 0

    def went(self, url: str) -> None:
        """Count a request that was answered by the gateway at ``url``."""
        self.count = self.count + 1 if url == self.url else 1
        self.url = url

    def stayed(self) -> None:
        """Count a request that was served here."""
        self.count = 0


def leaning_of(scope: Scope) -> Leaning:
    """Return the leaning of the request's connection; a new one for a connection that can't move."""
    found: Leaning | None = scope.get(LEANING)
    return Leaning() if found is None else found
