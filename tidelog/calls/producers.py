"""What identifies a producer to gateways, and how they recognise a repeated request.

Source: docs/http-api.md sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.calls.requests import json_request
from tidelog.deadline import Deadline
from tidelog.http.transport import Transport, target


class ProducerIdentity(msgspec.Struct, frozen=True):
    """A producer id and its epoch, as a gateway issued them."""

    producer_id: str
    epoch: int


class Stamp(msgspec.Struct, frozen=True):
    """A request with a stamp is in the log once, however often it is sent. ``sequence`` numbers a topic's requests from 0."""

    producer: ProducerIdentity
    sequence: int

    @property
    def headers(self) -> Mapping[str, str]:
        """As a request bears it."""
        return {
            "Tidelog-Producer-Id": self.producer.producer_id,
            "Tidelog-Producer-Epoch": str(self.producer.epoch),
            "Tidelog-Producer-Sequence": str(self.sequence),
        }


def issue_producer(transport: Transport, deadline: Deadline) -> ProducerIdentity:
    """A producer id that no other client has. Raises as ``Transport.call``."""
    # After a repeat one of two issued ids is never used; the gateways forget it.
    request = json_request("POST", target("producers"), repeatable=True, reads=True)
    return transport.ask(request, deadline, lambda reply: reply.decode(ProducerIdentity))


def raise_epoch(transport: Transport, transactional_id: str, deadline: Deadline) -> ProducerIdentity:
    """The producer of a transactional id, all its earlier epochs fenced. One try: a lost one may have raised the epoch, too."""
    body = {"transactional_id": transactional_id}
    request = json_request("POST", target("producers"), body, repeatable=False)
    return transport.ask(request, deadline, lambda reply: reply.decode(ProducerIdentity))
