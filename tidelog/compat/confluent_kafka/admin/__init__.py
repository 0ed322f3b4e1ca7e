"""``AdminClient`` and what its calls take."""

from tidelog.compat.confluent_kafka.admin.client import AdminClient
from tidelog.compat.confluent_kafka.admin.metadata import (
    BrokerMetadata,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
)
from tidelog.compat.confluent_kafka.admin.requests import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

__all__ = [
    "AdminClient",
    "AlterConfigOpType",
    "BrokerMetadata",
    "ClusterMetadata",
    "ConfigEntry",
    "ConfigResource",
    "NewPartitions",
    "NewTopic",
    "PartitionMetadata",
    "ResourceType",
    "TopicMetadata",
]
