"""Assembly of a producer from its parts. Imported with the first producer, since HTTP, threads and bodies take time to import."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidelog import limits
from tidelog.calls.producers import issue_producer
from tidelog.calls.schemas import Schemas
from tidelog.calls.topics import describe_topic
from tidelog.deadline import Deadline
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport
from tidelog.producer.models import Models
from tidelog.producer.numbering import SequenceNumbering
from tidelog.producer.send_buffer import SendBuffer
from tidelog.producer.sender import Sender
from tidelog.producer.sending_threads import SendingThreads
from tidelog.producer.settings import ProducerSettings
from tidelog.producer.transactional_sender import TransactionalSender
from tidelog.producer.transactions import Transactions
from tidelog.schemas.json_schema import json_schema
from tidelog.schemas.protobuf import message_schema


class ProducerParts(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of one producer."""

    sender: Sender | TransactionalSender
    buffer: SendBuffer
    threads: SendingThreads
    partition_count: Callable[[str], int]
    """Function that asks a gateway for a topic's current partition count."""
    where: str
    """Addresses of the gateways, for people."""
    models: Models
    transactions: Transactions | None
    """None without a transactional id."""


def assemble(
    servers: str | Sequence[str] | None, settings: ProducerSettings, connection: ConnectionSettings
) -> ProducerParts:
    """Create the parts of a producer. Nothing is sent or connected yet. Raises ``ValueError`` and ``TypeError`` as
    ``Producer``."""
    transport = Transport(servers, request_timeout_ms=settings.request_timeout_ms, **connection)
    staging, numbering = None, None
    if settings.transactional_id is not None:
        staging = TransactionalSender(transport, compression=settings.compression)
    elif settings.enable_idempotence:
        numbering = SequenceNumbering(lambda _topic, deadline: issue_producer(transport, deadline), renews=True)
    sender = staging or Sender(transport, compression=settings.compression, numbering=numbering)
    buffer = SendBuffer(settings, in_flight_per_topic=sender.in_flight_per_topic, on_taken=sender.register)
    threads = SendingThreads(transport, buffer, sender, settings)
    transactions = None
    if settings.transactional_id is not None and staging is not None:
        transactions = Transactions(transport, threads, staging, settings.transactional_id, settings)

    def partition_count(topic: str) -> int:
        return describe_topic(transport, topic, Deadline(settings.max_block_ms)).partition_count

    def register(model: type, subject: str) -> None:
        Schemas(transport, limits.API_TIMEOUT_MS).register(subject, json_schema(model), "JSON")

    def message_id(kind: type, subject: str) -> int:
        schemas = Schemas(transport, limits.API_TIMEOUT_MS)
        return message_schema(schemas, kind, subject, registers=settings.register).id

    return ProducerParts(
        sender=sender,
        buffer=buffer,
        threads=threads,
        partition_count=partition_count,
        where=",".join(transport.urls),
        models=Models(register if settings.register else None, message_id),
        transactions=transactions,
    )
