"""What a request was let in by, judged again while its answer waits or goes on: the credential, and the right.

A request that lasts (an event stream, a long poll) would else outlive a revoked token or a right that was taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.access.authentication import Authentication
from gateway.access.caller import Caller
from gateway.access.rights import Rights
from log_format.clock import Clock
from log_format.errors import RequestRefused, TidelogError


class Standing:
    """Of the request of ``caller``. ``authentication`` None: it is off, and all stands for ever."""

    def __init__(self, caller: Caller, rights: Rights, authentication: Authentication | None, clock: Clock) -> None:
        self._caller = caller
        self._rights = rights
        self._authentication = authentication
        self._clock = clock

    def ends_within_ms(self, span_ms: int) -> int:
        """In how many milliseconds the credential ends by itself, ``span_ms`` at most; as of the last ``check``."""
        ends_at_ms = self._caller.expires_at_ms
        if self._authentication is None or ends_at_ms is None:
            return span_ms
        return max(0, min(span_ms, ends_at_ms - self._clock.now_ms()))

    def check(self) -> None:
        """Raise ``Unauthenticated`` where the credential would not let the caller in now; ``BackOff`` where that is not known."""
        if self._authentication is not None:
            self._caller = self._authentication.still(self._caller)

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
        lost: dict[str, TidelogError] = {}
        for topic in set(topics):
            try:
                self._rights.require(self._caller, "Read", "topic", topic)
            except RequestRefused as refusal:
                lost[topic] = refusal
        return lost
