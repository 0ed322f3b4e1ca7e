"""``KafkaAdminClient`` and what its calls take."""

from tidelog.compat.kafka.admin.client import KafkaAdminClient
from tidelog.compat.kafka.admin.requests import ConfigResource, ConfigResourceType, NewPartitions, NewTopic

__all__ = ["ConfigResource", "ConfigResourceType", "KafkaAdminClient", "NewPartitions", "NewTopic"]
