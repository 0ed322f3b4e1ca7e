"""Clones of topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidelog.calls.pins import PinCalls
from tidelog.calls.requests import json_request
from tidelog.deadline import Deadline
from tidelog.http.transport import target
from tidelog.types.topic import CloneList, CloneOfTopic, TopicClone

CLONE_TIMEOUT_MS: Final = 3_600_000
_UNDER_WAY: Final = 202


class CloneCalls(PinCalls):
    """Calls of ``Admin`` that clone topics."""

    def clone_topic(
        self,
        source: str,
        name: str,
        *,
        config: Mapping[str, int | str | None] | None = None,
        version: int | None = None,
        pin: str | None = None,
        timestamp_ms: int | None = None,
        timeout_ms: float = CLONE_TIMEOUT_MS,
        progress: Callable[[TopicClone], None] | None = None,
    ) -> TopicClone:
        """Make the topic ``name`` with the records of ``source`` at the same offsets, and return what was made.

        The store copies the files itself, or links them in a directory. Records acknowledged before the call are in the clone.

        Args:
            source: topic to clone.
            name: topic to make.
            config: settings that it has differently; None: the default.
            version, pin, timestamp_ms: version of the source's table to clone: its number, a pin's name, or the newest one of a
                time in milliseconds since the epoch. At most one is given; without one the newest.
            timeout_ms: limit of the whole call. The gateway goes on after it.
            progress: called about every ten seconds while files are copied.

        Retried automatically. Raises ``UnknownTopic``, ``TopicAlreadyExists``, ``InvalidConfig``, ``UnknownPin``,
        ``VersionGone``, ``GatewayUnreachable``.
        """
        deadline = Deadline(timeout_ms)
        at = {"version": version, "pin": pin, "timestamp": timestamp_ms}
        body = {
            "name": name,
            "config": dict(config or {}),
            **{key: each for key, each in at.items() if each is not None},
        }
        request = json_request("POST", target("topics", source, action="clone"), body, repeatable=True)
        while True:
            answer = self._transport.call(request, deadline)
            clone = answer.decode(TopicClone)
            if answer.status != _UNDER_WAY:
                return clone
            if progress is not None:
                progress(clone)

    def list_clones(self, topic: str) -> tuple[CloneOfTopic, ...]:
        """Return the clones of a topic that exist, by name, and their stored bytes; of more than 100 the newest.

        Raises ``UnknownTopic``.
        """
        return self._get(target("topics", topic, "clones")).decode(CloneList).clones
