"""Requests to one named gateway with a token: what the operator and the users of a run share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
import urllib3

TIMEOUT_SECONDS = 10.0
"""Shorter than the longest that a gateway stands still, so that requests also begin while it does."""
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Answer:
    """Status 0: none came."""

    status: int
    body: Any
    began: float
    ended: float

    @property
    def code(self) -> str:
        """The problem's code."""
        return str(self.body.get("error_code", "")) if isinstance(self.body, dict) else ""


class Calls:
    """One thread's connections. ``urls``: of the gateways, in order."""

    def __init__(self, urls: Sequence[str], timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.urls = urls
        self._http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(timeout_seconds))

    def ask(
        self, gateway: int, token: str, method: str, path: str, body: Any = None, more: Mapping[str, str] = NO_HEADERS
    ) -> Answer:
        """One request, once. ``more``: headers."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **more}
        data = None if body is None else msgspec.json.encode(body)
        began = time.monotonic()
        try:
            answer = self._http.request(method, self.urls[gateway] + path, body=data, headers=headers)
            found = msgspec.json.decode(answer.data) if answer.data else None
        except (urllib3.exceptions.HTTPError, msgspec.DecodeError):
            return Answer(0, None, began, time.monotonic())
        return Answer(answer.status, found, began, time.monotonic())
