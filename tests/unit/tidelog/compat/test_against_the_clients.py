"""The compatibility modules, held against the installed clients: names, positions of arguments, defaults, settings, errors."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

import tidelog.compat.confluent_kafka as confluent
import tidelog.compat.confluent_kafka.admin as confluent_admin
import tidelog.compat.kafka as python
import tidelog.compat.kafka.admin as python_admin
from tidelog.compat.confluent_kafka import settings as confluent_settings
from tidelog.compat.kafka import errors as python_errors
from tidelog.compat.kafka import settings as python_settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Python, about how it reads its schemas
    kafka: Any = importlib.import_module("kafka")
    kafka_errors: Any = importlib.import_module("kafka.errors")
    kafka_admin: Any = importlib.import_module("kafka.admin")

NOT_HERE = {
    "KafkaProducer": {"max_usable_produce_magic"},
    "KafkaConsumer": {"bootstrap"},
    "KafkaAdminClient": {
        "abort_transaction", "alter_partition_reassignments", "alter_replica_log_dirs", "alter_user_scram_credentials",
        "api_versions",
        "create_acls", "delete_acls", "delete_group_offsets", "describe_acls", "describe_features", "describe_groups",
        "describe_log_dirs", "describe_metadata_quorum", "describe_producers", "describe_topic_partitions",
        "describe_transactions", "describe_user_scram_credentials", "elect_leaders", "find_hanging_transactions",
        "get_broker_version_data", "list_config_resources", "list_partition_offsets", "list_partition_reassignments",
        "list_transactions", "remove_group_members", "reset_configs", "reset_group_offsets", "update_features", "wait_for_topics",
    },
    "Producer": {"cluster_id", "produce_batch", "set_sasl_credentials"},
    "Consumer": {"cluster_id", "incremental_assign", "incremental_unassign", "set_sasl_credentials"},
    "AdminClient": {
        "alter_consumer_group_offsets", "alter_user_scram_credentials", "cluster_id", "create_acls", "delete_acls",
        "describe_acls",
        "describe_cluster", "describe_consumer_groups", "describe_topics", "describe_user_scram_credentials", "elect_leaders",
        "list_consumer_group_offsets", "list_groups", "list_offsets", "set_sasl_credentials",
    },
    "Message": {"delivery_count", "deserialized_key", "deserialized_value", "set_error", "set_topic"},
}  # fmt: skip
"""Methods that a ported program has to do without; docs/sdk.md says so."""
PAIRS: list[tuple[Any, Any]] = [
    (kafka.KafkaProducer, python.KafkaProducer),
    (kafka.KafkaConsumer, python.KafkaConsumer),
    (kafka.KafkaAdminClient, python_admin.KafkaAdminClient),
    (confluent_kafka.Producer, confluent.Producer),
    (confluent_kafka.Consumer, confluent.Consumer),
    (confluent_kafka.Message, confluent.Message),
    (confluent_kafka.admin.AdminClient, confluent_admin.AdminClient),
]


def public(cls: Any) -> set[str]:
    return {name for name, found in inspect.getmembers(cls) if not name.startswith("_") and callable(found)}


@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=[f"{ours.__module__}.{ours.__name__}" for _, ours in PAIRS])
def test_each_method_is_there(theirs: Any, ours: Any) -> None:
    """But for those that are named above; none of which is there after all."""
    missing = public(theirs) - public(ours)
    assert missing == NOT_HERE.get(ours.__name__, set())


@pytest.mark.parametrize(("theirs", "ours"), PAIRS[:3], ids=[ours.__name__ for _, ours in PAIRS[:3]])
def test_arguments_have_their_names_and_places(theirs: Any, ours: Any) -> None:
    """kafka-python's signatures can be read: what can be given by position or name there can be given here."""
    for name in public(theirs) & public(ours):
        wanted = list(inspect.signature(getattr(theirs, name)).parameters)
        has = inspect.signature(getattr(ours, name)).parameters
        if any(each.kind in {each.VAR_KEYWORD, each.VAR_POSITIONAL} for each in has.values()):
            continue
        assert list(has)[: len(wanted)] == wanted, name


@pytest.mark.parametrize("name", ["KafkaProducer", "KafkaConsumer", "KafkaAdminClient"])
def test_each_setting_of_kafka_python_is_known(name: str) -> None:
    """It is used, has nothing to act upon, or is refused; and nothing else is taken."""
    known = {
        "KafkaProducer": python_settings.PRODUCER,
        "KafkaConsumer": python_settings.CONSUMER,
        "KafkaAdminClient": python_settings.ADMIN,
    }[name]
    config = set(getattr(kafka, name).DEFAULT_CONFIG)
    assert known.used | known.without_effect <= config | {"buffer_memory", "ssl_check_hostname"} | ADMIN_HAS_NO
    assert config - known.used - known.without_effect <= python_settings.REFUSED


ADMIN_HAS_NO = {"metrics_enabled"}


@pytest.mark.parametrize(
    ("made", "known"),
    [
        (confluent_kafka.Producer, confluent_settings.PRODUCER),
        (confluent_kafka.Consumer, confluent_settings.CONSUMER),
    ],
)
def test_each_setting_that_is_taken_is_one_of_librdkafka(made: Any, known: Any) -> None:
    """librdkafka refuses a name that it does not know: none of ours is made up."""
    python_only = {
        "on_delivery",
        "on_commit",
        "logger",
        "partitioner",
        "oauth_cb",
        "error_cb",
        "stats_cb",
        "throttle_cb",
    }
    values = {"group.id": "g"} if made is confluent_kafka.Consumer else {}
    unknown = []
    for name in sorted((known.used | known.without_effect) - python_only):
        try:
            made({**values, name: "?"})
        except confluent_kafka.KafkaException as error:
            if "No such configuration property" in str(error):
                unknown.append(name)
        except (TypeError, ValueError):
            continue
    assert unknown == []


def test_errors_are_named_and_numbered_as_theirs() -> None:
    """A handler of a ported program names classes and numbers."""
    for name, ours in vars(python_errors).items():
        if (
            isinstance(ours, type)
            and issubclass(ours, python_errors.BrokerResponseError)
            and ours.errno > 0
            and ours.__name__ == name
        ):
            assert getattr(kafka_errors, name).errno == ours.errno, name
            assert issubclass(getattr(kafka_errors, name), kafka_errors.KafkaError)
    for name, number in vars(confluent.KafkaError).items():
        if isinstance(number, int):
            assert getattr(confluent_kafka.KafkaError, name) == number, name


def test_constants_are_theirs() -> None:
    """Offsets and kinds of times."""
    for name in confluent.__all__:
        if name.isupper():
            assert getattr(confluent, name) == getattr(confluent_kafka, name), name


def test_tuples_have_their_fields() -> None:
    """Programs unpack them, and name their parts."""
    for name in ("TopicPartition", "OffsetAndMetadata", "OffsetAndTimestamp"):
        assert getattr(python, name)._fields == getattr(kafka.structs, name)._fields
    record = importlib.import_module("kafka.consumer.fetcher").ConsumerRecord
    assert python.ConsumerRecord._fields == record._fields
    metadata = importlib.import_module("kafka.producer.future").RecordMetadata
    assert python.RecordMetadata._fields == metadata._fields


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"kafka_client": object()}, "kafka_client"),
        ({"acks": 2}, "acks"),
        ({"security_protocol": "SSL"}, "https"),
        ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}, "SASL"),
        ({"ssl_check_hostname": False}, "always checked"),
    ],
)
def test_what_has_no_meaning_here_is_refused(given: dict[str, Any], said: str) -> None:
    """At once, by name; above all what would be security."""
    with pytest.raises(python_errors.KafkaConfigurationError, match=said):
        python.KafkaProducer(bootstrap_servers="http://127.0.0.1:1", **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nonsense": 1}, "nonsense"),
        ({"partitioner": "consistent_random"}, "murmur2"),
        ({"security.protocol": "ssl"}, "https"),
        ({"enable.ssl.certificate.verification": False}, "enable.ssl"),
    ],
)
def test_what_has_no_meaning_for_confluent_is_refused(given: dict[str, Any], said: str) -> None:
    """As above."""
    with pytest.raises(confluent.KafkaException, match=said):
        confluent.Producer({"bootstrap.servers": "http://127.0.0.1:1", **given})
    with pytest.raises(confluent.KafkaException, match=r"group\.id"):
        confluent.Consumer({"bootstrap.servers": "http://127.0.0.1:1"})


def test_a_token_is_the_password(dead_url: str) -> None:
    """Of SASL's PLAIN, for both clients; it is in no repr."""
    producer = python.KafkaProducer(
        bootstrap_servers=[dead_url],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_password="tl_x",
    )
    assert "tl_x" not in repr(producer._producer)
    producer.close(0)
    told = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "tl_x",
    }
    confluent.Producer({"bootstrap.servers": dead_url, **told}).close(0)


def test_no_room_and_no_gateway_are_timeouts(dead_url: str) -> None:
    """As kafka-python says it: after ``max_block_ms``, and after the delivery time-out."""
    producer = python.KafkaProducer(
        bootstrap_servers=dead_url, buffer_memory=2_000, batch_size=1_000, max_block_ms=10, delivery_timeout_ms=500
    )
    sent = producer.send("t", b"x")
    with pytest.raises(python_errors.KafkaTimeoutError):
        _ = [producer.send("t", b"x" * 100) for _ in range(100)]
    with pytest.raises(python_errors.KafkaTimeoutError):
        sent.get(timeout=20)
    producer.close(0)


def test_no_room_is_a_buffer_error(dead_url: str) -> None:
    """At once, as librdkafka says it; what was taken in fails by its time-out, and its callback is called."""
    failed: list[Any] = []
    settings = {"queue.buffering.max.kbytes": 64, "batch.size": 1_000, "message.timeout.ms": 500}
    producer = confluent.Producer(
        {"bootstrap.servers": dead_url, **settings}, on_delivery=lambda error, _: failed.append(error)
    )
    with pytest.raises(BufferError):
        _ = [producer.produce("t", b"x" * 100) for _ in range(10_000)]  # type: ignore[func-returns-value]
    count = len(producer)
    assert count > 0
    assert producer.flush(30) == 0
    assert len(failed) == count
    assert all(error == confluent.KafkaError._MSG_TIMED_OUT for error in failed)


def test_a_rack_is_a_zone() -> None:
    """A consumer that says where it is reads from a gateway there; without one it says nothing."""
    python = python_settings.connection_of(python_settings.CONSUMER, {"client_rack": "za"})
    librdkafka = confluent_settings.connection_of({"client.rack": "za"})
    assert python["zone"] == librdkafka["zone"] == "za"
    assert confluent_settings.connection_of({"client.rack": ""})["zone"] is None
    assert python_settings.connection_of(python_settings.CONSUMER, {})["zone"] is None
