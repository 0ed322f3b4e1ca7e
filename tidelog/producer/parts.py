"""Assembly of a producer from its parts. Imported with the first producer, since HTTP, threads and bodies take time to import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

import msgspec

from tidelog.bodies.encode import Compression
from tidelog.calls.producers import issue_producer
from tidelog.calls.topics import describe_topic
from tidelog.deadline import Deadline
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport
from tidelog.producer.delivery import OnDelivery
from tidelog.producer.given import Identity
from tidelog.producer.numbering import Numbering
from tidelog.producer.send_buffer import SendBuffer
from tidelog.producer.sender import Sender
from tidelog.producer.sending_threads import SendingThreads
from tidelog.producer.transactional_sender import TransactionalSender
from tidelog.producer.transactions import Transactions


class BufferSettings(TypedDict):
    """Settings of the send buffer, as ``Producer`` explains them."""

    linger_ms: float
    batch_bytes: int
    buffer_bytes: int
    max_block_ms: float
    delivery_timeout_ms: float


class Parts(msgspec.Struct, frozen=True):
    """Parts of one producer. ``transactions``: None without a transactional id."""

    sender: Sender | TransactionalSender
    buffer: SendBuffer
    threads: SendingThreads
    partition_count: Callable[[str], int]
    """Function that asks a gateway for a topic's current partition count."""
    where: str
    transactions: Transactions | None


def assemble(
    servers: str | Sequence[str] | None,
    request_timeout_ms: float,
    connection: ConnectionSettings,
    *,
    compression: Compression | None,
    numbered: bool,
    transaction: Identity | None,
    max_in_flight: int,
    on_delivery: OnDelivery | None,
    **buffered: Unpack[BufferSettings],
) -> Parts:
    """Create the parts of a producer. Nothing is sent or connected yet. Raises ``ValueError`` and ``TypeError`` as
    ``Producer``."""
    transport = Transport(servers, request_timeout_ms=request_timeout_ms, **connection)
    staging = None if transaction is None else TransactionalSender(transport, compression=compression)
    numbering = None
    if numbered:
        numbering = Numbering(lambda _topic, deadline: issue_producer(transport, deadline), renews=True)
    sender = staging or Sender(transport, compression=compression, numbering=numbering)
    delivery_timeout_ms = buffered["delivery_timeout_ms"]
    buffer = SendBuffer(in_flight_per_topic=sender.in_flight_per_topic, on_taken=sender.enter, **buffered)
    threads = SendingThreads(
        transport,
        buffer,
        sender,
        max_in_flight=max_in_flight,
        delivery_timeout_ms=delivery_timeout_ms,
        on_delivery=on_delivery,
    )
    transactions = None
    if transaction is not None and staging is not None:
        transactions = Transactions(transport, threads, staging, transaction, on_delivery)

    def partition_count(topic: str) -> int:
        return describe_topic(transport, topic, Deadline(buffered["max_block_ms"])).partition_count

    return Parts(sender, buffer, threads, partition_count, ",".join(transport.urls), transactions)
