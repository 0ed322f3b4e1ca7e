"""Names of Kafka's clients: accepted where they mean the same, else refused with what to write here.

1. An argument with the same meaning under another name is renamed: ``Consumer("orders", group_id="billing")``.
2. An argument that states what always holds here is accepted and dropped: ``acks="all"``. Any other value is refused.
3. Any other argument or method of Kafka's clients that can be mistaken for one of Tidelog's is refused immediately, with a
   hint.

docs/sdk.md has these tables. A program that should stay unchanged keeps its client and speaks Kafka's protocol (docs/kafka.md).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, ParamSpec

P = ParamSpec("P")

PRODUCER: Final = {
    "batch_size": "batch_bytes",
    "buffer_memory": "buffer_bytes",
    "compression_type": "compression",
    "max_in_flight_requests_per_connection": "max_in_flight",
}
CONSUMER: Final = {"group_id": "group", "group_instance_id": "instance_id"}
ADMIN: Final[Mapping[str, str]] = {}
CONNECTION: Final = {
    "client_rack": "zone",
    "ssl_cafile": "ca_file",
    "ssl_certfile": "cert_file",
    "ssl_keyfile": "key_file",
}

ALWAYS: Final[Mapping[str, tuple[object, ...]]] = {
    "acks": ("all", -1),
    "isolation_level": ("read_committed", 1),
    "check_crcs": (True,),
    "api_version": (None,),
}
"""Arguments that state what always holds here, with their only accepted values."""

INSTEAD: Final[Mapping[str, str]] = {
    "retries": "requests are retried until delivery_timeout_ms has passed",
    "retry_backoff_ms": "the client chooses its back-off",
    "partitioner": "the key's murmur2 hash chooses, as in Kafka; to choose yourself, use send(…, partition=)",
    "max_request_size": "batch_bytes, and the topic's max.message.bytes",
    "heartbeat_interval_ms": "the gateway chooses the interval; set session_timeout_ms and max_poll_interval_ms instead",
    "partition_assignment_strategy": "assignor: 'range', 'roundrobin' or 'sticky'",
    "max_partition_fetch_bytes": "fetch_max_bytes limits a whole answer",
    "fetch_max_wait_ms": "poll(timeout_ms)",
    "fetch_min_bytes": "poll(timeout_ms): records come as soon as there are any",
    "allow_auto_create_topics": "the gateway's setting auto_create_topics decides for all producers; or use Admin.create_topic",
    "security_protocol": "an https:// address means TLS; token or token_file is your credential",
    "sasl_mechanism": "token, or token_file",
    "sasl_plain_username": "token, or token_file",
    "sasl_plain_password": "token, or token_file",
    "sasl_oauth_token_provider": "token takes a callable",
    "client_id": "only Consumer and QueueConsumer have a client_id, by which operators recognize them",
}

METHODS: Final[Mapping[str, str]] = {
    # of consumers
    "subscribe": "Consumer(*topics, group=…), or topic_pattern=; on_assigned, on_revoked and on_lost are arguments, too",
    "unsubscribe": "close, and make another Consumer",
    "subscription": "assignment() returns the partitions; the topics are the constructor's",
    "store_offsets": "commit(offsets)",
    "consume": "poll(timeout_ms, max_records)",
    "get_watermark_offsets": "beginning_offsets([partition]) and end_offsets([partition])",
    "consumer_group_metadata": "group_metadata()",
    "memberid": "group_metadata().member_id",
    "incremental_assign": "assign([…]) keeps the positions of partitions that stay",
    "incremental_unassign": "assign([…]) keeps the positions of partitions that stay",
    "unassign": "assign([])",
    # of producers
    "produce": "send(topic, value, key), which returns a future",
    "purge": "close(timeout=0)",
    "poll": "nothing to poll: futures and on_delivery are served by the producer's own threads",
    # of admins
    "create_partitions": "alter_topic(name, partition_count=…)",
    "alter_configs": "alter_topic(name, config=…): other settings stay",
    "incremental_alter_configs": "alter_topic(name, config=…)",
    "reset_configs": "alter_topic(name, config={setting: None})",
    "describe_cluster": "cluster()",
    "cluster_id": "cluster()",
    "api_versions": "cluster().version",
    "list_consumer_groups": "list_groups()",
    "describe_consumer_groups": "describe_group(group)",
    "describe_groups": "describe_group(group)",
    "delete_consumer_groups": "delete_group(group)",
    "delete_groups": "delete_group(group)",
    "list_consumer_group_offsets": "group_offsets(group)",
    "list_group_offsets": "group_offsets(group)",
    "alter_consumer_group_offsets": "commit_group_offsets(group, offsets)",
    "alter_group_offsets": "commit_group_offsets(group, offsets)",
    "reset_group_offsets": "reset_group(group, to)",
    "remove_group_members": "remove_group_member(group, member_id), one by one",
    "describe_transactions": "list_transactions(transactional_id_prefix=…)",
    "find_hanging_transactions": "list_transactions('open')",
    "describe_producers": "nothing here: the listener for Kafka's clients (kafka_listen) has it",
    "wait_for_topics": "create_topic, which returns once the topic is there",
    "describe_topic_partitions": "describe_topic(name).partitions",
    "list_offsets": "offsets(topic)",
    "list_partition_offsets": "offsets(topic)",
    "create_acls": "add_acls(acls)",
    "describe_acls": "list_acls()",
    # of any
    "list_topics": "topics() and partitions_for_topic(topic) of Consumer, list_topics() of Admin",
    "metrics": "the gateway's /metrics, and lag() of a consumer: a client has no metrics",
    "bootstrap_connected": "a client connects with its first call; Admin().cluster() tests the connection",
    "set_sasl_credentials": "token, or token_file, which is read again when it changes",
}


def takes_kafka_names(
    names: Mapping[str, str],
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Return a decorator for ``__init__`` that renames the arguments of ``names`` and ``CONNECTION``, and drops those of
    ``ALWAYS``.

    The decorated one raises ``TypeError`` for an argument given twice, and for one with another meaning here.
    """

    def around(made: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(made)
        def make(*arguments: P.args, **given: P.kwargs) -> None:
            if not given.keys().isdisjoint(_ANY):
                given = _translated(given, {**names, **CONNECTION})  # type: ignore[assignment]
            made(*arguments, **given)

        return make

    return around


def _translated(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    translated: dict[str, Any] = {}
    for name, value in given.items():
        ours = names.get(name, name)
        if name in ALWAYS:
            if value not in ALWAYS[name]:
                meant = " or ".join(repr(each) for each in ALWAYS[name])
                raise TypeError(f"{name}={value!r} is not available: it is always {meant}")
            continue
        if ours in translated or (ours != name and ours in given):
            raise TypeError(f"{name} and {ours} are the same argument: give only one")
        translated[ours] = value
    return translated


_ANY: Final = frozenset({*PRODUCER, *CONSUMER, *CONNECTION, *ALWAYS})


def refused_argument(name: str) -> str:
    """Return the error message for an unknown argument, with what to write instead."""
    for names in (PRODUCER, CONSUMER):
        if name in names:
            return f"this class has no argument {name!r}"
    instead = INSTEAD.get(name)
    if instead is not None:
        return f"there is no argument {name!r}: {instead}"
    if "." in name:
        return f"there is no argument {name!r}: names have underscores, as in {name.replace('.', '_')}"
    return f"there is no argument {name!r}: see the class's documentation for its arguments"


class KnowsKafkaNames:
    """Mixin whose ``AttributeError`` for a Kafka client's method names the method to use here."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise ``AttributeError``."""
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            instead = METHODS.get(name)
            raise AttributeError(said if instead is None else f"{said}; instead: {instead}", name=name, obj=self)
