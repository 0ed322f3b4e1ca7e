"""Tidelog's client: ``Producer``, ``Consumer`` and ``Admin``, over HTTP.

::

    from tidelog import Admin, Consumer, Producer

    with Admin() as admin:
        admin.create_topic("orders", partition_count=4, exist_ok=True)
    with Producer() as producer:
        producer.send("orders", "a value", key="user-7")
    for record in Consumer("orders", consumer_timeout_ms=1000):
        print(record.partition, record.offset, record.key, record.value)

Needs neither Spark nor FastAPI nor boto3; pyarrow makes it faster when it is there (``pip install 'tidelog[arrow]'``) and is
imported when it is first used. The errors are in ``tidelog.errors``. The gateway is reached by HTTP alone.
"""

from tidelog.installation import check_log_format

check_log_format()

from log_format.errors import TidelogError
from log_format.version import __version__
from tidelog.admin import Admin
from tidelog.consumer.consumer import Consumer
from tidelog.producer.producer import Producer
from tidelog.types.group import (
    CommittedOffset,
    Group,
    GroupLag,
    GroupMember,
    GroupMetadata,
    GroupSummary,
    PartitionLag,
    TopicLag,
)
from tidelog.types.record import PartitionRange, ProduceResult, Record, RecordMetadata, SentRecord, TopicPartition
from tidelog.types.topic import Cluster, Gateway, Journals, Partition, PartitionOffsets, Topic, TopicCommit

__all__ = [
    "Admin",
    "Cluster",
    "CommittedOffset",
    "Consumer",
    "Gateway",
    "Group",
    "GroupLag",
    "GroupMember",
    "GroupMetadata",
    "GroupSummary",
    "Journals",
    "Partition",
    "PartitionLag",
    "PartitionOffsets",
    "PartitionRange",
    "ProduceResult",
    "Producer",
    "Record",
    "RecordMetadata",
    "SentRecord",
    "TidelogError",
    "Topic",
    "TopicCommit",
    "TopicLag",
    "TopicPartition",
    "__version__",
]
