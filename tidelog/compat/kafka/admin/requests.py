"""What calls of ``KafkaAdminClient`` take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum


class NewTopic:
    """A topic to create. The store copies it; a replication factor changes nothing."""

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        if replica_assignments:
            raise ValueError("replica_assignments: there are no replicas to assign")
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.topic_configs = dict(topic_configs or {})


class NewPartitions:
    """How many partitions a topic shall have."""

    def __init__(self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None) -> None:
        if new_assignments:
            raise ValueError("new_assignments: there are no replicas to assign")
        self.total_count = total_count


class ConfigResourceType(IntEnum):
    """What has settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource:
    """Settings of something, here of a topic: names to describe, or values to set."""

    def __init__(
        self,
        resource_type: ConfigResourceType | str,
        name: str,
        configs: Mapping[str, str | None] | Sequence[str] | None = None,
    ) -> None:
        self.resource_type = (
            resource_type
            if isinstance(resource_type, ConfigResourceType)
            else ConfigResourceType[str(resource_type).upper()]
        )
        self.name = name
        self.configs = configs
