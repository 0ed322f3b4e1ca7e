"""``KafkaProducer``, over the SDK's producer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from log_format.errors import TidelogError
from tidelog.bodies.partitioner import partition_for_key
from tidelog.closing import Closing
from tidelog.compat.kafka.errors import KafkaConfigurationError, KafkaError, kafka_error, translated
from tidelog.compat.kafka.settings import PRODUCER, connection_of, renamed
from tidelog.compat.kafka.structs import OffsetAndMetadata, RecordMetadata, TopicPartition
from tidelog.compat.settings import compression_of
from tidelog.errors import DeliveryFailed
from tidelog.producer.producer import Producer
from tidelog.types import record as sdk
from tidelog.types.group import GroupMetadata

_SAME = {
    "batch_size": "batch_bytes",
    "buffer_memory": "buffer_bytes",
    "delivery_timeout_ms": "delivery_timeout_ms",
    "max_block_ms": "max_block_ms",
    "request_timeout_ms": "request_timeout_ms",
    "transactional_id": "transactional_id",
    "transaction_timeout_ms": "transaction_timeout_ms",
}
_LINGER_MS = 0
"""Kafka's default."""


class FutureRecordMetadata:
    """Where one record went."""

    def __init__(self, stored: Future[sdk.RecordMetadata]) -> None:
        self._stored = stored

    @property
    def is_done(self) -> bool:
        """Whether the record is stored or given up."""
        return self._stored.done()

    @property
    def value(self) -> RecordMetadata | None:
        """Where it is, once it is stored."""
        return self.get() if self.succeeded() else None

    @property
    def exception(self) -> KafkaError | None:
        """Why it is not stored."""
        error = self._stored.exception() if self.is_done else None
        return kafka_error(error) if isinstance(error, TidelogError) else None

    def succeeded(self) -> bool:
        """Whether it is stored."""
        return self.is_done and self._stored.exception() is None

    def failed(self) -> bool:
        """Whether it is given up."""
        return self.is_done and self._stored.exception() is not None

    def retriable(self) -> bool:
        """Whether sending it again may help."""
        error = self.exception
        return error is not None and error.retriable

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Where it is, waited for up to ``timeout`` seconds. Raises ``KafkaError``."""
        with translated():
            return _metadata(self._stored.result(timeout))

    def add_callback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``f`` with the metadata when the record is stored."""

        def call(stored: Future[sdk.RecordMetadata]) -> None:
            if stored.exception() is None:
                f(*args, _metadata(stored.result()), **kwargs)

        self._stored.add_done_callback(call)
        return self

    def add_errback(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``f`` with the error when the record is given up."""

        def call(stored: Future[sdk.RecordMetadata]) -> None:
            error = stored.exception()
            if isinstance(error, TidelogError):
                f(*args, kafka_error(error), **kwargs)

        self._stored.add_done_callback(call)
        return self

    def add_both(self, f: Callable[..., object], *args: Any, **kwargs: Any) -> FutureRecordMetadata:
        """Call ``f`` with one or the other."""
        return self.add_callback(f, *args, **kwargs).add_errback(f, *args, **kwargs)


class KafkaProducer(Closing):
    """Sends records in the background. Settings and methods are kafka-python's; each record is acknowledged by the store.

    ``acks`` may be ``"all"`` or -1; 0 and 1 mean the same here, since nothing less is to be had. ``partitioner`` gets the key,
    all partitions, and those that are available: all.
    """

    def __init__(self, **configs: Any) -> None:
        """Raises ``KafkaConfigurationError`` for a setting that has no meaning here."""
        connection = connection_of(PRODUCER, configs)
        if configs.get("acks", "all") not in {"all", -1, 0, 1}:
            raise KafkaConfigurationError(f"acks={configs['acks']!r} is not 'all', -1, 0 or 1")
        self._key_serializer, self._value_serializer = configs.get("key_serializer"), configs.get("value_serializer")
        self._partitioner = configs.get("partitioner")
        self._partitions: dict[str, list[int]] = {}
        settings = renamed(configs, _SAME)
        try:
            self._producer = Producer(
                linger_ms=configs.get("linger_ms", _LINGER_MS),
                compression=compression_of(configs.get("compression_type"), KafkaConfigurationError),  # type: ignore[arg-type]
                on_delivery=_ignored,
                **connection,
                **settings,
            )
        except (ValueError, TypeError) as error:
            raise KafkaConfigurationError(str(error)) from error

    def send(  # noqa: PLR0917 - as kafka-python has it
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """Take one record in. Raises ``KafkaTimeoutError`` when there is no room for ``max_block_ms``."""
        key = _serialized(self._key_serializer, topic, headers, key)
        value = _serialized(self._value_serializer, topic, headers, value)
        if partition is None and self._partitioner is not None:
            partition = self._chosen(topic, key)
        with translated():
            return FutureRecordMetadata(self._producer.send(topic, value, key, headers, partition, timestamp_ms))

    def flush(self, timeout: float | None = None) -> None:
        """Return when every record sent before is stored or given up. Raises ``KafkaTimeoutError``; failures are in futures."""
        with translated():
            self._producer.flush(timeout)

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Deliver what was sent, for up to ``timeout`` seconds."""
        del null_logger
        try:
            self._producer.close(timeout)
        except (DeliveryFailed, TimeoutError):
            return

    def partitions_for(self, topic: str) -> set[int]:
        """The topic's partitions."""
        with translated():
            return self._producer.partitions_for(topic)

    def bootstrap_connected(self) -> bool:
        """True: a client connects with its first call."""
        return True

    def metrics(self, raw: bool = False) -> dict[str, Any]:
        """Empty: the gateway has them, at ``/metrics``."""
        del raw
        return {}

    # Transactions

    def init_transactions(self) -> None:
        """Fence every earlier producer of the transactional id."""
        with translated():
            self._producer.init_transactions()

    def begin_transaction(self) -> None:
        """Begin one."""
        with translated():
            self._producer.begin_transaction()

    def commit_transaction(self) -> None:
        """Return when everything in it is visible."""
        with translated():
            self._producer.commit_transaction()

    def abort_transaction(self) -> None:
        """Nothing in it will ever appear."""
        with translated():
            self._producer.abort_transaction()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: GroupMetadata | str
    ) -> None:
        """Commit a group's offsets with the transaction. ``group_metadata``: ``KafkaConsumer.group_metadata()``, or the name."""
        places = {sdk.TopicPartition(*place[:2]): _offset(offset) for place, offset in offsets.items()}
        with translated():
            self._producer.send_offsets_to_transaction(places, group_metadata)

    def _chosen(self, topic: str, key: bytes | None) -> int:
        if topic not in self._partitions:
            self._partitions[topic] = sorted(self.partitions_for(topic))
        everywhere = self._partitions[topic]
        chosen = self._partitioner(key, everywhere, everywhere) if self._partitioner is not None else None
        return partition_for_key(key or b"", len(everywhere)) if chosen is None else int(chosen)


def _ignored(error: Exception | None, record: object) -> None:
    """Failures are in the futures, as in kafka-python: neither ``flush`` nor ``close`` raises for them."""


def _metadata(stored: sdk.RecordMetadata) -> RecordMetadata:
    place = TopicPartition(stored.topic, stored.partition)
    return RecordMetadata(stored.topic, stored.partition, place, stored.offset, stored.timestamp_ms)


def _offset(given: OffsetAndMetadata | int) -> int:
    return given if isinstance(given, int) else given.offset


def _serialized(serializer: Any, topic: str, headers: object, data: Any) -> Any:
    if serializer is None:
        return data
    if hasattr(serializer, "serialize"):
        return serializer.serialize(topic, headers, data)
    return serializer(data)
