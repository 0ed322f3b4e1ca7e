"""``KafkaAdminClient``, over the SDK's ``Admin``: topics, their settings and records, and groups.

What brokers alone have (replicas, log directories, features, SCRAM users) is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tidelog.admin import Admin
from tidelog.closing import Closing
from tidelog.compat.kafka.admin.requests import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from tidelog.compat.kafka.errors import KafkaError, UnsupportedVersionError, translated
from tidelog.compat.kafka.settings import ADMIN, connection_of, renamed
from tidelog.compat.kafka.structs import OffsetAndMetadata, TopicPartition, theirs
from tidelog.types import record as sdk


class KafkaAdminClient(Closing):
    """Administers topics and groups. Several topics in one call are several calls here: those before a failed one stand."""

    def __init__(self, **configs: Any) -> None:
        """Raises ``KafkaConfigurationError`` for a setting that has no meaning here."""
        settings = renamed(configs, {"request_timeout_ms": "request_timeout_ms"})
        self._admin = Admin(**connection_of(ADMIN, configs), **settings)

    def create_topics(
        self,
        new_topics: Sequence[NewTopic] | Mapping[str, Any],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
        wait_for_metadata: bool = False,
    ) -> dict[str, Any]:
        """Create them; -1 partitions is 1. Raises ``TopicAlreadyExistsError`` also for one with the same settings."""
        del timeout_ms, wait_for_metadata
        _refuse(validate_only, "validate_only")
        if isinstance(new_topics, Mapping):
            new_topics = [NewTopic(name, **(wanted or {})) for name, wanted in new_topics.items()]
        return self._each(
            {topic.name: topic for topic in new_topics},
            lambda name, topic: self._admin.create_topic(name, max(1, topic.num_partitions), topic.topic_configs),
            raise_errors,
        )

    def delete_topics(
        self, topics: Iterable[str], timeout_ms: float | None = None, raise_errors: bool = True
    ) -> dict[str, Any]:
        """Delete them with their records."""
        del timeout_ms
        return self._each(dict.fromkeys(topics), lambda name, _: self._admin.delete_topic(name), raise_errors)

    def list_topics(self) -> list[str]:
        """The names of all topics."""
        with translated():
            return [topic.name for topic in self._admin.list_topics()]

    def describe_topics(self, topics: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Names and partitions; leaders and replicas are the gateway's: there are none."""
        with translated():
            wanted = self._admin.list_topics() if topics is None else [self._admin.describe_topic(n) for n in topics]
        return [
            {
                "error_code": 0,
                "name": topic.name,
                "is_internal": topic.name.startswith("__"),
                "partitions": [
                    {"error_code": 0, "partition_index": number, "leader_id": 0, "replica_nodes": [0], "isr_nodes": [0]}
                    for number in range(topic.partition_count)
                ],
            }
            for topic in wanted
        ]

    def create_partitions(
        self,
        topic_partitions: Mapping[str, NewPartitions | int],
        timeout_ms: float | None = None,
        validate_only: bool = False,
        raise_errors: bool = True,
    ) -> dict[str, Any]:
        """Raise the numbers of partitions."""
        del timeout_ms
        _refuse(validate_only, "validate_only")
        return self._each(
            dict(topic_partitions),
            lambda name, new: self._admin.alter_topic(
                name, partition_count=new.total_count if isinstance(new, NewPartitions) else new
            ),
            raise_errors,
        )

    def describe_configs(
        self, config_resources: Iterable[ConfigResource], include_synonyms: bool = False, config_filter: str = "all"
    ) -> dict[str, dict[str, Any]]:
        """The settings of each topic, defaults included, as text. No other resources."""
        del include_synonyms, config_filter
        found = {}
        for resource in config_resources:
            _only_topics(resource)
            with translated():
                config = self._admin.describe_topic(resource.name).config
            wanted = list(config) if not resource.configs else [name for name in resource.configs if name in config]
            found[resource.name] = {name: str(config[name]) for name in wanted}
        return found

    def alter_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> None:
        """Set what is named, and leave the rest as it is. None: the default."""
        _refuse(validate_only, "validate_only")
        if incremental is False or not raise_on_unknown:
            raise UnsupportedVersionError("settings are altered one by one, and unknown ones are refused")
        for resource in config_resources:
            _only_topics(resource)
            with translated():
                self._admin.alter_topic(resource.name, config=_values(resource))

    def delete_records(
        self,
        records_to_delete: Mapping[TopicPartition, int],
        timeout_ms: float | None = None,
        partition_leader_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, int]]:
        """Delete what is below these offsets; -1: all there is."""
        del timeout_ms, partition_leader_id
        by_topic: dict[str, dict[int, int]] = {}
        for place, offset in records_to_delete.items():
            by_topic.setdefault(place[0], {})[place[1]] = offset
        deleted: dict[TopicPartition, dict[str, int]] = {}
        for topic, before in by_topic.items():
            with translated():
                starts = self._admin.delete_records(topic, before)
            deleted |= {
                TopicPartition(topic, number): {"low_watermark": offset, "error_code": 0}
                for number, offset in starts.items()
            }
        return deleted

    def list_groups(self, *_: object, **__: object) -> list[dict[str, Any]]:
        """The consumer groups."""
        with translated():
            groups = self._admin.list_groups()
        return [
            {"group_id": each.group, "protocol_type": "consumer", "group_state": each.state, "group_type": "classic"}
            for each in groups
        ]

    def list_group_offsets(
        self, group_specs: str | Mapping[str, Sequence[TopicPartition] | None] | Sequence[str]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """What groups have committed, by group."""
        specs: Mapping[str, Sequence[TopicPartition] | None]
        if isinstance(group_specs, Mapping):
            specs = group_specs
        else:
            specs = dict.fromkeys([group_specs] if isinstance(group_specs, str) else group_specs)
        found: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        for group, wanted in specs.items():
            with translated():
                offsets = self._admin.group_offsets(group)
            found[group] = {
                theirs(place): OffsetAndMetadata(each.offset, each.metadata or "")
                for place, each in offsets.items()
                if wanted is None or theirs(place) in {TopicPartition(*each[:2]) for each in wanted}
            }
        return found

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_coordinator_id: int | None = None,
    ) -> None:
        """Set where a group without live members goes on."""
        del group_coordinator_id
        places = {sdk.TopicPartition(*place[:2]): each.offset for place, each in offsets.items()}
        with translated():
            self._admin.commit_group_offsets(group_id, places)

    def delete_groups(self, group_ids: Iterable[str], group_coordinator_id: int | None = None) -> dict[str, Any]:
        """Delete groups without live members, with their offsets."""
        del group_coordinator_id
        return self._each(dict.fromkeys(group_ids), lambda name, _: self._admin.delete_group(name), True)

    def describe_cluster(self) -> dict[str, Any]:
        """The gateways, as brokers."""
        with translated():
            cluster = self._admin.cluster()
        brokers = [
            {"broker_id": number, "host": each.url, "id": each.id} for number, each in enumerate(cluster.gateways)
        ]
        return {"cluster_id": cluster.store, "brokers": brokers}

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def _each(self, wanted: Mapping[str, Any], call: Any, raise_errors: bool) -> dict[str, Any]:
        """What became of each; the first error is raised where that is asked for."""
        outcomes: dict[str, Any] = {}
        for name, what in wanted.items():
            try:
                with translated():
                    call(name, what)
                outcomes[name] = None
            except KafkaError as error:
                if raise_errors:
                    raise
                outcomes[name] = error
        return outcomes


def _refuse(given: bool, name: str) -> None:
    if given:
        raise UnsupportedVersionError(f"{name} is not to be had here")


def _only_topics(resource: ConfigResource) -> None:
    if resource.resource_type is not ConfigResourceType.TOPIC:
        raise UnsupportedVersionError(f"{resource.resource_type.name}: only topics have settings that clients can see")


def _values(resource: ConfigResource) -> dict[str, int | str | None]:
    if not isinstance(resource.configs, Mapping):
        raise TypeError("values are given as a mapping of names to text")
    return dict(resource.configs)
