"""``Producer``: callbacks are called by ``poll`` and ``flush``, in the caller's thread, as in confluent-kafka."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from tidelog.compat.confluent_kafka.errors import KafkaError, invalid, kafka_error, not_there, translated
from tidelog.compat.confluent_kafka.message import Message, TopicPartition
from tidelog.compat.confluent_kafka.metadata import ClusterMetadata, metadata_of
from tidelog.compat.confluent_kafka.settings import PRODUCER, connection_of, is_true, number, settings_of
from tidelog.compat.settings import compression_of
from tidelog.errors import BufferFull
from tidelog.producer import producer as sdk
from tidelog.types.group import GroupMetadata
from tidelog.types.record import RecordMetadata

OnDelivery = Callable[[KafkaError | None, Message], object]
_PARTITIONERS: Final = frozenset({"murmur2", "murmur2_random"})
_ACKS: Final = frozenset({"all", "-1", "0", "1"})
_LINGER_MS: Final = 5.0
"""librdkafka's default."""


class Producer:
    """Sends records. Keys choose partitions by murmur2, as Java's clients do; librdkafka's own default is another hash.

    Every record is acknowledged by the store: ``acks`` may be anything that Kafka has.
    """

    def __init__(self, conf: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Raises ``KafkaException`` for a setting that has no meaning here."""
        given = settings_of(PRODUCER, conf, more)
        if str(given.get("acks", given.get("request.required.acks", "all"))) not in _ACKS:
            raise invalid("acks is 'all', -1, 0 or 1")
        if given.get("partitioner", "murmur2_random") not in _PARTITIONERS:
            raise invalid(f"partitioner {given['partitioner']!r}: keys choose by murmur2 here")
        buffer_kib = number(given, "queue.buffering.max.kbytes")
        linger_ms = number(given, "linger.ms", "queue.buffering.max.ms")
        timeout_ms = number(given, "delivery.timeout.ms", "message.timeout.ms")
        settings: dict[str, Any] = {
            "linger_ms": _LINGER_MS if linger_ms is None else linger_ms,
            "compression": compression_of(given.get("compression.type", given.get("compression.codec")), invalid),
            "transactional_id": given.get("transactional.id"),
            "enable_idempotence": is_true(given, "enable.idempotence", True) or "transactional.id" in given,
        }
        optional = {
            "batch_bytes": number(given, "batch.size"),
            "buffer_bytes": None if buffer_kib is None else buffer_kib * 1024,
            "delivery_timeout_ms": timeout_ms,
            "transaction_timeout_ms": number(given, "transaction.timeout.ms"),
            "request_timeout_ms": number(given, "request.timeout.ms"),
        }
        settings |= {name: int(value) for name, value in optional.items() if value is not None}
        self._on_delivery: OnDelivery | None = given.get("on_delivery")
        self._connection = connection_of(given)
        self._waiting = 0
        self._lock = threading.Lock()
        self._delivered: queue.SimpleQueue[tuple[OnDelivery | None, KafkaError | None, Message]] = queue.SimpleQueue()
        try:
            self._producer = sdk.Producer(
                max_block_ms=0, on_delivery=lambda _error, _record: None, **self._connection, **settings
            )
        except (ValueError, TypeError) as error:
            raise invalid(str(error)) from error

    def produce(  # noqa: PLR0917 - as confluent-kafka has it
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Mapping[str, Any] | Sequence[tuple[str, Any]] | None = None,
        *,
        callback: OnDelivery | None = None,
    ) -> None:
        """Take one record in. Raises ``BufferError`` when there is no room: ``poll`` and try again."""
        told = on_delivery or callback or self._on_delivery
        began_s = time.monotonic()
        try:
            with translated():
                stored = self._producer.send(
                    topic, value, key, headers, None if partition < 0 else partition, timestamp or None
                )
        except Exception as error:
            if isinstance(error.__cause__, BufferFull):
                raise BufferError("Local: Queue full") from error
            raise
        with self._lock:
            self._waiting += 1
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ())

        def note(done: Future[RecordMetadata]) -> None:
            # In a thread of the SDK: the callback waits for ``poll``.
            message = _delivered(done, topic, key, value, pairs)
            message.latency_s = time.monotonic() - began_s
            self._delivered.put((told, message.error(), message))

        stored.add_done_callback(note)

    def poll(self, timeout: float | None = None) -> int:
        """Call the callbacks of what was delivered, waiting up to ``timeout`` seconds for the first; how many were called."""
        served = 0
        wait_s = timeout if timeout is None or timeout >= 0 else None
        while True:
            try:
                if served or wait_s == 0:
                    told, error, message = self._delivered.get_nowait()
                elif len(self) == 0:
                    return served
                else:
                    told, error, message = self._delivered.get(timeout=wait_s)
            except queue.Empty:
                return served
            served += 1
            with self._lock:
                self._waiting -= 1
            if told is not None:
                told(error, message)

    def flush(self, timeout: float | None = None) -> int:
        """Deliver what was sent and call the callbacks; how many are left after ``timeout`` seconds."""
        end_s = None if timeout is None or timeout < 0 else time.monotonic() + timeout
        self._hasten()
        while len(self):
            left_s = 0.1 if end_s is None else min(0.1, end_s - time.monotonic())
            if left_s <= 0:
                break
            self.poll(left_s)
        return len(self)

    def __len__(self) -> int:
        """Records whose callback was not called yet."""
        with self._lock:
            return self._waiting

    def __bool__(self) -> bool:
        """True, also with nothing to deliver."""
        return True

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Not to be had: a record that was taken in is delivered, or fails by its time-out."""
        del in_queue, in_flight, blocking
        raise not_there("purge")

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The topics and their partitions."""
        return metadata_of(self._connection, topic, timeout)

    def close(self, timeout: float | None = None) -> bool:
        """Deliver, call the callbacks, and end; whether all was delivered."""
        left = self.flush(timeout)
        self._producer.close(0 if left else None)
        return left == 0

    # Transactions

    def init_transactions(self, timeout: float | None = None) -> None:
        """Fence every earlier producer of the transactional id."""
        del timeout
        with translated():
            self._producer.init_transactions()

    def begin_transaction(self) -> None:
        """Begin one."""
        with translated():
            self._producer.begin_transaction()

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Return when everything in it is visible; its callbacks wait for ``poll``."""
        del timeout
        with translated():
            self._producer.commit_transaction()

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Nothing in it will ever appear."""
        del timeout
        with translated():
            self._producer.abort_transaction()

    def send_offsets_to_transaction(
        self, positions: Sequence[TopicPartition], group_metadata: GroupMetadata, timeout: float | None = None
    ) -> None:
        """Commit a group's offsets with the transaction; positions without an offset are left out."""
        del timeout
        offsets = {place.ours(): place.offset for place in positions if place.offset >= 0}
        with translated():
            self._producer.send_offsets_to_transaction(offsets, group_metadata)

    def _hasten(self) -> None:
        """Send what lingers: the SDK's flush does, and is not waited for."""
        try:
            self._producer.flush(0)
        except TimeoutError:
            return


def _delivered(
    done: Future[RecordMetadata],
    topic: str,
    key: str | bytes | None,
    value: str | bytes | None,
    headers: list[tuple[str, Any]],
) -> Message:
    failure = done.exception()
    stored = done.result() if failure is None else None
    return Message(
        topic=topic,
        partition=None if stored is None else stored.partition,
        offset=None if stored is None else stored.offset,
        timestamp_ms=None if stored is None else stored.timestamp_ms,
        key=_bytes(key),
        value=_bytes(value),
        headers=[(name, _bytes(each)) for name, each in headers] or None,
        error=None if failure is None else kafka_error(failure),
    )


def _bytes(given: str | bytes | None) -> bytes | None:
    return given.encode() if isinstance(given, str) else given
