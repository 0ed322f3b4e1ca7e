"""Who a producer is to gateways, and how they know one of its requests again.

Source: docs/http-api.md sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.bodies.encode import JSON
from tidelog.deadline import Deadline
from tidelog.http.transport import Request, Transport, target


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
    """A producer that no other client has. Raises as ``Transport.call``."""
    # Issued twice, one of the two is never used, and is forgotten.
    request = Request(method="POST", target=target("producers"), repeatable=True, reads=True)
    return transport.ask(request, deadline, lambda reply: reply.decode(ProducerIdentity))


def raise_epoch(transport: Transport, transactional_id: str, deadline: Deadline) -> ProducerIdentity:
    """The producer of a transactional id, all earlier epochs of it fenced. One try: a lost answer may have raised it, too."""
    body = msgspec.json.encode({"transactional_id": transactional_id})
    request = Request(
        method="POST", target=target("producers"), body=body, content_type=JSON, repeatable=False
    )  # fmt: skip
    return transport.ask(request, deadline, lambda reply: reply.decode(ProducerIdentity))
