"""Calls about one transaction: begin, add offsets, commit, abort. ``produce.stage`` adds records.

All but ``begin`` may be retried, since they are idempotent. Source: docs/http-api.md section 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidelog.bodies.json_offsets import as_json_offsets
from tidelog.calls.producers import ProducerIdentity
from tidelog.calls.requests import json_request
from tidelog.deadline import Deadline
from tidelog.http.transport import Transport, target
from tidelog.types.group import GroupMetadata, NextOffset
from tidelog.types.record import ProduceResult, TopicPartition


class Begun(msgspec.Struct, frozen=True):
    """An open transaction, and the producer under which its requests are numbered.

    ``last_number``: the number of the id's newest committed transaction that has one.
    """

    transaction_id: str
    producer_id: str
    epoch: int
    last_number: int | None = None

    @property
    def producer(self) -> ProducerIdentity:
        """Identity under which requests are numbered."""
        return ProducerIdentity(self.producer_id, self.epoch)


class Committed(msgspec.Struct, frozen=True):
    """Answer to a commit: the offset ranges of the transaction's records, by topic."""

    topics: tuple[ProduceResult, ...] = ()


def begin(
    transport: Transport,
    transactional_id: str,
    timeout_ms: int,
    deadline: Deadline,
    *,
    number: int | None = None,
    check_after_ms: int | None = None,
    repeatable: bool,
) -> Begun:
    """Begin a transaction, which fences every other one of its id. Raises as ``Transport.call``.

    Each attempt that reached a gateway raised the epoch and fenced the attempt before.

    Args:
        number: this transaction's number among those of its id.
        check_after_ms: offer it to checkers after this long.
        repeatable: whether a lost attempt may be retried, because the caller draws no conclusions from the epoch.
    """
    body: dict[str, object] = {"transactional_id": transactional_id, "timeout_ms": timeout_ms}
    if number is not None:
        body["number"] = number
    if check_after_ms is not None:
        body["check_after_ms"] = check_after_ms
    request = json_request("POST", target("transactions"), body, repeatable=repeatable)
    return transport.ask(request, deadline, lambda reply: reply.decode(Begun))


class OpenTransaction(msgspec.Struct, frozen=True):
    """An open transaction whose client is silent. ``checks``: how often it was offered, including this time."""

    transaction_id: str
    transactional_id: str
    began_at: int
    checks: int


class _Offered(msgspec.Struct, frozen=True):
    transactions: tuple[OpenTransaction, ...]


def check(
    transport: Transport, prefix: str, *, records_max: int, wait_ms: int, deadline: Deadline
) -> tuple[OpenTransaction, ...]:
    """Return open transactions to decide, offered to this caller alone for half a minute. Raises as ``Transport.call``."""
    body = {"transactional_id_prefix": prefix, "max_records": records_max, "max_wait_ms": wait_ms}
    request = json_request("POST", target("transactions", action="check"), body, repeatable=True)
    return transport.call(request, deadline).decode(_Offered).transactions


def add_offsets(
    transport: Transport,
    transaction_id: str,
    offsets: Mapping[TopicPartition, NextOffset],
    who: GroupMetadata,
    deadline: Deadline,
) -> None:
    """Commit a group's offsets with the transaction. Raises as ``Transport.call``."""
    body: dict[str, Any] = {"group": who.group, "offsets": as_json_offsets(offsets, topic_ids=who.topic_ids)}
    if who.member_id is not None:
        body |= {"member_id": who.member_id, "generation": who.generation}
    request = json_request("POST", target("transactions", transaction_id, "offsets"), body, repeatable=True)
    transport.call(request, deadline)


def commit(transport: Transport, transaction_id: str, deadline: Deadline) -> Committed:
    """Commit the transaction: everything in it becomes visible. Raises as ``Transport.call``."""
    request = json_request("POST", target("transactions", transaction_id, action="commit"), repeatable=True)
    return transport.ask(request, deadline, lambda reply: reply.decode(Committed))


def abort(transport: Transport, transaction_id: str, deadline: Deadline) -> None:
    """Abort the transaction: nothing of it will ever be visible. Raises as ``Transport.call``."""
    request = json_request("POST", target("transactions", transaction_id, action="abort"), repeatable=True)
    transport.call(request, deadline)
