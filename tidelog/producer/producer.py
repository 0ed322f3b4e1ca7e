"""Sending records: ``Producer``.

The way of a record: ``send`` puts it into its topic's open batch (``send_buffer``). A sending thread takes the batch when it is
ready (``sending_threads``), gives each record its partition and makes the request (``sender``). The answer finishes the
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
from tidelog.bodies.record_columns import CHOOSE
from tidelog.closing import Closing
from tidelog.deadline import Deadline
from tidelog.errors import BufferFull, DeliveryFailed
from tidelog.kafka_names import PRODUCER, KnowsKafkaNames, takes_kafka_names
from tidelog.producer.delays import times_of
from tidelog.producer.given import (
    HeadersArgument,
    Serializer,
    as_bytes,
    check_at_least,
    check_words,
    identity_of,
    pairs_of,
)
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
    """Sends records to topics, in batches, in the background.

    ::

        with Producer("http://127.0.0.1:8080") as producer:
            future = producer.send("orders", "a value", key="user-7")
            print(future.result().offset)

    Promises: an acknowledged record (its future has a result) is durable, has this offset, and is in the log once. Requests are
    numbered: after a lost answer the producer repeats one, by any gateway, until its outcome is known, and doubles nothing. One
    producer's records keep their order in each partition; different topics don't wait for each other. A record fails with
    ``OutcomeUnknown`` only when ``delivery_timeout_ms`` is over and no gateway could say: it may or may not be in the log.
    Every other error says that it is not.

    Safe from any thread. A forked child must make its own; the parent's raises ``RuntimeError`` there.

    ``bootstrap_servers``: a gateway's URL, several separated by commas, or a sequence of them, any of which may be dead;
    None: the environment's ``TIDELOG_URL``, else ``http://127.0.0.1:8080``.

    ``linger_ms`` (0 and up): how long a batch waits for more records before it is sent, unless it reaches ``batch_bytes`` (1
    and up) first. Records that are sent and waited for one after another (``send(…).result()``) wait for no others.
    ``buffer_bytes``: what may be taken in and not acknowledged, about 100 bytes per record included; beyond it ``send`` blocks,
    up to ``max_block_ms``. ``max_in_flight`` (1 and up): requests on their way at once, at most 5 of one topic.
    ``enable_idempotence``: False sends requests without numbers, one of a topic at a time, and never repeats one that
    may have happened. ``delivery_timeout_ms``: when it has passed since a record was sent, the record is acknowledged or its
    future has an exception; ``request_timeout_ms``: how long one answer is waited for. ``compression``: of request bodies,
    ``"gzip"``, ``"zstd"`` or None. ``key_serializer``, ``value_serializer``: called with what ``send`` gets, return bytes, text
    or None. ``envelope``: seals each value behind them (``tidelog.encryption``). ``on_delivery``: called as
    ``on_delivery(error, record)`` for each record, from the sending thread; with it
    ``flush`` and ``close`` don't raise ``DeliveryFailed``. It must not wait for other records. ``transactional_id``: everything
    is sent in transactions under this name; only its newest producer goes on. ``transaction_timeout_ms`` (1 s to 15 min): after
    so long the gateways abort a transaction. ``transaction_check_after_ms``: after so long they offer it to
    ``TransactionChecker``; the time-out's default is then 15 min. ``connection``: as
    ``tidelog.http.credentials.ConnectionSettings`` explains (``token``, ``token_file``, ``trusted_hosts``, ``ca_file``,
    ``cert_file``, ``key_file``).
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
        **connection: Unpack[ConnectionSettings],
    ) -> None:
        """Nothing is sent or connected yet. Raises ``ValueError`` for a value out of its range."""
        check_at_least(0, linger_ms=linger_ms, max_block_ms=max_block_ms)
        check_at_least(1, batch_bytes=batch_bytes, max_in_flight=max_in_flight)
        check_at_least(batch_bytes, buffer_bytes=buffer_bytes)
        check_at_least(linger_ms, delivery_timeout_ms=delivery_timeout_ms)
        if batch_bytes > limits.REQUEST_TARGET_BYTES:
            raise ValueError(f"batch_bytes is {batch_bytes}, above {limits.REQUEST_TARGET_BYTES}")
        check_words(compression, transactional_id, enable_idempotence=enable_idempotence)
        from tidelog.producer.parts import assemble  # noqa: PLC0415 - HTTP and the rest take longer than everything here

        parts = assemble(
            bootstrap_servers,
            request_timeout_ms,
            connection,
            compression=compression,
            numbered=enable_idempotence,
            transaction=identity_of(
                transactional_id, transaction_timeout_ms, delivery_timeout_ms, transaction_check_after_ms
            ),
            max_in_flight=max_in_flight,
            on_delivery=on_delivery,
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            buffer_bytes=buffer_bytes,
            max_block_ms=max_block_ms,
            delivery_timeout_ms=delivery_timeout_ms,
        )
        self._sender, self._buffer, self._threads = parts.sender, parts.buffer, parts.threads
        self._transactions = parts.transactions
        self._append, self._partition_count = self._buffer.append, parts.partition_count
        self._where = parts.where + (f" transactional_id={transactional_id!r}" if transactional_id is not None else "")
        if self._transactions is not None:
            self._append = self._transactions.inside(self._buffer.append)
        self._key_serializer, self._value_serializer = key_serializer, value_serializer
        self._envelope = envelope
        self._delivery_timeout_ms = delivery_timeout_ms
        self._process_id = os.getpid()
        self._closed = False
        # Also when the producer is forgotten, or open at the interpreter's end, what was taken in is delivered.
        self._finalizer = weakref.finalize(self, self._threads.close_forgotten)

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
        """Take one record in, and return the future of its place.

        ``value`` and ``key``: bytes, text (sent as UTF-8) or None, after their serializers; a None value is a tombstone.
        ``headers``: pairs, or a mapping, of text to bytes, text or None. ``partition``: None chooses it by the key as Kafka
        does (without a key: one partition per batch, in turn). ``timestamp_ms``: None is now.
        ``deliver_at`` (a time with a zone, or milliseconds since the epoch) or ``deliver_after`` (a duration, or seconds, from
        the gateway's receipt): the record is stored now and appears in the topic then, which is also its default timestamp.

        Blocks only while the buffer is full. Raises ``BufferFull`` after ``max_block_ms``, ``TypeError`` and ``ValueError``
        for what no record may be, ``RuntimeError`` when the producer is closed. The future raises every other error.
        """
        if self._closed or os.getpid() != self._process_id:
            self._refuse()
        if self._key_serializer is not None:
            key = self._key_serializer(key)
        if self._value_serializer is not None:
            value = self._value_serializer(value)
        if self._envelope is not None:
            key = None if key is None else as_bytes(key, "key")
            plain = None if value is None else as_bytes(value, "value")
            value, headers = self._envelope.seal(plain, key=key, headers=pairs_of(headers or ()))
        size_bytes = limits.RECORD_OVERHEAD_BYTES
        if value is not None:
            if type(value) is not bytes:
                value = as_bytes(value, "value")
            size_bytes += len(value)
        if key is not None:
            if type(key) is not bytes:
                key = as_bytes(key, "key")
            size_bytes += len(key)
        pairs: Headers = ()
        if headers:
            pairs = pairs_of(headers)
            size_bytes += headers_bytes(pairs)
        if partition is None:
            partition = CHOOSE
        elif not 0 <= partition < contract.PARTITION_COUNT_MAX:
            raise ValueError(f"partition is {partition}, not 0 to {contract.PARTITION_COUNT_MAX - 1}")
        delay = None
        if deliver_at is not None or deliver_after is not None or timestamp_ms is not None:
            delay, timestamp_ms = times_of(timestamp_ms, deliver_at, deliver_after)
        else:
            timestamp_ms = time.time_ns() // 1_000_000
        future, opened = self._append(topic, key, value, pairs, partition, timestamp_ms, size_bytes, delay)
        if opened:
            self._threads.ensure()
        return future

    def send_table(self, topic: str, table: ArrowStream, *, max_block_ms: float | None = None) -> Future[ProduceResult]:
        """Take an Arrow table in and return the future of its ranges of offsets.

        ``table``: of pyarrow, or any object with Arrow's ``__arrow_c_stream__``, such as DataFrames of pandas and polars.
        Columns: ``value`` and, where wanted, ``key``, ``headers``, ``timestamp``, ``partition``, as the HTTP API names them;
        the gateway chooses partitions that are null or absent. A table of more than 8 MiB goes as several requests, in order.
        When one fails those behind it are not sent, and a note on the exception says how many rows are stored. The table goes
        behind what was sent to the topic before. Blocks up to ``max_block_ms`` (None: the producer's) for each request. Raises
        as ``send``; ``TypeError`` also for what is no table.
        """
        if self._closed or os.getpid() != self._process_id:
            self._refuse()
        if self._envelope is not None:
            raise ValueError("a producer with an envelope sends no tables: their values would not be sealed")
        from tidelog.bodies.table_chunk import TableDelivery, as_table  # noqa: PLC0415 - takes a moment

        rows = as_table(table)
        delivery = TableDelivery(topic, rows.num_rows)
        if rows.num_rows == 0:
            delivery.stored(ProduceResult(topic, ()))
            return delivery.future
        with contextlib.nullcontext() if self._transactions is None else self._transactions.entered():
            self._put(delivery, rows, max_block_ms)
        return delivery.future

    def partitions_for(self, topic: str) -> set[int]:
        """The topic's partitions. Raises ``UnknownTopic``."""
        self._refuse_fork()
        return set(range(self._partition_count(topic)))

    # Transactions

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction around a block: committed at its end, aborted by an exception, which goes on.

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
        """Fence every earlier producer of the transactional id: nothing that it left open can be committed after this.

        Call it before you read what they committed to find where to go on. Otherwise it may be left out: beginning a
        transaction does the same. Raises as ``begin_transaction``.
        """
        self._transactional().initialize()

    def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on belongs to it.

        Raises ``FencedProducer`` when another producer took the transactional id, now and from then on; ``GatewayError`` when no
        transaction could be begun; ``RuntimeError`` while one is open, and without a ``transactional_id``.
        """
        self._transactional().begin()

    def commit_transaction(self) -> None:
        """Commit: return when everything sent in the transaction is in the log and visible, with the offsets of groups.

        Repeated by itself until the outcome is known. Raises ``OutcomeUnknown`` when ``delivery_timeout_ms`` ends first: call
        it again. After any other error the transaction is aborted, and nothing of it will ever appear: ``DeliveryFailed`` when
        a record sent in it was refused, ``FencedProducer``, ``TransactionNotOpen`` (its time-out was over), ``StaleGeneration``
        (the group's partitions went to others), ``GatewayError``.
        """
        self._transactional().commit()

    def abort_transaction(self) -> None:
        """Abort: nothing sent in the transaction will ever appear. The futures of its records raise ``TransactionAborted``.

        An unreachable gateway raises nothing: gateways abort the transaction after its time-out. Raises ``FencedProducer``, and
        after a commit in doubt ``TransactionNotOpen``: it was committed.
        """
        self._transactional().abort()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, NextOffset], group: GroupMetadata | str
    ) -> None:
        """Commit a group's offsets with the transaction: all or nothing, together with the records.

        ``offsets``: the next to read, as ``Consumer.positions`` has them. ``group``: ``Consumer.group_metadata()``, by which
        the gateway refuses a consumer that lost its partitions; or the name of a group without members.

        After ``StaleGeneration``, ``UnknownMember`` or ``FencedMember`` the transaction can only be aborted.
        """
        self._transactional().add_offsets(offsets, group)

    def accept_in_transaction(self, records: Iterable[Locked]) -> None:
        """Accept records of a ``QueueConsumer`` with the transaction: all or nothing, together with the records sent in it.

        Their locks hold until the transaction ends; an abort frees them at once. Raises ``LeaseExpired`` where a lock was over:
        then the transaction can only be aborted.
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
            self._threads.ensure()

    def wait_for_room(self, size_bytes: int, max_block_ms: float) -> None:
        """Return when the buffer has room for so many bytes; other threads may take it. Raises ``BufferFull`` as ``send``."""
        self._refuse_fork()
        self._buffer.wait_for_room(size_bytes, max_block_ms)

    @in_seconds
    def flush(self, timeout: float | None = None) -> None:
        """Return when every record sent before this call is acknowledged.

        Raises ``DeliveryFailed`` when some were not, unless there is an ``on_delivery``. Raises ``TimeoutError`` after
        ``timeout`` seconds.
        """
        self._refuse_fork()
        self._threads.flush(Deadline(None if timeout is None else timeout * 1000))

    @in_seconds
    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent, then end the threads and close the connections. A second call does nothing.

        An open transaction is aborted.

        After ``timeout`` seconds (None: when the delivery time-outs are over) what is left is given up: its futures raise.
        Raises ``DeliveryFailed`` as ``flush`` does.
        """
        self._threads.refuse_own_thread()
        self._closed = True
        self._finalizer.detach()
        if self._transactions is not None and os.getpid() == self._process_id:
            self._transactions.close()
        self._threads.close(Deadline(None if timeout is None else timeout * 1000))

    def __repr__(self) -> str:
        """Where it sends; no token."""
        return f"<Producer {self._where}>"

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close. When the block raises, its exception goes on, and failed deliveries are only logged."""
        with contextlib.suppress(*([DeliveryFailed] if error is not None else [])):
            self.close()

    def _refuse(self) -> None:
        self._refuse_fork()
        raise RuntimeError("the producer is closed")

    def _refuse_fork(self) -> None:
        if os.getpid() != self._process_id:
            raise RuntimeError("this producer was made before a fork: make a new one in the child process")
