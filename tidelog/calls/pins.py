"""Administration of pins: create, list, delete."""

from __future__ import annotations

from tidelog.calls.transaction_list import TransactionListCalls
from tidelog.http.transport import target
from tidelog.types.pin import Pin, PinList


class PinCalls(TransactionListCalls):
    """Calls of ``Admin`` about pins."""

    def create_pin(
        self,
        topic: str,
        name: str,
        *,
        version: int | None = None,
        timestamp_ms: int | None = None,
        expires_ms: int | None = None,
        ttl_ms: int | None = None,
    ) -> Pin:
        """Pin a version of the topic's table, so that it stays readable, and return the pin.

        The call is never retried: ``list_pins`` tells whether a call without an answer was made.

        Args:
            topic: the topic.
            name: name of the pin: 1 to 100 letters, digits, dots, underscores and hyphens.
            version: version of the table. With the name and the version of a pin the call changes the expiry.
            timestamp_ms: pin the table of this time instead (ms since the epoch). Neither: the present version, which has every
                record that was acknowledged before the call.
            expires_ms: time at which the pin ends (ms since the epoch).
            ttl_ms: duration after which it ends. Neither: it stays until it is deleted.

        Raises ``UnknownTopic``, ``PinAlreadyExists``, ``VersionGone``, ``OutcomeUnknown``.
        """
        given = {"version": version, "timestamp": timestamp_ms, "expires_ms": expires_ms, "ttl_ms": ttl_ms}
        body = {"name": name} | {key: value for key, value in given.items() if value is not None}
        return self._call("POST", target("topics", topic, "pins"), body, repeatable=False).decode(Pin)

    def list_pins(self, topic: str) -> PinList:
        """Return the topic's pins and what they hold back. Raises ``UnknownTopic``."""
        return self._get(target("topics", topic, "pins")).decode(PinList)

    def delete_pin(self, topic: str, name: str) -> None:
        """Delete a pin; maintenance then deletes what only its version has. Never retried.

        Raises ``UnknownTopic``, ``UnknownPin``, ``OutcomeUnknown``.
        """
        self._call("DELETE", target("topics", topic, "pins", name), None, repeatable=False)
