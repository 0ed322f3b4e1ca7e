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
from tidelog.names_on_use import names_on_use

check_log_format()

TYPE_CHECKING = False  # type checkers know the name; importing typing takes longer than all the rest of this file
if TYPE_CHECKING:
    from typing import Final

    from log_format.errors import TidelogError
    from log_format.version import __version__
    from tidelog.admin import Admin
    from tidelog.calls.transactions import OpenTransaction
    from tidelog.consumer.consumer import Consumer
    from tidelog.consumer.read_topic import read_topic
    from tidelog.producer.producer import Producer
    from tidelog.producer.transaction_checker import TransactionChecker
    from tidelog.queues.consumer import QueueConsumer
    from tidelog.queues.record import QueueRecord
    from tidelog.types.access import (
        AccessDecision,
        AccessToken,
        Acl,
        Caller,
        NewAccessToken,
        Quota,
        Role,
        StoreCredentials,
        TokenSecret,
        TopicTable,
    )
    from tidelog.types.filter import Filter
    from tidelog.types.group import (
        CommittedOffset,
        Group,
        GroupLag,
        GroupMember,
        GroupMetadata,
        GroupSummary,
        OffsetAndMetadata,
        PartitionLag,
        TopicLag,
    )
    from tidelog.types.queue import Queue, QueuePartition
    from tidelog.types.record import PartitionRange, ProduceResult, Record, RecordMetadata, SentRecord, TopicPartition
    from tidelog.types.scheduled import DelayedRecord, ScheduledRecord
    from tidelog.types.topic import Cluster, Gateway, Journals, Partition, PartitionOffsets, Topic, TopicCommit
    from tidelog.types.transaction import TransactionSummary

__all__ = [
    "AccessDecision",
    "AccessToken",
    "Acl",
    "Admin",
    "Caller",
    "Cluster",
    "CommittedOffset",
    "Consumer",
    "DelayedRecord",
    "Filter",
    "Gateway",
    "Group",
    "GroupLag",
    "GroupMember",
    "GroupMetadata",
    "GroupSummary",
    "Journals",
    "NewAccessToken",
    "OffsetAndMetadata",
    "OpenTransaction",
    "Partition",
    "PartitionLag",
    "PartitionOffsets",
    "PartitionRange",
    "ProduceResult",
    "Producer",
    "Queue",
    "QueueConsumer",
    "QueuePartition",
    "QueueRecord",
    "Quota",
    "Record",
    "RecordMetadata",
    "Role",
    "ScheduledRecord",
    "SentRecord",
    "StoreCredentials",
    "TidelogError",
    "TokenSecret",
    "Topic",
    "TopicCommit",
    "TopicLag",
    "TopicPartition",
    "TopicTable",
    "TransactionChecker",
    "TransactionSummary",
    "__version__",
    "read_topic",
]

_PLACES: "Final" = {
    "AccessDecision": "tidelog.types.access",
    "AccessToken": "tidelog.types.access",
    "Acl": "tidelog.types.access",
    "Admin": "tidelog.admin",
    "Caller": "tidelog.types.access",
    "Cluster": "tidelog.types.topic",
    "CommittedOffset": "tidelog.types.group",
    "Consumer": "tidelog.consumer.consumer",
    "DelayedRecord": "tidelog.types.scheduled",
    "Filter": "tidelog.types.filter",
    "Gateway": "tidelog.types.topic",
    "Group": "tidelog.types.group",
    "GroupLag": "tidelog.types.group",
    "GroupMember": "tidelog.types.group",
    "GroupMetadata": "tidelog.types.group",
    "GroupSummary": "tidelog.types.group",
    "Journals": "tidelog.types.topic",
    "OpenTransaction": "tidelog.calls.transactions",
    "NewAccessToken": "tidelog.types.access",
    "OffsetAndMetadata": "tidelog.types.group",
    "Partition": "tidelog.types.topic",
    "PartitionLag": "tidelog.types.group",
    "PartitionOffsets": "tidelog.types.topic",
    "PartitionRange": "tidelog.types.record",
    "ProduceResult": "tidelog.types.record",
    "Producer": "tidelog.producer.producer",
    "Queue": "tidelog.types.queue",
    "QueueConsumer": "tidelog.queues.consumer",
    "QueuePartition": "tidelog.types.queue",
    "QueueRecord": "tidelog.queues.record",
    "Quota": "tidelog.types.access",
    "Record": "tidelog.types.record",
    "RecordMetadata": "tidelog.types.record",
    "ScheduledRecord": "tidelog.types.scheduled",
    "Role": "tidelog.types.access",
    "SentRecord": "tidelog.types.record",
    "StoreCredentials": "tidelog.types.access",
    "TidelogError": "log_format.errors",
    "TokenSecret": "tidelog.types.access",
    "Topic": "tidelog.types.topic",
    "TopicCommit": "tidelog.types.topic",
    "TopicLag": "tidelog.types.group",
    "TopicPartition": "tidelog.types.record",
    "TransactionChecker": "tidelog.producer.transaction_checker",
    "TopicTable": "tidelog.types.access",
    "TransactionSummary": "tidelog.types.transaction",
    "__version__": "log_format.version",
    "read_topic": "tidelog.consumer.read_topic",
}
"""The module of each name. A module is imported when its name is first used: ``import tidelog`` alone takes 1 ms."""

if not TYPE_CHECKING:  # a type checker shall know the names, and no others
    __getattr__ = names_on_use(__name__, _PLACES)
