"""Which other gateway the requests of a connection keep going to. Where that one shares the port, the connection moves there."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

LEANING: Final = "tidelog.leaning"
"""Of a request's scope: its connection's."""


class Leaning:
    """Of one client's connection. ``url``: of the gateway that the last ``count`` requests were passed on to."""

    __slots__ = ("count", "url")

    def __init__(self) -> None:
        self.url = ""
        self.count = 0

    def went(self, url: str) -> None:
        """A request was answered by the gateway at ``url``."""
        self.count = self.count + 1 if url == self.url else 1
        self.url = url

    def stayed(self) -> None:
        """A request was served here."""
        self.count = 0


def leaning_of(scope: Scope) -> Leaning:
    """That of the request's connection; one that no connection has, where it can't move."""
    found: Leaning | None = scope.get(LEANING)
    return Leaning() if found is None else found
