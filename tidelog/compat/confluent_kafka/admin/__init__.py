"""``AdminClient`` and what its calls take."""

from tidelog.compat.confluent_kafka.admin.client import AdminClient
from tidelog.compat.confluent_kafka.admin.requests import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from tidelog.compat.confluent_kafka.metadata import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata

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
