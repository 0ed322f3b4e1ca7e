"""What a request was let in by, judged again while its answer waits or goes on: the credential, and the right.

A request that lasts (an event stream, a long poll) would else outlive a revoked token or a right that was taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.access.authentication import Authentication, Unauthenticated
from gateway.access.caller import caller_of
from gateway.access.rights import Rights, Unauthorized
from log_format.clock import Clock
from log_format.errors import RequestRefused, TidelogError


class Standing:
    """Of the request with this ``scope``. ``authentication`` None: it is off, and all stands for ever."""

    def __init__(
        self, scope: Mapping[str, Any], rights: Rights, authentication: Authentication | None, clock: Clock
    ) -> None:
        self._caller = caller_of(scope)
        self._headers = scope["headers"]
        self._rights = rights
        self._authentication = authentication
        self._clock = clock

    def ends_within_ms(self, span_ms: int) -> int:
        """In how many milliseconds the credential ends by itself, ``span_ms`` at most."""
        ends_at_ms = self._caller.expires_at_ms
        if self._authentication is None or ends_at_ms is None:
            return span_ms
        return max(0, min(span_ms, ends_at_ms - self._clock.now_ms()))

    def check(self) -> None:
        """Raise ``Unauthenticated`` where the credential would not let the caller in now; ``BackOff`` where that is not known."""
        if self._authentication is not None and not self._authentication.holds(self._caller, self._headers):
            raise Unauthenticated

    async def unreadable(self, topics: Iterable[str], group: str | None = None) -> Mapping[str, TidelogError]:
        """The topics that the caller would not be let in to read now, each with the reason. ``group``: the group or queue by
        which it reads. Raises ``BackOff`` where that is not known."""
        if self._authentication is None:
            return {}
        await self._rights.renew()
        try:
            self.check()
            if group is not None:
                self._rights.require(self._caller, "Read", "group", group)
        except RequestRefused as refusal:
            return dict.fromkeys(topics, refusal)
        return {
            topic: Unauthorized("Read", "topic", topic)
            for topic in set(topics)
            if not self._rights.allows(self._caller, "Read", "topic", topic)
        }
