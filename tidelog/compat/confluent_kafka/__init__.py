"""confluent-kafka's ``Producer``, ``Consumer`` and ``admin.AdminClient`` over Tidelog's HTTP API.

``from confluent_kafka import …`` becomes ``from tidelog.compat.confluent_kafka import …``, also for ``.admin``; the addresses
become those of gateways. docs/sdk.md says what is the same, and what is not there.
"""

from tidelog.compat.confluent_kafka.consumer import Consumer
from tidelog.compat.confluent_kafka.errors import KafkaError, KafkaException
from tidelog.compat.confluent_kafka.message import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Message,
    TopicPartition,
)
from tidelog.compat.confluent_kafka.producer import Producer

__all__ = [
    "OFFSET_BEGINNING",
    "OFFSET_END",
    "OFFSET_INVALID",
    "OFFSET_STORED",
    "TIMESTAMP_CREATE_TIME",
    "TIMESTAMP_LOG_APPEND_TIME",
    "TIMESTAMP_NOT_AVAILABLE",
    "Consumer",
    "KafkaError",
    "KafkaException",
    "Message",
    "Producer",
    "TopicPartition",
]
