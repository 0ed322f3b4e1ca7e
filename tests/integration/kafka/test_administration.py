"""Topics, settings and records by Kafka's administrators, unmodified, mean what they mean over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource as KafkaResource
from kafka.admin import ConfigResourceType
from kafka.admin import NewPartitions as KafkaPartitions
from kafka.admin import NewTopic as KafkaTopic
from kafka.errors import TopicAlreadyExistsError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway

NONE, OUT_OF_RANGE, UNKNOWN_TOPIC, INVALID_TOPIC, EXISTS = 0, 1, 3, 17, 36
INVALID_PARTITIONS, INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_ID = 37, 40, 42, 100


@pytest.fixture
def librdkafka(gateway: KafkaGateway) -> AdminClient:
    return AdminClient({"bootstrap.servers": gateway.kafka})


@pytest.fixture
def python(gateway: KafkaGateway) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=gateway.kafka)
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def _http(gateway: KafkaGateway, name: str) -> Any:
    return gateway.http.get(f"/v1/topics/{name}").json()


def test_librdkafkas_administrator_makes_changes_and_deletes_topics(
    gateway: KafkaGateway, librdkafka: AdminClient, name: str
) -> None:
    """What librdkafka asks for is what HTTP then shows."""
    config = {"retention.ms": "3600000", "cleanup.policy": "delete,compact", "segment.bytes": "1048576"}
    librdkafka.create_topics([NewTopic(name, 3, 3, config=config)])[name].result(30)
    made = _http(gateway, name)
    assert (made["partition_count"], made["config"]["retention.ms"]) == (3, 3_600_000)
    assert made["config"]["cleanup.policy"] == "compact,delete"

    with pytest.raises(KafkaException) as again:
        librdkafka.create_topics([NewTopic(name, 3, 1)])[name].result(30)
    assert again.value.args[0].code() == EXISTS

    librdkafka.create_partitions([NewPartitions(name, 5)])[name].result(30)
    assert _http(gateway, name)["partition_count"] == 5

    changes = [
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SUBTRACT),
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("max.message.bytes", "5000", incremental_operation=AlterConfigOpType.SET),
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=changes)
    librdkafka.incremental_alter_configs([resource])[resource].result(30)
    altered = _http(gateway, name)["config"]
    assert (altered["cleanup.policy"], altered["retention.ms"], altered["max.message.bytes"]) == (
        "delete",
        604_800_000,
        5000,
    )

    asked = ConfigResource(ConfigResource.Type.TOPIC, name)
    told = librdkafka.describe_configs([asked])[asked].result(30)
    assert {key for key, one in told.items() if not one.is_default} == {"cleanup.policy", "max.message.bytes"}
    assert told["segment.bytes"].value == "1073741824"

    librdkafka.delete_topics([name])[name].result(30)
    assert gateway.http.get(f"/v1/topics/{name}").status_code == 404


def test_kafka_pythons_administrator_makes_changes_and_deletes_topics(
    gateway: KafkaGateway, python: KafkaAdminClient, name: str
) -> None:
    """What kafka-python asks for is what HTTP then shows."""
    python.create_topics([KafkaTopic(name, 2, 1, topic_configs={"retention.bytes": "1000"})])
    assert _http(gateway, name)["config"]["retention.bytes"] == 1000
    with pytest.raises(TopicAlreadyExistsError):
        python.create_topics([KafkaTopic(name, 2, 1)])
    python.create_partitions({name: KafkaPartitions(4)})
    assert _http(gateway, name)["partition_count"] == 4
    python.alter_configs([KafkaResource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "7"})])
    assert _http(gateway, name)["config"]["retention.ms"] == 7
    assert name in python.list_topics()
    python.delete_topics([name])
    assert gateway.http.get(f"/v1/topics/{name}").status_code == 404


def test_records_are_deleted_and_what_is_wrong_leaves_the_other_partitions(
    gateway: KafkaGateway, librdkafka: AdminClient, name: str
) -> None:
    """Log starts move where they can; the one beyond the end is told."""
    gateway.topic(name, 3)
    for partition in range(3):
        assert gateway.produce(name, "a", "b", "c", partition=partition).status_code == 200
    before = [TopicPartition(name, 0, 2), TopicPartition(name, 1, -1), TopicPartition(name, 2, 9)]
    done = librdkafka.delete_records(before)
    low = {one.partition: done[one].result(30).low_watermark for one in before[:2]}
    assert low == {0: 2, 1: 3}
    with pytest.raises(KafkaException) as beyond:
        done[before[2]].result(30)
    assert beyond.value.args[0].code() == OUT_OF_RANGE
    starts = [one["log_start_offset"] for one in _http(gateway, name)["partitions"]]
    assert starts == [2, 3, 0]


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_makes_topics_each_by_itself(wire: Wire, name: str, version: int) -> None:
    """Nine topics of one request: three are made, each other one has its own error and words."""
    names: dict[str, dict[str, Any]] = {
        f"{name}.ok": {"num_partitions": 2},
        f"{name}.default": {"num_partitions": -1},
        f"{name}.assigned": {
            "num_partitions": -1,
            "assignments": [{"partition_index": index, "broker_ids": (7,)} for index in (1, 0, 2)],
        },
        f"{name}.none": {"num_partitions": 0},
        f"{name}.many": {"num_partitions": 10_001},
        f"{name}.gap": {"num_partitions": -1, "assignments": [{"partition_index": 1, "broker_ids": (7,)}]},
        "no/name": {"num_partitions": 1},
        f"{name}.config": {"num_partitions": 1, "configs": [{"name": "no.such", "value": "1"}]},
        f"{name}.value": {"num_partitions": 1, "configs": [{"name": "retention.ms", "value": "soon"}]},
    }
    answer = wire.call(
        "create_topics",
        version,
        topics=[
            {"name": topic, "replication_factor": 3, "assignments": (), "configs": ()} | given
            for topic, given in names.items()
        ],
        timeout=1000,
        validate_only=False,
    )
    codes = {one.name: one.error_code for one in answer.topics}
    assert list(codes.values()) == [
        NONE, NONE, NONE, INVALID_PARTITIONS, INVALID_PARTITIONS, INVALID_REQUEST, INVALID_TOPIC, INVALID_CONFIG,
        INVALID_CONFIG,
    ]  # fmt: skip
    if version >= 5:
        made = answer.topics[0]
        assert (made.num_partitions, made.replication_factor) == (2, 1)
        assert {one.name for one in made.configs} >= {"retention.ms", "tidelog.flush.ms"}
        assert [one.num_partitions for one in answer.topics[:3]] == [2, 1, 3]
    words = [one.error_message for one in answer.topics]
    assert words[0] is None
    assert "no.such is not a setting" in words[7]
    assert "retention.ms must be an integer" in words[8]


def test_nothing_is_made_where_only_validation_is_asked(gateway: KafkaGateway, wire: Wire, name: str) -> None:
    """The answers are those of the change, which does not happen."""
    gateway.topic(name)
    topics = [
        {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
        for topic in (name, f"{name}-new")
    ]
    answer = wire.call("create_topics", 7, topics=topics, validate_only=True)
    assert [one.error_code for one in answer.topics] == [EXISTS, NONE]
    assert gateway.http.get(f"/v1/topics/{name}-new").status_code == 404
    answer = wire.call("create_partitions", 3, topics=[{"name": name, "count": 9, "assignments": None}], timeout=0,
                       validate_only=True)  # fmt: skip
    assert answer.results[0].error_code == NONE
    configs = [{"name": "retention.ms", "config_operation": 0, "value": "1"}]
    resources = [{"resource_type": 2, "resource_name": name, "configs": configs}]
    answer = wire.call("incremental_alter_configs", 1, resources=resources, validate_only=True)
    assert answer.responses[0].error_code == NONE
    after = _http(gateway, name)
    assert (after["partition_count"], after["config"]["retention.ms"]) == (1, 604_800_000)


def test_a_topic_named_twice_is_refused_and_not_made(gateway: KafkaGateway, wire: Wire, name: str) -> None:
    """Which of the two is meant can't be known."""
    one = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    answer = wire.call("create_topics", 7, topics=[one, one])
    assert {topic.error_code for topic in answer.topics} == {INVALID_REQUEST}
    assert gateway.http.get(f"/v1/topics/{name}").status_code == 404


def test_topics_are_deleted_by_name_and_by_id(gateway: KafkaGateway, wire: Wire, name: str) -> None:
    """The id of a topic names it and no other."""
    names = [f"{name}.{kind}" for kind in "abc"]
    for topic in names:
        gateway.topic(topic)
    asked = [{"name": names[1], "topic_id": None}]
    (made,) = wire.call("metadata", 12, topics=asked, include_topic_authorized_operations=False).topics
    assert wire.call("delete_topics", 5, topic_names=names[:1], timeout=1000).responses[0].error_code == NONE
    wanted = [{"name": None, "topic_id": made.topic_id}, {"name": names[2], "topic_id": None}]
    wanted.append({"name": None, "topic_id": uuid.uuid4()})
    answer = wire.call("delete_topics", 6, topics=wanted, timeout=1000)
    assert [one.error_code for one in answer.responses] == [NONE, NONE, UNKNOWN_ID]
    assert [one.name for one in answer.responses[:2]] == names[1:]
    assert not set(names) & {one["name"] for one in gateway.http.get("/v1/topics").json()["topics"]}


@pytest.mark.parametrize("count", [1, 2, 10_001, -1])
def test_partitions_are_only_added(gateway: KafkaGateway, wire: Wire, name: str, count: int) -> None:
    """A count that is not above the present one, or too large, changes nothing in any version."""
    gateway.topic(name, 2)
    for version in range(4):
        topics = [{"name": name, "count": count, "assignments": None}]
        answer = wire.call("create_partitions", version, topics=topics, timeout=1000, validate_only=False)
        assert answer.results[0].error_code == INVALID_PARTITIONS
    assert _http(gateway, name)["partition_count"] == 2


@pytest.mark.parametrize("version", range(1, 5))
def test_settings_are_told_in_every_version(gateway: KafkaGateway, wire: Wire, name: str, version: int) -> None:
    """Each with its source, its default beside it; what can't be told fails by itself."""
    gateway.topic(name, retention_ms=5)
    resources = [
        {"resource_type": 2, "resource_name": name, "configuration_keys": None},
        {"resource_type": 2, "resource_name": name, "configuration_keys": ("retention.ms", "no.such")},
        {"resource_type": 2, "resource_name": f"{name}-none", "configuration_keys": None},
        {"resource_type": 99, "resource_name": name, "configuration_keys": None},
        {"resource_type": 4, "resource_name": "77", "configuration_keys": None},
    ]
    answer = wire.call("describe_configs", version, resources=resources, include_synonyms=True)
    assert [one.error_code for one in answer.results] == [NONE, NONE, UNKNOWN_TOPIC, INVALID_REQUEST, INVALID_REQUEST]
    (retention,) = answer.results[1].configs
    assert (retention.name, retention.value, retention.config_source) == ("retention.ms", "5", 1)
    assert [(one.value, one.source) for one in retention.synonyms] == [("5", 1), ("604800000", 5)]
    assert {"segment.bytes", "tidelog.flush.ms", "flush.ms"} <= {one.name for one in answer.results[0].configs}


@pytest.mark.parametrize("version", range(3))
def test_all_settings_are_replaced_by_the_older_call(
    gateway: KafkaGateway, wire: Wire, name: str, version: int
) -> None:
    """AlterConfigs restores the default of what it does not name."""
    gateway.topic(name, retention_ms=5, max_message_bytes=77)
    configs = [{"name": "retention.ms", "value": "9"}, {"name": "tidelog.flush.ms", "value": "11"}]
    resources = [{"resource_type": 2, "resource_name": name, "configs": configs}]
    answer = wire.call("alter_configs", version, resources=resources, validate_only=False)
    assert answer.responses[0].error_code == NONE
    config = _http(gateway, name)["config"]
    assert (config["retention.ms"], config["flush.ms"], config["max.message.bytes"]) == (9, 11, 1_048_576)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": "preallocate", "config_operation": 0, "value": "true"}, INVALID_CONFIG),
        ({"name": "preallocate", "config_operation": 0, "value": "false"}, NONE),
        ({"name": "preallocate", "config_operation": 1, "value": None}, NONE),
        ({"name": "segment.ms", "config_operation": 0, "value": "1"}, NONE),
        ({"name": "flush.ms", "config_operation": 0, "value": "1"}, INVALID_CONFIG),
        ({"name": "retention.ms", "config_operation": 2, "value": "1"}, INVALID_REQUEST),
        ({"name": "retention.ms", "config_operation": 9, "value": "1"}, INVALID_REQUEST),
        ({"name": "retention.ms", "config_operation": 0, "value": None}, INVALID_REQUEST),
    ],
)
def test_a_setting_without_meaning_is_never_taken_silently(
    gateway: KafkaGateway, wire: Wire, name: str, change: dict[str, Any], code: int
) -> None:
    """A refused setting changes nothing and has words; an ignored one changes nothing either."""
    gateway.topic(name)
    before = _http(gateway, name)["config"]
    for version in range(2):
        resources = [{"resource_type": 2, "resource_name": name, "configs": [change]}]
        answer = wire.call("incremental_alter_configs", version, resources=resources, validate_only=False)
        assert answer.responses[0].error_code == code, answer.responses[0].error_message
        assert (answer.responses[0].error_message is None) == (code == NONE)
    assert _http(gateway, name)["config"] == before


def test_a_brokers_settings_are_told_and_not_altered(gateway: KafkaGateway, wire: Wire) -> None:
    """A client can't change how a gateway runs."""
    (broker,) = wire.call("describe_cluster", 0, include_cluster_authorized_operations=True).brokers
    resource = {"resource_type": 4, "resource_name": str(broker.broker_id)}
    told = wire.call("describe_configs", 4, resources=[resource | {"configuration_keys": None}]).results[0]
    values = {one.name: one.value for one in told.configs}
    assert values["default.replication.factor"] == "1"
    assert all(one.read_only for one in told.configs)
    configs = [{"name": "num.partitions", "config_operation": 0, "value": "5"}]
    answer = wire.call("incremental_alter_configs", 1, resources=[resource | {"configs": configs}], validate_only=False)
    assert (answer.responses[0].error_code, "at start" in answer.responses[0].error_message) == (INVALID_REQUEST, True)


def test_the_cluster_is_told_in_every_version(gateway: KafkaGateway, wire: Wire) -> None:
    """The only broker is the gateway itself, and is the controller."""
    for version in range(3):
        answer = wire.call(
            "describe_cluster", version, include_cluster_authorized_operations=version > 0, include_fenced_brokers=False
        )
        (broker,) = answer.brokers
        assert (answer.error_code, f"{broker.host}:{broker.port}") == (NONE, gateway.kafka)
        assert answer.controller_id == broker.broker_id
        assert (answer.cluster_authorized_operations > 0) == (version > 0)
    answer = wire.call(
        "describe_cluster",
        1,
        include_cluster_authorized_operations=False,
        endpoint_type=2,
        include_fenced_brokers=False,
    )
    assert (answer.error_code, answer.brokers) == (115, ())


@pytest.mark.parametrize("version", range(1, 5))
def test_one_log_directory_tells_what_partitions_take(
    gateway: KafkaGateway, wire: Wire, name: str, version: int
) -> None:
    """Named topics or all; a partition that does not exist is left out."""
    gateway.topic(name, 2)
    gateway.produce(name, "x" * 500)
    for topics in ([{"topic": name, "partitions": (0, 1, 7)}], None):
        (directory,) = wire.call("describe_log_dirs", version, topics=topics).results
        (told,) = [one for one in directory.topics if one.name == name]
        assert [one.partition_index for one in told.partitions] == [0, 1]
        assert told.partitions[0].partition_size >= told.partitions[1].partition_size == 0


def test_no_election_is_needed_and_nothing_is_reassigned(wire: Wire) -> None:
    """Tools that ask are told so, and go on."""
    for version in range(3):
        given = [{"topic": "any", "partitions": (0, 1)}]
        answer = wire.call("elect_leaders", version, topic_partitions=given, timeout=1, election_type=0)
        (result,) = answer.replica_election_results
        assert {one.error_code for one in result.partition_result} == {84}
    assert wire.call("list_partition_reassignments", 0, topics=None, timeout=1).topics == ()


def test_there_are_no_acls_and_quotas_with_authentication_off(wire: Wire) -> None:
    """A list of ACLs that is empty for want of authentication is no list: it is refused with words, as by a broker."""
    everything = {"pattern_type_filter": 1, "principal_filter": None, "host_filter": None, "operation": 1}
    everything |= {"permission_type": 1, "resource_type_filter": 1, "resource_name_filter": None}
    for version in range(1, 4):
        answer = wire.call("describe_acls", version, **everything)
        assert (answer.error_code, "auth=off" in answer.error_message) == (54, True)
        answer = wire.call("delete_acls", version, filters=[everything])
        assert answer.filter_results[0].error_code == 54
    answer = wire.call("describe_client_quotas", 1, components=(), strict=False)
    assert (answer.error_code, answer.entries) == (0, ())
    answer = wire.call("sasl_handshake", 1, mechanism="PLAIN")
    assert answer.error_code == 34


@pytest.mark.parametrize("name", ["a\0b", "../other", "a/b", ".", "", "x" * 250])
def test_a_name_that_no_topic_can_have_is_unknown(wire: Wire, name: str) -> None:
    """It would name other objects of the store; the connection goes on."""
    asked = [{"name": name, "topic_id": None}]
    answer = wire.call(
        "metadata", 12, topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    assert answer.topics[0].error_code in (UNKNOWN_TOPIC, INVALID_TOPIC, UNKNOWN_ID)
    resources = [{"resource_type": 2, "resource_name": name, "configuration_keys": None}]
    assert wire.call("describe_configs", 4, resources=resources).results[0].error_code == UNKNOWN_TOPIC
    deleted = wire.call("delete_topics", 6, topics=asked, timeout=0)
    assert deleted.responses[0].error_code == UNKNOWN_TOPIC


def test_a_description_of_partitions_has_no_null_list(gateway: KafkaGateway, wire: Wire, name: str) -> None:
    """Java's tools fail on a null where the protocol allows one (kafka-topics --describe)."""
    gateway.topic(name, 2)
    answer = wire.call(
        "describe_topic_partitions", 0, topics=[{"name": name}], response_partition_limit=10, cursor=None
    )
    told = [(one.eligible_leader_replicas, one.last_known_elr) for one in answer.topics[0].partitions]
    assert told == [((), ()), ((), ())]
