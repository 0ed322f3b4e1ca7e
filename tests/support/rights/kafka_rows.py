"""The rows of Kafka's listener, by the names of its requests."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.rights import http_rows
from tests.support.rights.row import (
    ALTER_CLUSTER,
    ALTER_QUEUE,
    DELETE_GROUP,
    DELETE_QUEUE,
    DESCRIBE,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    DESCRIBE_QUEUE,
    DESCRIBE_TRANSACTIONS,
    OF_SUBJECT,
    READ,
    READ_GROUP,
    READ_QUEUE,
    TRANSACTING,
    WRITE,
    WRITE_LETTERS,
    WRITE_LETTERS_OF_NEW,
    Row,
)
from tests.support.rights.world import DENIED, Answer, World

CREATE: Final = ("Create", "topic", "{topic}-new")
ALTER: Final = ("Alter", "topic", "{topic}")
DELETE: Final = ("Delete", "topic", "{topic}")
READ_DEAD: Final = ("Read", "topic", "{dead}")
WRITE_DEAD: Final = ("Write", "topic", "{dead}")
_BATCH: Final = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
_BATCH.append(0, 1_700_000_000_000, None, b"x", [])
RECORDS: Final = bytes(_BATCH.build())

Values = dict[str, Any] | Callable[[World], dict[str, Any]]


def _row(name: str, version: int, *rights: Any, values: Values | None = None, **more: Any) -> Row:
    """A row whose call is one request; values that need the row's ids are a function."""

    def call(world: World) -> Answer:
        return world.kafka(name, version, **(values(world) if callable(values) else values or {}))

    return Row(operation=f"kafka {name}", rights=rights, call=call, **more)


def _id(world: World, name: str = "topic") -> uuid.UUID:
    return uuid.UUID(world.admin("GET", f"/v1/topics/{{{name}}}")["topic_id"])


def _told(world: World) -> None:
    """The gateway knows the topic's id, as it has told it."""
    world.may_all()
    world.kafka("metadata", 4, topics=_NAMED, allow_auto_topic_creation=False)


def _made_queue(world: World) -> None:
    """It reads another topic, and has a dead letter topic."""
    world.admin("PUT", "/v1/queues/{queue}", {"topics": ["{other}"], "dead_letter_topic": "{dead}"})


def _of_topic_only(world: World) -> None:
    world.admin("PUT", "/v1/queues/{queue}", {"topics": ["{topic}"], "start": "earliest", "lock_ms": 1000})


def _reading_group(world: World) -> None:
    world.admin("PUT", "/v1/groups/{group}/offsets", {"offsets": [{"topic": "{topic}", "partition": 0, "offset": 1}]})


def _subscribed(world: World) -> dict[str, Any]:
    return {
        "group_id": "{queue}",
        "member_id": str(uuid.uuid4()),
        "member_epoch": 0,
        "rack_id": None,
        "subscribed_topic_names": ["{topic}"],
    }


def _share_member(world: World) -> None:
    _of_topic_only(world)
    world.may_all()
    world.kafka("share_group_heartbeat", 1, **_subscribed(world))


def _share_fetch(world: World, epoch: int = 0) -> dict[str, Any]:
    partition = {"partition_index": 0, "acknowledgement_batches": []}
    return {
        "group_id": "{queue}",
        "member_id": "m",
        "share_session_epoch": epoch,
        "max_wait": 2000,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 1,
        "batch_size": 1,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
        "topics": [{"topic_id": _id(world), "partitions": [partition]}],
        "forgotten_topics_data": (),
    }


def _share_fetched(world: World) -> None:
    """A record is the connection's."""
    world.close()
    _share_member(world)
    world.admin("POST", "/v1/topics/{topic}/records", {"records": [{"value": "v"}]})
    world.held["wire"] = world.wire()
    world.held["answer"] = world.held["wire"].call("share_fetch", 2, **world.filled(_share_fetch(world)))


def _acknowledged(world: World) -> dict[str, Any]:
    (acquired,) = world.held["answer"].responses[0].partitions[0].acquired_records
    batch = {"first_offset": acquired.first_offset, "last_offset": acquired.first_offset, "acknowledge_types": (2,)}
    return {
        "group_id": "{queue}",
        "member_id": "m",
        "share_session_epoch": 1,
        "is_renew_ack": False,
        "topics": [
            {"topic_id": _id(world), "partitions": [{"partition_index": 0, "acknowledgement_batches": [batch]}]}
        ],
    }


def _producing(world: World) -> None:
    """A transactional producer of the caller's: its id and epoch."""
    world.may_all()
    with world.wire() as wire:
        made = wire.call(
            "init_producer_id", 4, transactional_id=world.names["tid"], transaction_timeout=60_000,
            producer_id=-1, producer_epoch=-1,
        )  # fmt: skip
    world.held["producer"] = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}


def _in_transaction(world: World) -> None:
    """Records of one topic, and offsets of a group for another, wait for the commit."""
    _begun(world)
    answer = world.kafka("produce", 9, **_produced(_transactional_records(world), "{tid}"))
    assert not answer.failures, answer
    answer = world.kafka("txn_offset_commit", 3, **_transactional_offsets(world))
    assert not answer.failures, answer


def _begun(world: World) -> None:
    _producing(world)
    answer = world.kafka("add_partitions_to_txn", 3, **_added(world))
    assert not answer.failures, answer


def _transactional_records(world: World) -> bytes:
    batch = DefaultRecordBatchBuilder(2, 0, 1, *world.held["producer"].values(), 0, 1 << 20)
    batch.append(0, 1_700_000_000_000, None, b"x", [])
    return bytes(batch.build())


def _added(world: World) -> dict[str, Any]:
    producer = {f"v3_and_below_{name}": value for name, value in world.held["producer"].items()}
    topics = [{"name": "{topic}", "partitions": [0]}]
    return producer | {"v3_and_below_transactional_id": "{tid}", "v3_and_below_topics": topics}


def _offset(name: str = "{topic}", **more: Any) -> list[dict[str, Any]]:
    one = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1, "committed_metadata": None}
    return [{"name": name, "partitions": [one], **more}]


def _transactional_offsets(world: World) -> dict[str, Any]:
    member = {"generation_id": -1, "member_id": "", "group_instance_id": None}
    producer: dict[str, Any] = world.held["producer"]
    return producer | member | _TRANSACTIONAL | {"group_id": "{group}", "topics": _offset("{dead}")}


def _produced(records: bytes = RECORDS, transactional_id: str | None = None) -> dict[str, Any]:
    data = {"name": "{topic}", "partition_data": [{"index": 0, "records": records}]}
    return {"transactional_id": transactional_id, "acks": -1, "timeout": 1000, "topic_data": [data]}


def _fetched(**topic: Any) -> dict[str, Any]:
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1000, "replica_id": -1, "rack_id": ""}
    return limits | {"forgotten_topics_data": (), "topics": [topic | {"partitions": [place]}]}


def _with_producer(values: dict[str, Any]) -> Callable[[World], dict[str, Any]]:
    return lambda world: world.held["producer"] | values


def _described_transaction(world: World) -> Answer:
    """kio can't read the answer: it knows no time below 0, as there is of a transaction that is over."""
    with world.wire() as wire:
        wire.ask("describe_transactions", 0, transactional_ids=[world.names["tid"]])
        frame = wire.frame()
    code = KafkaError(int.from_bytes(frame[_HEAD_BYTES : _HEAD_BYTES + 2], "big"))
    return Answer(repr(frame), (code,) if code in DENIED.values() else ())


def _logged_in(world: World) -> Answer:
    world.wire().socket.close()
    return Answer("")


_HEAD_BYTES: Final = 4 + 1 + 4 + 1
"""The correlation id, no tags, the throttle time, the number of transactions."""
_TRANSACTIONAL: Final = {"transactional_id": "{tid}"}
_NEW: Final = {"name": "{topic}-new", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
_OF_TOPIC: Final = {"resource_type": 2, "resource_name": "{topic}"}
_OF_QUEUE: Final = {"resource_type": 32, "resource_name": "{queue}"}
_OF_BROKER: Final = {"resource_type": 4, "resource_name": "", "configuration_keys": None}
_OF_SCHEMA: Final = {"name": "tidelog.value.schema", "value": "{topic}-value"}
_LETTERS: Final = {"name": "tidelog.data.on.error", "value": "dead-letter"}
_SETTING: Final = {"name": "retention.ms", "value": "604800001"}
_OF_SHARES: Final = {"name": "share.record.lock.duration.ms", "value": "20000", "config_operation": 0}
_ANY: Final = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "host_filter": None,
               "principal_filter": "User:nobody", "operation": 1, "permission_type": 1}  # fmt: skip
_ACL: Final = {"resource_type": 2, "resource_name": "x", "resource_pattern_type": 3, "principal": "User:nobody", "host": "*",
               "operation": 3, "permission_type": 3}  # fmt: skip
_QUOTA: Final = {"entity": ({"entity_type": "user", "entity_name": "nobody"},),
                 "ops": ({"key": "producer_byte_rate", "value": 1e6, "remove": False},)}  # fmt: skip
_ME: Final = {"group_id": "{group}", "generation_id": 1, "member_id": "m"}
_JOIN: Final = {"group_id": "{group}", "session_timeout": 20_000, "rebalance_timeout": 20_000, "member_id": "m",
                "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}  # fmt: skip
_COMMIT: Final = {"group_id": "{group}", "generation_id_or_member_epoch": -1, "member_id": ""}
_BEAT: Final = {"group_id": "{group}", "member_epoch": 0, "topic_partitions": [], "subscribed_topic_names": ["{topic}"]}
_ADDED: Final = [{"topic_name": "{topic}", "partitions": [{"partition_index": 0, "start_offset": 0}]}]
_TIME: Final = [{"name": "{topic}", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
_EPOCH: Final = [{"topic": "{topic}", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
_DELETED: Final = [{"name": "{topic}", "partitions": [{"partition_index": 0, "offset": 0}]}]
_MORE: Final = [{"name": "{topic}", "count": 2, "assignments": None}]
_CLUSTER: Final = {"include_cluster_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": False}
_NAMED: Final = [{"name": "{topic}", "topic_id": None}]


ROWS: Final = (
    _row("produce", 9, WRITE, values=_produced()),
    _row("produce", 9, WRITE, TRANSACTING, what="in a transaction", prepare=_begun,
         values=lambda world: _produced(_transactional_records(world), "{tid}")),
    _row("fetch", 12, READ, values=_fetched(topic="{topic}")),
    _row("fetch", 13, READ, what="by id", prepare=_told, values=lambda world: _fetched(topic_id=_id(world))),
    _row("list_offsets", 7, DESCRIBE, values={"replica_id": -1, "isolation_level": 0, "topics": _TIME}),
    _row("offset_for_leader_epoch", 4, DESCRIBE, values={"replica_id": -1, "topics": _EPOCH}),
    _row("metadata", 4, DESCRIBE, values={"topics": _NAMED, "allow_auto_topic_creation": False}),
    _row("metadata", 4, what="all", values={"topics": None}, shows=((DESCRIBE, "{topic}"),)),
    _row("metadata", 4, ("Describe", "topic", "{topic}-new"), CREATE, what="makes one",
         values={"topics": [{"name": "{topic}-new", "topic_id": None}], "allow_auto_topic_creation": True}),
    _row("describe_topic_partitions", 0, DESCRIBE,
         values={"topics": [{"name": "{topic}"}], "response_partition_limit": 9, "cursor": None}),
    _row("describe_topic_partitions", 0, what="all", shows=((DESCRIBE, "{topic}"),),
         values={"topics": (), "response_partition_limit": 2000, "cursor": None}),
    _row("offset_commit", 8, READ_GROUP, READ, values=_COMMIT | {"topics": _offset()}),
    _row("offset_commit", 10, READ_GROUP, READ, what="by id", prepare=_told,
         values=lambda world: _COMMIT | {"topics": [_offset()[0] | {"topic_id": _id(world)}]}),
    _row("offset_fetch", 8, DESCRIBE_GROUP, prepare=_reading_group, shows=((DESCRIBE, "{topic}"),),
         values={"groups": [{"group_id": "{group}", "topics": None}]}),
    _row("offset_fetch", 8, DESCRIBE_GROUP, DESCRIBE, what="named",
         values={"groups": [{"group_id": "{group}", "topics": [{"name": "{topic}", "partition_indexes": [0]}]}]}),
    _row("offset_delete", 0, DELETE_GROUP, READ, prepare=_reading_group,
         values={"group_id": "{group}", "topics": [{"name": "{topic}", "partitions": [{"partition_index": 0}]}]}),
    _row("find_coordinator", 4, DESCRIBE_GROUP, values={"key_type": 0, "coordinator_keys": ["{group}"]}),
    _row("find_coordinator", 4, DESCRIBE_TRANSACTIONS, what="of a transactional id",
         values={"key_type": 1, "coordinator_keys": ["{tid}"]}),
    _row("join_group", 3, READ_GROUP, values=_JOIN, may_fail=True),
    _row("sync_group", 5, READ_GROUP, values=_ME | {"assignments": []}, may_fail=True),
    _row("heartbeat", 4, READ_GROUP, values=_ME, may_fail=True),
    _row("leave_group", 5, READ_GROUP, values={"group_id": "{group}", "members": []}),
    _row("describe_groups", 5, DESCRIBE_GROUP, prepare=http_rows.joined, shows=((DESCRIBE, "{topic}"),),
         values={"groups": ["{group}"], "include_authorized_operations": False}),
    _row("consumer_group_describe", 1, DESCRIBE_GROUP, prepare=http_rows.joined, shows=((DESCRIBE, "{topic}"),),
         values={"group_ids": ["{group}"], "include_authorized_operations": False}),
    _row("consumer_group_heartbeat", 1, READ_GROUP, READ, values=lambda _: _BEAT | {"member_id": str(uuid.uuid4())}),
    _row("list_groups", 5, prepare=_reading_group, shows=((DESCRIBE_GROUP, "{group}"),),
         values={"states_filter": (), "types_filter": ()}),
    _row("list_groups", 5, what="of queues", prepare=_made_queue, shows=((DESCRIBE_QUEUE, "{queue}"),),
         values={"states_filter": (), "types_filter": ()}),
    _row("delete_groups", 2, DELETE_GROUP, prepare=_reading_group, values={"groups_names": ["{group}"]}),
    _row("delete_groups", 2, DELETE_QUEUE, what="a queue", prepare=_made_queue, values={"groups_names": ["{queue}"]}),
    _row("create_topics", 7, CREATE, values={"topics": [_NEW]}),
    _row("create_topics", 7, CREATE, WRITE_LETTERS_OF_NEW, what="with dead letters",
         values={"topics": [_NEW | {"configs": [_LETTERS]}]}),
    _row("create_topics", 7, CREATE, *OF_SUBJECT, what="with a schema", prepare=http_rows.referring,
         values={"topics": [_NEW | {"configs": [_OF_SCHEMA]}]}),
    _row("delete_topics", 6, DELETE, values={"topics": _NAMED, "timeout": 0}),
    _row("delete_topics", 6, DELETE, what="by id", prepare=_told, unknown=KafkaError.unknown_topic_id,
         values=lambda world: {"topics": [{"name": None, "topic_id": _id(world)}], "timeout": 0}),
    _row("delete_records", 2, DELETE, values={"topics": _DELETED, "timeout": 0}),
    _row("create_partitions", 3, ALTER, values={"topics": _MORE, "timeout": 0, "validate_only": False}),
    _row("describe_configs", 4, DESCRIBE, values={"resources": [_OF_TOPIC | {"configuration_keys": None}]}),
    _row("describe_configs", 4, DESCRIBE_QUEUE, what="of a queue",
         values={"resources": [_OF_QUEUE | {"configuration_keys": None}]}),
    _row("describe_configs", 1, DESCRIBE_CLUSTER, what="of a broker", values={"resources": [_OF_BROKER]}),
    _row("alter_configs", 2, ALTER, values={"resources": [_OF_TOPIC | {"configs": [_SETTING]}], "validate_only": False}),
    _row("incremental_alter_configs", 1, ALTER,
         values={"resources": [_OF_TOPIC | {"configs": [_SETTING | {"config_operation": 0}]}], "validate_only": False}),
    _row("alter_configs", 2, ALTER, WRITE_LETTERS, what="to dead letters",
         values={"resources": [_OF_TOPIC | {"configs": [_LETTERS]}], "validate_only": False}),
    _row("incremental_alter_configs", 1, ALTER, WRITE_LETTERS, what="to dead letters",
         values={"resources": [_OF_TOPIC | {"configs": [_LETTERS | {"config_operation": 0}]}], "validate_only": False}),
    _row("alter_configs", 2, ALTER, *OF_SUBJECT, what="to a schema", prepare=http_rows.referring,
         values={"resources": [_OF_TOPIC | {"configs": [_OF_SCHEMA]}], "validate_only": False}),
    _row("incremental_alter_configs", 1, ALTER, *OF_SUBJECT, what="to a schema", prepare=http_rows.referring,
         values={"resources": [_OF_TOPIC | {"configs": [_OF_SCHEMA | {"config_operation": 0}]}], "validate_only": False}),
    _row("incremental_alter_configs", 1, ALTER_QUEUE, what="of a queue", prepare=_made_queue,
         values={"resources": [_OF_QUEUE | {"configs": [_OF_SHARES]}], "validate_only": False}),
    _row("describe_log_dirs", 4, DESCRIBE_CLUSTER, values={"topics": None}, shows=((DESCRIBE, "{topic}"),)),
    _row("elect_leaders", 2, ALTER_CLUSTER, values={"election_type": 0, "topic_partitions": None}),
    _row("list_partition_reassignments", 0, values={"topics": None}),
    _row("describe_cluster", 2, values=_CLUSTER),
    _row("describe_acls", 3, ALTER_CLUSTER, values=_ANY),
    _row("create_acls", 3, ALTER_CLUSTER, values={"creations": [_ACL]}),
    _row("delete_acls", 3, ALTER_CLUSTER, values={"filters": [_ANY]}),
    _row("describe_client_quotas", 1, ALTER_CLUSTER, values={"components": (), "strict": False}),
    _row("alter_client_quotas", 1, ALTER_CLUSTER, values={"entries": [_QUOTA], "validate_only": False}),
    _row("describe_user_scram_credentials", 0, values={"users": None}),
    _row("describe_producers", 0, READ, values={"topics": [{"name": "{topic}", "partition_indexes": [0]}]}),
    _row("init_producer_id", 4, TRANSACTING,
         values=_TRANSACTIONAL | {"transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}),
    _row("add_partitions_to_txn", 3, TRANSACTING, WRITE, prepare=_producing, values=_added),
    _row("add_offsets_to_txn", 3, TRANSACTING, READ_GROUP, prepare=_producing,
         values=_with_producer(_TRANSACTIONAL | {"group_id": "{group}"})),
    _row("txn_offset_commit", 3, TRANSACTING, READ_GROUP, READ_DEAD, prepare=_in_transaction, values=_transactional_offsets),
    _row("end_txn", 3, TRANSACTING, WRITE, READ_GROUP, READ_DEAD, prepare=_in_transaction,
         values=_with_producer(_TRANSACTIONAL | {"committed": True})),
    _row("end_txn", 3, TRANSACTING, what="aborts", prepare=_in_transaction, gives_back=("group",),
         values=_with_producer(_TRANSACTIONAL | {"committed": False})),
    Row(operation="kafka describe_transactions", rights=(DESCRIBE_TRANSACTIONS,), shows=((DESCRIBE, "{topic}"),),
        prepare=http_rows.committed, call=_described_transaction),
    _row("list_transactions", 1, prepare=_producing, shows=((DESCRIBE_TRANSACTIONS, "{tid}"),),
         values={"state_filters": (), "producer_id_filters": (), "duration_filter": -1}),
    _row("share_group_heartbeat", 1, READ_QUEUE, READ, values=_subscribed),
    _row("share_group_heartbeat", 1, READ_QUEUE, ALTER_QUEUE, READ, WRITE_DEAD, what="adds a topic to a queue",
         prepare=_made_queue, values=_subscribed),
    _row("share_group_describe", 1, DESCRIBE_QUEUE, prepare=_share_member, shows=((DESCRIBE, "{topic}"),),
         values={"group_ids": ["{queue}"], "include_authorized_operations": False}),
    _row("share_fetch", 2, READ_QUEUE, READ, prepare=_of_topic_only, values=_share_fetch),
    _row("share_acknowledge", 2, READ_QUEUE, READ, prepare=_share_fetched, values=_acknowledged),
    _row("describe_share_group_offsets", 1, DESCRIBE_QUEUE, prepare=_of_topic_only, shows=((DESCRIBE, "{topic}"),),
         values={"groups": [{"group_id": "{queue}", "topics": None}]}),
    _row("alter_share_group_offsets", 0, READ_QUEUE, READ, prepare=_of_topic_only,
         values={"group_id": "{queue}", "topics": _ADDED}),
    _row("alter_share_group_offsets", 0, READ_QUEUE, ALTER_QUEUE, READ, WRITE_DEAD, what="adds a topic to a queue",
         prepare=_made_queue, values={"group_id": "{queue}", "topics": _ADDED}),
    _row("delete_share_group_offsets", 0, DELETE_QUEUE, READ, prepare=_of_topic_only,
         values={"group_id": "{queue}", "topics": [{"topic_name": "{topic}"}]}),
    Row(operation="kafka api_versions", call=_logged_in),
    Row(operation="kafka sasl_handshake", call=_logged_in),
    Row(operation="kafka sasl_authenticate", call=_logged_in),
)  # fmt: skip
