"""librdkafka's settings: which mean something here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from tidelog.compat.confluent_kafka.errors import invalid
from tidelog.compat.settings import Known, Security

_SECURITY: Final = frozenset(
    {
        "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "oauth_cb",
        "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
    }
)  # fmt: skip
_EVERYWHERE: Final = frozenset(
    {
        "allow.auto.create.topics", "api.version.request", "broker.address.family", "broker.address.ttl",
        "client.dns.lookup", "client.id", "connections.max.idle.ms", "debug", "enable.metrics.push",
        "error_cb", "log_level", "logger", "max.in.flight", "max.in.flight.requests.per.connection",
        "message.copy.max.bytes", "message.max.bytes", "metadata.max.age.ms", "receive.message.max.bytes",
        "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retry.backoff.max.ms", "retry.backoff.ms",
        "socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.nagle.disable",
        "socket.receive.buffer.bytes", "socket.send.buffer.bytes", "socket.timeout.ms", "statistics.interval.ms",
        "stats_cb", "throttle_cb", "topic.metadata.refresh.interval.ms",
    }
)  # fmt: skip
PRODUCER: Final = Known(
    used=_SECURITY | {
        "bootstrap.servers", "metadata.broker.list", "client.rack", "acks", "request.required.acks", "batch.size",
        "compression.codec", "compression.type", "delivery.timeout.ms", "message.timeout.ms", "enable.idempotence",
        "linger.ms", "queue.buffering.max.ms", "on_delivery", "partitioner", "queue.buffering.max.kbytes",
        "request.timeout.ms", "transaction.timeout.ms", "transactional.id",
    },
    without_effect=_EVERYWHERE | {
        "batch.num.messages", "compression.level", "delivery.report.only.error", "message.send.max.retries",
        "queue.buffering.backpressure.threshold", "queue.buffering.max.messages", "retries",
        "sticky.partitioning.linger.ms",
    },
)  # fmt: skip
CONSUMER: Final = Known(
    used=_SECURITY | {
        "bootstrap.servers", "metadata.broker.list", "client.rack", "auto.commit.interval.ms", "auto.offset.reset", "client.id",
        "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof", "fetch.max.bytes", "group.id",
        "group.instance.id", "isolation.level", "max.poll.interval.ms", "on_commit", "partition.assignment.strategy",
        "session.timeout.ms",
    },
    without_effect=_EVERYWHERE | {
        "check.crcs", "coordinator.query.interval.ms", "fetch.error.backoff.ms", "fetch.message.max.bytes",
        "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms", "group.protocol", "group.protocol.type",
        "heartbeat.interval.ms", "max.partition.fetch.bytes", "queued.max.messages.kbytes", "queued.min.messages",
    },
)  # fmt: skip
ADMIN: Final = Known(
    used=_SECURITY | {"bootstrap.servers", "metadata.broker.list", "client.rack", "request.timeout.ms"},
    without_effect=_EVERYWHERE,
)


def settings_of(known: Known, conf: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping of all, checked. Raises ``KafkaException``."""
    given = {**(conf or {}), **more}
    nested = given.pop("default.topic.config", None)
    given = {**(nested or {}), **given}
    known.check(given, invalid)
    return given


def connection_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Address and identity as the SDK takes them. Raises ``KafkaException``."""
    servers = given.get("bootstrap.servers") or given.get("metadata.broker.list") or "127.0.0.1:8080"
    security = Security(
        protocol=given.get("security.protocol"),
        mechanism=given.get("sasl.mechanisms") or given.get("sasl.mechanism"),
        password=given.get("sasl.password"),
        token_of=_token_of(given.get("oauth_cb")),
        ca_file=given.get("ssl.ca.location"),
        cert_file=given.get("ssl.certificate.location"),
        key_file=given.get("ssl.key.location"),
    )
    return {
        "bootstrap_servers": servers,
        "zone": given.get("client.rack") or None,
        **security.connection(servers, invalid),
    }


def is_true(given: Mapping[str, Any], name: str, default: bool) -> bool:
    """A boolean, which may be text."""
    value = given.get(name, default)
    return value if isinstance(value, bool) else str(value).lower() in {"true", "1", "t"}


def number(given: Mapping[str, Any], *names: str) -> float | None:
    """The first of these settings that is there."""
    for name in names:
        if given.get(name) is not None:
            return float(given[name])
    return None


def pattern_of(topics: list[str]) -> str | None:
    """A regular expression that the whole name matches, where a topic begins with ``^``; None: no topic does."""
    if not any(topic.startswith("^") for topic in topics):
        return None
    return "|".join(f"(?:{topic}).*" if topic.startswith("^") else re.escape(topic) for topic in topics)


def _token_of(callback: Callable[[str], tuple[str, float]] | None) -> Callable[[], str] | None:
    return None if callback is None else lambda: callback("")[0]
