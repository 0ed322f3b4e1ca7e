"""Sending of records: ``Producer``.

A record's path: ``send`` puts it into its topic's open batch (``send_buffer``). A sending thread takes the batch when it is
ready (``sending_threads``), assigns each record's partition and makes the request (``sender``). The answer finishes the
records' futures (``delivery``).
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from log_format import limits as contract
from log_format.errors import TidelogError
from tidelog import limits
from tidelog.bodies.record_columns import ANY_PARTITION
from tidelog.closing import Closing
from tidelog.deadline import Deadline
from tidelog.errors import BufferFull, DeliveryFailed
from tidelog.kafka_names import PRODUCER, KnowsKafkaNames, takes_kafka_names
from tidelog.producer.conversion import HeadersArgument, Serializer, as_bytes, header_pairs
from tidelog.producer.delays import delivery_times
from tidelog.producer.settings import ProducerSettings
from tidelog.types.record import Headers, ProduceResult, RecordMetadata, TopicPartition, headers_bytes
from tidelog.units_of_time import in_seconds

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow as pa

    from tidelog.bodies.encode import Compression
    from tidelog.bodies.table_chunk import ArrowStream, TableDelivery
    from tidelog.calls.queues import Locked
    from tidelog.http.credentials import ConnectionSettings
    from tidelog.producer.delivery import OnDelivery
    from tidelog.producer.transactions import Transactions
    from tidelog.types.group import GroupMetadata, NextOffset
    from tidelog.types.sealing import Sealing


class Producer(KnowsKafkaNames, Closing):
    """Sender of records to topics, in batches, in the background.

    ::

        with Producer("http://127.0.0.1:8080") as producer:
            future = producer.send("orders", "a value", key="user-7")
            print(future.result().offset)

    Promises: an acknowledged record (its future has a result) is durable, has this offset, and is in the log once. Requests are
    numbered: after a lost answer the producer retries, at any gateway, until the outcome is known, without duplicates. One
    producer's records keep their order in each partition; different topics don't wait for each other. A record fails with
    ``OutcomeUnknown``, which leaves open whether it is in the log, only when ``delivery_timeout_ms`` passed and no gateway
    could say. Every other error means that the record is not in the log.

    Thread-safe. A forked child must create its own producer; the parent's raises ``RuntimeError`` there.

    Args:
        bootstrap_servers: one URL of a gateway, several separated by commas, or a sequence of URLs, any of which may be down;
            None: the environment's ``TIDELOG_URL``, else ``http://127.0.0.1:8080``.
        linger_ms: how long a batch waits for more records before it is sent (0 and up), unless it reaches ``batch_bytes`` (1
            and up) first. Records sent and awaited one after another (``send(…).result()``) don't linger.
        buffer_bytes: bound on accepted and unacknowledged bytes, with about 100 bytes of overhead per record. Beyond it
            ``send`` blocks, up to ``max_block_ms``.
        max_in_flight: concurrent requests (1 and up), at most 5 of one topic.
        enable_idempotence: False sends requests without numbers, one of a topic at a time, and never retries one that may have
            happened.
        delivery_timeout_ms: after this long a record is acknowledged or its future has an exception.
        request_timeout_ms: how long one answer is waited for.
        compression: of request bodies, ``"gzip"``, ``"zstd"`` or None.
        key_serializer, value_serializer: called with the arguments of ``send``, return bytes, text or None.
        envelope: encrypts each serialized value (``tidelog.encryption``).
        on_delivery: called as ``on_delivery(error, record)`` for each record, from the sending thread, and must not wait for
            other records. With it, ``flush`` and ``close`` don't raise ``DeliveryFailed``.
        transactional_id: everything is sent in transactions under this name; only its newest producer can continue.
        transaction_timeout_ms: age at which gateways abort a transaction (1 s to 15 min).
        register: register the JSON Schema of each model that is sent, as ``<topic>-value``, before its first record. That send
            waits for the registry, and raises its errors (``IncompatibleSchema``).
        transaction_check_after_ms: age at which they offer it to ``TransactionChecker``; the timeout's default is then 15 min.
        connection: see ``tidelog.http.credentials.ConnectionSettings`` (``token``, ``token_file``, ``trusted_hosts``,
            ``ca_file``, ``cert_file``, ``key_file``).
    """

    @takes_kafka_names(PRODUCER)
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        linger_ms: float = limits.LINGER_MS,
        batch_bytes: int = limits.BATCH_BYTES,
        buffer_bytes: int = limits.BUFFER_BYTES,
        max_block_ms: float = limits.MAX_BLOCK_MS,
        max_in_flight: int = limits.MAX_IN_FLIGHT,
        enable_idempotence: bool = True,
        delivery_timeout_ms: float = limits.DELIVERY_TIMEOUT_MS,
        request_timeout_ms: float = limits.REQUEST_TIMEOUT_MS,
        compression: Compression | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        envelope: Sealing | None = None,
        on_delivery: OnDelivery | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int | None = None,
        transaction_check_after_ms: int | None = None,
        register: bool = False,
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        """Create the producer. Nothing is sent or connected yet. Raises ``ValueError`` for a value out of range."""
        settings = ProducerSettings(
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            buffer_bytes=buffer_bytes,
            max_block_ms=max_block_ms,
            max_in_flight=max_in_flight,
            enable_idempotence=enable_idempotence,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            compression=compression,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            envelope=envelope,
            on_delivery=on_delivery,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            transaction_check_after_ms=transaction_check_after_ms,
            register=register,
        )
        from tidelog.producer.parts import assemble  # noqa: PLC0415 - HTTP and the rest take longer than everything here

        parts = assemble(bootstrap_servers, settings, connection)
        self._sender, self._buffer, self._threads = parts.sender, parts.buffer, parts.threads
        self._transactions, self._partition_count = parts.transactions, parts.partition_count
        self._append = self._buffer.append
        if self._transactions is not None:
            self._append = self._transactions.join_calls(self._buffer.append)
        self._where = parts.where + (f" transactional_id={transactional_id!r}" if transactional_id is not None else "")
        self._key_serializer, self._value_serializer, self._envelope = key_serializer, value_serializer, envelope
        self._models = parts.models
        self._delivery_timeout_ms = delivery_timeout_ms
        self._process_id = os.getpid()
        self._closed = False
        # Accepted records are also delivered when the producer is garbage-collected, or still open at the interpreter's exit.
        self._finalizer = weakref.finalize(self, self._threads.close_abandoned)

    def send(  # noqa: PLR0917 - the order is that of kafka-python
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: HeadersArgument | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        *,
        deliver_at: datetime | int | None = None,
        deliver_after: timedelta | float | None = None,
    ) -> Future[RecordMetadata]:
        """Accept one record, and return the future of its place.

        Blocks only while the buffer is full.

        Args:
            value, key: bytes, text (sent as UTF-8) or None, after their serializers; a None value is a tombstone. A value may
                also be a dataclass, a msgspec Struct or a pydantic model, which is sent as a JSON document; or a message of
                Protobuf, which is sent as Confluent's serializer writes it.
            headers: pairs, or a mapping, of text to bytes, text or None.
            partition: None chooses it by the key as Kafka does; keyless records of a batch share one, round robin.
            timestamp_ms: None for now.
            deliver_at: a time with a zone, or milliseconds since the epoch. The record is stored now, and appears in the topic
                then, which is also its default timestamp.
            deliver_after: a duration, or seconds, from the gateway's receipt; else as ``deliver_at``.

        Raises ``BufferFull`` after ``max_block_ms``, ``TypeError`` and ``ValueError`` for an invalid record, ``RuntimeError``
        after ``close``. The future raises every other error.
        """
        if self._closed or os.getpid() != self._process_id:
            self._refuse()
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        if self._envelope is not None:
            key = None if key is None else as_bytes(key, "key")
            plain = None if value is None else self._models.bytes_of(topic, value)
            value, headers = self._envelope.seal(plain, key=key, headers=header_pairs(headers or ()))
        size_bytes = limits.RECORD_OVERHEAD_BYTES
        if value is not None:
            if type(value) is not bytes:
                value = self._models.bytes_of(topic, value)
            size_bytes += len(value)
        if key is not None:
            if type(key) is not bytes:
                key = as_bytes(key, "key")
            size_bytes += len(key)
        pairs: Headers = ()
        if headers:
            pairs = header_pairs(headers)
            size_bytes += headers_bytes(pairs)
        if partition is None:
            partition = ANY_PARTITION
        elif not 0 <= partition < contract.PARTITION_COUNT_MAX:
            raise ValueError(f"partition is {partition}, not 0 to {contract.PARTITION_COUNT_MAX - 1}")
        delay = None
        if deliver_at is not None or deliver_after is not None or timestamp_ms is not None:
            delay, timestamp_ms = delivery_times(timestamp_ms, deliver_at, deliver_after)
        else:
            timestamp_ms = time.time_ns() // 1_000_000
        future, opened = self._append(topic, key, value, pairs, partition, timestamp_ms, size_bytes, delay)
        if opened:
            self._threads.ensure_started()
        return future

    def needs_registration(self, topic: str, value: object) -> bool:
        """Return whether ``send`` of this value would wait for the schema registry."""
        return self._models.needs_registration(topic, value)

    def register_model(self, topic: str, value: object) -> None:
        """Register the model of a value as ``send`` does, for callers that must not wait there."""
        self._refuse_fork()
        self._models.register(topic, type(value))

    def send_table(
        self, topic: str, table: ArrowStream, *, data: Sequence[str] = (), max_block_ms: float | None = None
    ) -> Future[ProduceResult]:
        """Accept an Arrow table, and return the future of its offset ranges.

        ``table``: from pyarrow, or any object with Arrow's ``__arrow_c_stream__``, such as DataFrames of pandas and polars.
        Columns: ``value`` and optionally ``key``, ``headers``, ``timestamp``, ``partition``, as in the HTTP API; the gateway
        chooses partitions that are null or absent. ``data``: names of columns that are members of a typed topic's values,
        instead of ``value``. A table of more than 8 MiB goes as several requests, in order. When one fails, later ones are not
        sent, and a note on the exception says how many rows are stored. The table is sent after records sent to the topic
        before. Blocks up to ``max_block_ms`` (None: the producer's) for each request. Raises as ``send``; ``TypeError`` also
        for an object that is no table, ``ValueError`` for a name in ``data`` that no column has.
        """
        if self._closed or os.getpid() != self._process_id:
            self._refuse()
        if self._envelope is not None:
            raise ValueError("a producer with an envelope can't send tables: their values would not be encrypted")
        from tidelog.bodies.table_chunk import TableDelivery, as_table, with_data  # noqa: PLC0415 - slow

        rows = with_data(as_table(table), list(data)) if len(data) else as_table(table)
        delivery = TableDelivery(topic, rows.num_rows)
        if rows.num_rows == 0:
            delivery.stored(ProduceResult(topic, ()))
            return delivery.future
        with contextlib.nullcontext() if self._transactions is None else self._transactions.kept_open():
            self._put(delivery, rows, max_block_ms)
        return delivery.future

    def partitions_for(self, topic: str) -> set[int]:
        """Return the topic's partitions. Raises ``UnknownTopic``."""
        self._refuse_fork()
        return set(range(self._partition_count(topic)))

    # Transactions

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run a block in a transaction: its end commits, an exception aborts and is raised again.

        Raises what ``begin_transaction`` and ``commit_transaction`` raise.
        """
        self.begin_transaction()
        try:
            yield
        except BaseException:
            with contextlib.suppress(TidelogError):
                self.abort_transaction()
            raise
        self.commit_transaction()

    def init_transactions(self) -> None:
        """Fence every earlier producer of the transactional id: what it left open can no longer be committed.

        Call this before reading committed results to find where to continue. Otherwise it is optional, since beginning a
        transaction fences as well. Raises as ``begin_transaction``.
        """
        self._transactional().initialize()

    def begin_transaction(self) -> None:
        """Begin a transaction, to which everything sent from now on belongs.

        Raises ``FencedProducer``, now and from then on, when another producer took the transactional id; ``GatewayError`` when
        no transaction could be begun; ``RuntimeError`` while one is open, and without a ``transactional_id``.
        """
        self._transactional().begin()

    def commit_transaction(self) -> None:
        """Commit: return when everything sent in the transaction is in the log and visible, with the groups' offsets.

        Retried automatically until the outcome is known. Raises ``OutcomeUnknown`` when ``delivery_timeout_ms`` passes first:
        call it again. After any other error the transaction is aborted, and nothing of it will ever appear: ``DeliveryFailed``
        when a record was refused, ``FencedProducer``, ``TransactionNotOpen`` (it timed out), ``StaleGeneration`` (the group's
        partitions were reassigned), ``GatewayError``.
        """
        self._transactional().commit()

    def abort_transaction(self) -> None:
        """Abort: nothing sent in the transaction will ever appear. Its records' futures raise ``TransactionAborted``.

        An unreachable gateway raises nothing: gateways abort the transaction after its timeout. Raises ``FencedProducer``, and
        after a commit in doubt ``TransactionNotOpen``: it was committed.
        """
        self._transactional().abort()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, NextOffset], group: GroupMetadata | str
    ) -> None:
        """Commit a group's offsets with the transaction, all or nothing, together with its records.

        ``offsets``: the next offsets to read, as from ``Consumer.positions``. ``group``: ``Consumer.group_metadata()``, by
        which gateways refuse a consumer that lost its partitions, or the name of a group without members.

        After ``StaleGeneration``, ``UnknownMember`` or ``FencedMember`` the transaction can only be aborted.
        """
        self._transactional().add_offsets(offsets, group)

    def accept_in_transaction(self, records: Iterable[Locked]) -> None:
        """Accept records of a ``QueueConsumer`` with the transaction, all or nothing, together with the records sent in it.

        Their locks hold until the transaction ends; an abort releases them immediately. Raises ``LeaseExpired`` if a lock has
        expired: then the transaction can only be aborted.
        """
        self._transactional().accept(records)

    def _transactional(self) -> Transactions:
        self._refuse_fork()
        if self._transactions is None:
            raise RuntimeError("the producer has no transactional_id")
        if self._closed:
            self._refuse()
        self._threads.refuse_own_thread()
        return self._transactions

    def _put(self, delivery: TableDelivery, rows: pa.Table, max_block_ms: float | None) -> None:
        from tidelog.bodies.table_chunk import TableChunk, cut  # noqa: PLC0415 - takes a moment

        for index, part in enumerate(cut(rows, self._buffer.batch_bytes_max)):
            try:
                self._buffer.put(TableChunk(delivery, part, Deadline(self._delivery_timeout_ms)), max_block_ms)
            except BufferFull as error:
                if index == 0:
                    raise
                delivery.fail(error)
                self._sender.fail(error)
                break
            self._threads.ensure_started()

    def wait_for_room(self, size_bytes: int, max_block_ms: float) -> None:
        """Wait until the buffer has room for so many bytes, which other threads may still take. Raises ``BufferFull`` as
        ``send``."""
        self._refuse_fork()
        self._buffer.wait_for_room(size_bytes, max_block_ms)

    @in_seconds
    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent before this call is acknowledged.

        Raises ``DeliveryFailed`` when some were not, unless there is an ``on_delivery``; ``TimeoutError`` after ``timeout``
        seconds.
        """
        self._refuse_fork()
        self._threads.flush(Deadline(None if timeout is None else timeout * 1000))

    @in_seconds
    def close(self, timeout: float | None = None) -> None:
        """Deliver buffered records, then end the threads and close the connections. A second call does nothing.

        An open transaction is aborted. After ``timeout`` seconds (None: after the delivery timeouts) undelivered records are
        given up: their futures raise. Raises ``DeliveryFailed`` as ``flush``.
        """
        self._threads.refuse_own_thread()
        self._closed = True
        self._finalizer.detach()
        if self._transactions is not None and os.getpid() == self._process_id:
            self._transactions.close()
        self._threads.close(Deadline(None if timeout is None else timeout * 1000))

    def __repr__(self) -> str:
        """Show the gateways, without the token."""
        return f"<Producer {self._where}>"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close. If the block raised, its exception is kept, and failed deliveries are only logged."""
        with contextlib.suppress(*([DeliveryFailed] if error is not None else [])):
            self.close()

    def _refuse(self) -> None:
        self._refuse_fork()
        raise RuntimeError("the producer is closed")

    def _refuse_fork(self) -> None:
        if os.getpid() != self._process_id:
            raise RuntimeError("this producer was created before a fork: create a new one in the child process")
