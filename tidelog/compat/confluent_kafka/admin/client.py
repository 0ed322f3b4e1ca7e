"""``AdminClient``, over the SDK's ``Admin``: topics, their settings and records, and groups. Its futures are done already.

What brokers alone have (replicas, SCRAM users, leaders) is not there.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from log_format.errors import TidelogError
from tidelog.admin import Admin
from tidelog.compat.confluent_kafka.admin.requests import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tidelog.compat.confluent_kafka.errors import KafkaException, kafka_error, not_there
from tidelog.compat.confluent_kafka.message import TopicPartition
from tidelog.compat.confluent_kafka.metadata import ClusterMetadata, metadata_of
from tidelog.compat.confluent_kafka.settings import ADMIN, connection_of, number, settings_of

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


class AdminClient:
    """Administers topics and groups."""

    def __init__(self, conf: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        """Raises ``KafkaException`` for a setting that has no meaning here."""
        given = settings_of(ADMIN, conf, more)
        self._connection = connection_of(given)
        timeout_ms = number(given, "request.timeout.ms")
        settings: dict[str, Any] = {} if timeout_ms is None else {"timeout_ms": timeout_ms}
        self._admin = Admin(**self._connection, **settings)
        weakref.finalize(self, self._admin.close)  # there is no close in confluent-kafka

    def create_topics(self, new_topics: list[NewTopic], **options: Any) -> dict[str, Future[None]]:
        """Create them; -1 partitions is 1. ``TOPIC_ALREADY_EXISTS`` also for one with the same settings."""
        _refuse(options)
        return {
            topic.topic: _done(
                lambda topic=topic: self._admin.create_topic(topic.topic, max(1, topic.num_partitions), topic.config),  # type: ignore[misc]
                lambda _: None,
            )
            for topic in new_topics
        }

    def delete_topics(self, topics: list[str], **options: Any) -> dict[str, Future[None]]:
        """Delete them with their records."""
        _refuse(options)
        return _each(topics, self._admin.delete_topic)

    def create_partitions(self, new_partitions: list[NewPartitions], **options: Any) -> dict[str, Future[None]]:
        """Raise the numbers of partitions."""
        _refuse(options)
        counts = {each.topic: each.new_total_count for each in new_partitions}
        return _each(counts, lambda name: self._set(name, partition_count=counts[name]))

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The topics and their partitions."""
        return metadata_of(self._connection, topic, timeout)

    def describe_configs(
        self, resources: list[ConfigResource], **options: Any
    ) -> dict[ConfigResource, Future[dict[str, ConfigEntry]]]:
        """The settings of each topic, defaults included. No other resources."""
        _refuse(options)
        return _each(resources, self._settings)

    def alter_configs(self, resources: list[ConfigResource], **options: Any) -> dict[ConfigResource, Future[None]]:
        """Give topics these settings, and all others their defaults."""
        _refuse(options)

        def replace(resource: ConfigResource) -> None:
            before = dict.fromkeys(self._settings(resource))
            self._set(resource.name, config={**before, **resource.set_config_dict})

        return _each(resources, replace)

    def incremental_alter_configs(
        self, resources: list[ConfigResource], **options: Any
    ) -> dict[ConfigResource, Future[None]]:
        """Set what is named, and leave the rest as it is."""
        _refuse(options)

        def change(resource: ConfigResource) -> None:
            _only_topics(resource)
            config: dict[str, str | None] = {}
            for entry in resource.incremental_configs:
                if entry.incremental_operation not in {AlterConfigOpType.SET, AlterConfigOpType.DELETE, None}:
                    raise not_there(str(entry.incremental_operation))
                deleted = entry.incremental_operation is AlterConfigOpType.DELETE
                config[entry.name] = None if deleted else entry.value
            self._set(resource.name, config=config)

        return _each(resources, change)

    def delete_records(
        self, topic_partition_offsets: list[TopicPartition], **options: Any
    ) -> dict[TopicPartition, Future[DeletedRecords]]:
        """Delete what is below each offset; ``OFFSET_END``: all there is."""
        _refuse(options)
        return _each(
            topic_partition_offsets,
            lambda place: DeletedRecords(
                self._admin.delete_records(place.topic, {place.partition: place.offset})[place.partition]
            ),
        )

    def list_consumer_groups(self, **options: Any) -> Future[ListConsumerGroupsResult]:
        """The consumer groups."""
        del options
        return _done(self._admin.list_groups, lambda found: ListConsumerGroupsResult([each.group for each in found]))

    def delete_consumer_groups(self, group_ids: list[str], **options: Any) -> dict[str, Future[None]]:
        """Delete groups without live members, with their offsets."""
        _refuse(options)
        return _each(group_ids, self._admin.delete_group)

    def poll(self, timeout: float | None = None) -> int:
        """0: there are no callbacks."""
        del timeout
        return 0

    def _set(self, name: str, **changes: Any) -> None:
        self._admin.alter_topic(name, **changes)

    def _settings(self, resource: ConfigResource) -> dict[str, ConfigEntry]:
        _only_topics(resource)
        config = self._admin.describe_topic(resource.name).config
        return {name: ConfigEntry(name, str(value)) for name, value in config.items()}


class DeletedRecords:
    """Where the log begins now."""

    def __init__(self, low_watermark: int) -> None:
        self.low_watermark = low_watermark


class ListConsumerGroupsResult:
    """Groups: ``valid`` has one ``ConsumerGroupListing`` for each."""

    def __init__(self, groups: list[str]) -> None:
        self.valid = [ConsumerGroupListing(group) for group in groups]
        self.errors: list[KafkaException] = []


class ConsumerGroupListing:
    """A group."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.is_simple_consumer_group = False


def _each(keys: Iterable[_K], call: Callable[[_K], _T]) -> dict[_K, Future[_T]]:
    return {key: _done(lambda key=key: call(key), lambda found: found) for key in keys}  # type: ignore[misc]


def _done(call: Callable[[], Any], result: Callable[[Any], _T]) -> Future[_T]:
    """A future that is done: of the call's result, or of its error as ``KafkaException``."""
    future: Future[_T] = Future()
    try:
        future.set_result(result(call()))
    except TidelogError as error:
        future.set_exception(KafkaException(kafka_error(error)))
    except KafkaException as error:
        future.set_exception(error)
    return future


def _refuse(options: Mapping[str, Any]) -> None:
    if options.get("validate_only"):
        raise not_there("validate_only")


def _only_topics(resource: ConfigResource) -> None:
    if resource.restype is not ResourceType.TOPIC:
        raise not_there(f"settings of {resource.restype.name}")
