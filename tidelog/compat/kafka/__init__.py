"""kafka-python's ``KafkaProducer``, ``KafkaConsumer`` and ``KafkaAdminClient`` over Tidelog's HTTP API.

``from kafka import …`` becomes ``from tidelog.compat.kafka import …``, also for ``.admin``, ``.errors`` and ``.structs``; the
addresses become those of gateways. docs/sdk.md says what is the same, and what is not there.
"""

from tidelog.compat.kafka.admin.client import KafkaAdminClient
from tidelog.compat.kafka.consumer import ConsumerRebalanceListener, KafkaConsumer
from tidelog.compat.kafka.producer import KafkaProducer
from tidelog.compat.kafka.structs import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    TopicPartition,
)

__all__ = [
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TopicPartition",
]
