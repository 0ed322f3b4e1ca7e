"""The credential and rights by which a request was admitted, checked again while its answer waits or continues.

A long request (an event stream, a long poll) would otherwise outlive a revoked token or a right that was taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.access.authentication import Authentication
from gateway.access.caller import Caller
from gateway.access.rights import Rights
from log_format.clock import Clock
from log_format.errors import RequestRefused, TidelogError


class AdmissionCheck:
    """The standing of ``caller``'s request. ``authentication`` None: it is off, and every check succeeds."""

    def __init__(self, caller: Caller, rights: Rights, authentication: Authentication | None, clock: Clock) -> None:
        self._caller = caller
        self._rights = rights
        self._authentication = authentication
        self._clock = clock

    def ends_within_ms(self, span_ms: int) -> int:
        """Return in how many milliseconds the credential expires, at most ``span_ms``; as of the last ``check``."""
        ends_at_ms = self._caller.expires_at_ms
        if self._authentication is None or ends_at_ms is None:
            return span_ms
        return max(0, min(span_ms, ends_at_ms - self._clock.now_ms()))

    def check(self) -> None:
        """Raise ``Unauthenticated`` if the credential would not be accepted now; ``BackOff`` if that is not known."""
        if self._authentication is not None:
            self._caller = self._authentication.revalidate(self._caller)

    async def unreadable(self, topics: Iterable[str], group: str | None = None) -> Mapping[str, TidelogError]:
        """Return the topics that the caller could not read now, each with the reason. ``group``: the group or queue by which
        it reads. Raise ``BackOff`` if that is not known."""
        if self._authentication is None:
            return {}
        await self._rights.refresh_if_old()
        try:
            self.check()
            if group is not None:
                self._rights.require(self._caller, "Read", "group", group)
        except RequestRefused as refusal:
            return dict.fromkeys(topics, refusal)
        lost: dict[str, TidelogError] = {}
        for topic in set(topics):
            try:
                self._rights.require(self._caller, "Read", "topic", topic)
            except RequestRefused as refusal:
                lost[topic] = refusal
        return lost
