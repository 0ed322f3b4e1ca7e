"""kafka-python's settings: which mean something here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.compat.kafka.errors import KafkaConfigurationError
from tidelog.compat.settings import Known, Security

_SECURITY: Final = frozenset({
    "security_protocol", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password", "sasl_oauth_token_provider",
    "ssl_cafile", "ssl_certfile", "ssl_keyfile",
})  # fmt: skip
_EVERYWHERE: Final = frozenset({
    "client_id", "api_version", "bootstrap_timeout_ms", "client_dns_lookup", "connections_max_idle_ms",
    "metadata_max_age_ms", "metric_reporters", "metrics_enabled", "metrics_num_samples", "metrics_sample_window_ms",
    "max_in_flight_requests_per_connection", "receive_buffer_bytes", "receive_message_max_bytes",
    "reconnect_backoff_max_ms", "reconnect_backoff_ms", "retry_backoff_ms", "selector", "send_buffer_bytes",
    "socket_options", "ssl_check_hostname",
})  # fmt: skip
PRODUCER: Final = Known(
    used=_SECURITY | {
        "bootstrap_servers", "acks", "batch_size", "buffer_memory", "compression_type", "delivery_timeout_ms",
        "enable_idempotence", "key_serializer", "linger_ms", "max_block_ms", "partitioner", "request_timeout_ms",
        "transaction_timeout_ms", "transactional_id", "value_serializer",
    },
    without_effect=_EVERYWHERE | {"retries", "max_request_size", "allow_auto_create_topics"},
)  # fmt: skip
CONSUMER: Final = Known(
    used=_SECURITY | {
        "bootstrap_servers", "client_id", "client_rack", "auto_commit_interval_ms", "auto_offset_reset", "consumer_timeout_ms",
        "enable_auto_commit", "fetch_max_bytes", "group_id", "group_instance_id", "isolation_level",
        "key_deserializer", "max_poll_records", "max_poll_interval_ms", "partition_assignment_strategy",
        "request_timeout_ms", "session_timeout_ms", "value_deserializer",
    },
    without_effect=_EVERYWHERE | {
        "allow_auto_create_topics", "check_crcs", "enable_incremental_fetch_sessions",
        "exclude_internal_topics", "fetch_max_wait_ms", "fetch_min_bytes", "heartbeat_interval_ms",
        "max_partition_fetch_bytes", "metric_group_prefix",
    },
)  # fmt: skip
ADMIN: Final = Known(used=_SECURITY | {"bootstrap_servers", "request_timeout_ms"}, without_effect=_EVERYWHERE)
REFUSED: Final = frozenset({
    "default_offset_commit_callback", "kafka_client", "proxy_url", "sasl_kerberos_domain_name", "sasl_kerberos_name",
    "sasl_kerberos_service_name", "socks5_proxy", "ssl_ciphers", "ssl_context", "ssl_crlfile", "ssl_password",
})  # fmt: skip
"""What would be security or behaviour that is asked for and not there."""


def connection_of(known: Known, given: Mapping[str, Any]) -> dict[str, Any]:
    """Address and identity as the SDK takes them. Raises ``KafkaConfigurationError`` for what has no meaning here."""
    known.check({name: value for name, value in given.items() if value is not None}, KafkaConfigurationError)
    if given.get("ssl_check_hostname") is False:
        raise KafkaConfigurationError("ssl_check_hostname=False: certificates are always checked")
    provider = given.get("sasl_oauth_token_provider")
    security = Security(
        protocol=given.get("security_protocol"),
        mechanism=given.get("sasl_mechanism"),
        password=given.get("sasl_plain_password"),
        token_of=None if provider is None else provider.token,
        ca_file=given.get("ssl_cafile"),
        cert_file=given.get("ssl_certfile"),
        key_file=given.get("ssl_keyfile"),
    )
    servers = given.get("bootstrap_servers") or "127.0.0.1:8080"
    return {
        "bootstrap_servers": servers,
        "zone": given.get("client_rack"),
        **security.connection(servers, KafkaConfigurationError),
    }


def renamed(given: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What was given, by our names."""
    return {ours: given[name] for name, ours in names.items() if given.get(name) is not None}
