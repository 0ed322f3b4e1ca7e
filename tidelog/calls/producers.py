"""Identity of a producer, and the stamps by which gateways recognize a repeated request.

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
    """Number of a request, which is therefore in the log once, however often it is sent. ``sequence`` counts a topic's requests
    from 0."""

    producer: ProducerIdentity
    sequence: int

    @property
    def headers(self) -> Mapping[str, str]:
        """HTTP headers of the request."""
        return {
            "Tidelog-Producer-Id": self.producer.producer_id,
            "Tidelog-Producer-Epoch": str(self.producer.epoch),
            "Tidelog-Producer-Sequence": str(self.sequence),
        }


def issue_producer(transport: Transport, deadline: Deadline) -> ProducerIdentity:
    """Return a new producer id that no other client has. Raises as ``Transport.call``."""
    # A retry may leave an issued id unused; gateways forget it.
    request = json_request("POST", target("producers"), repeatable=True, reads=True)
    return transport.ask(request, deadline, lambda reply: reply.decode(ProducerIdentity))


def raise_epoch(transport: Transport, transactional_id: str, deadline: Deadline) -> ProducerIdentity:
    """Return the producer of a transactional id, with all earlier epochs fenced. Makes one attempt: a lost one may have raised
    the epoch, too."""
    body = {"transactional_id": transactional_id}
    request = json_request("POST", target("producers"), body, repeatable=False)
    return transport.ask(request, deadline, lambda reply: reply.decode(ProducerIdentity))
