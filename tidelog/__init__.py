"""Tidelog's client: ``Producer``, ``Consumer`` and ``Admin``, over HTTP.

::

    from tidelog import Admin, Consumer, Producer

    with Admin() as admin:
        admin.create_topic("orders", partition_count=4, exist_ok=True)
    with Producer() as producer:
        producer.send("orders", "a value", key="user-7")
    for record in Consumer("orders", consumer_timeout_ms=1000):
        print(record.partition, record.offset, record.key, record.value)

The package needs neither Spark nor FastAPI nor boto3. pyarrow is optional (``pip install 'tidelog[arrow]'``): where it is
installed, it is imported on first use and makes the client faster. The errors are in ``tidelog.errors``. The client talks to
gateways by HTTP alone.
"""

from tidelog.installation import check_log_format
from tidelog.names_on_use import names_on_use

check_log_format()

TYPE_CHECKING = False  # as in ``typing``, whose import would take longer than the rest of this file
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
    from tidelog.types.erasure import Erasure
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
    from tidelog.types.queue import DroppedRange, DroppedRecords, Queue, QueuePartition
    from tidelog.types.record import PartitionRange, ProduceResult, Record, RecordMetadata, SentRecord, TopicPartition
    from tidelog.types.scheduled import DelayedRecord, ScheduledRecord
    from tidelog.types.share import NewShare, Share
    from tidelog.types.topic import (
        Cluster,
        DamagedTopic,
        FailingWrites,
        Gateway,
        Journals,
        Maintenance,
        Partition,
        PartitionOffsets,
        TableCommit,
        Topic,
        TopicColumn,
        TopicCommit,
        TopicList,
    )
    from tidelog.types.topic_summary import TopicSummaries, TopicSummary, TopicTotals
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
    "DamagedTopic",
    "DelayedRecord",
    "DroppedRange",
    "DroppedRecords",
    "Erasure",
    "FailingWrites",
    "Filter",
    "Gateway",
    "Group",
    "GroupLag",
    "GroupMember",
    "GroupMetadata",
    "GroupSummary",
    "Journals",
    "Maintenance",
    "NewAccessToken",
    "NewShare",
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
    "Share",
    "StoreCredentials",
    "TableCommit",
    "TidelogError",
    "TokenSecret",
    "Topic",
    "TopicColumn",
    "TopicCommit",
    "TopicLag",
    "TopicList",
    "TopicPartition",
    "TopicSummaries",
    "TopicSummary",
    "TopicTable",
    "TopicTotals",
    "TransactionChecker",
    "TransactionSummary",
    "__version__",
    "read_topic",
]

_NAMES: "Final" = {
    "log_format.errors": "TidelogError",
    "log_format.version": "__version__",
    "tidelog.admin": "Admin",
    "tidelog.calls.transactions": "OpenTransaction",
    "tidelog.consumer.consumer": "Consumer",
    "tidelog.consumer.read_topic": "read_topic",
    "tidelog.producer.producer": "Producer",
    "tidelog.producer.transaction_checker": "TransactionChecker",
    "tidelog.queues.consumer": "QueueConsumer",
    "tidelog.queues.record": "QueueRecord",
    "tidelog.types.access": "AccessDecision AccessToken Acl Caller NewAccessToken Quota Role StoreCredentials"
    " TokenSecret TopicTable",
    "tidelog.types.filter": "Filter",
    "tidelog.types.group": "CommittedOffset Group GroupLag GroupMember GroupMetadata GroupSummary OffsetAndMetadata"
    " PartitionLag TopicLag",
    "tidelog.types.share": "NewShare Share",
    "tidelog.types.queue": "DroppedRange DroppedRecords Queue QueuePartition",
    "tidelog.types.record": "PartitionRange ProduceResult Record RecordMetadata SentRecord TopicPartition",
    "tidelog.types.scheduled": "DelayedRecord ScheduledRecord",
    "tidelog.types.topic": "Cluster DamagedTopic FailingWrites Gateway Journals Maintenance Partition "
    "PartitionOffsets TableCommit Topic TopicColumn"
    " TopicCommit TopicList",
    "tidelog.types.topic_summary": "TopicSummaries TopicSummary TopicTotals",
    "tidelog.types.erasure": "Erasure",
    "tidelog.types.transaction": "TransactionSummary",
}
"""Exported names by module. A module is imported when one of its names is first used: ``import tidelog`` alone takes 1 ms."""

if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name because of ``__getattr__``
    __getattr__ = names_on_use(__name__, {name: module for module, names in _NAMES.items() for name in names.split()})
