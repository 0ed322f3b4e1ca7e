"""The gateway's settings, read once at start: command line over environment (``TIDELOG_<NAME>``) over default.

The settings bound the memory of the process. With the defaults it stays below ``PROCESS_BYTES_MAX`` under any load:

===============================  ==============================  =====================================================
part                             bytes                           bounded by
===============================  ==============================  =====================================================
interpreter and libraries        ``BASELINE_BYTES``              measured: imports, threads, allocator slack
produce requests in flight       ``in_flight_bytes_max`` x 2     the body's records, and the segment made of them
a body being decoded or encoded  ``codec_threads`` x 130 MiB     one request's working set per codec thread
answers, also to SQL             ``answer_bytes_max``            records read and the answer made of them
tail of the log                  ``tail_cache_bytes_max``        evicted, oldest first
delayed records that are due     ``SCHEDULED_CACHE_BYTES``       indexes, evicted; records count as requests in flight
footers of segments              ``footer_cache_bytes_max``      evicted, least recently used first
state of topics                  ``manifest_bytes_max``          idle topics dropped; then records are refused
consumer groups                  ``groups_bytes_max``            then further groups, members and offsets are refused
queues                           ``queues_bytes_max``            then new queues and receives of records are refused
transactions                     ``TRANSACTIONS_BYTES_MAX``      ended ones dropped; then new ones are refused
transactional ids                ``TRANSACTIONAL_IDS_BYTES_MAX`` then new ones are refused
own commits                      ``OWN_COMMITS_BYTES_MAX``       the oldest dropped, then read again
lists of partitions              ``bounds.FETCH_LISTS_BYTES_MAX``       fetches with long lists wait
connections                      ``connections_max`` x 32 KiB    protocol buffers; the operations' ones likewise
Kafka's, with ``kafka_listen``   ``kafka_connections_max`` likewise, and encoded batches kept; above the 600 MiB
their TLS, with ``tls_cert``     ``connections_max`` x 64 KiB    OpenSSL's state and buffers, above the 600 MiB
schemas, if the store has any    ``schemas_bytes_max``           then registrations are refused; above the 600 MiB
rights, with ``auth=on``         ``access_bytes_max``            then additions are refused; above the 600 MiB
quotas, with ``auth=on``         ``QUOTAS_BYTES_MAX``            idle principals dropped; above the 600 MiB
audit events, with ``audit=on``  ``AUDIT_BYTES_MAX`` x 2         events that do not fit are dropped; above the 600 MiB
answers of readers               ``readers`` x ``HELD_BYTES``    their pieces; each reader's own process is above the 600 MiB
===============================  ==============================  =====================================================

The manifest of a topic in use grows with its unmerged segments: 50 bytes for each, and 32 for each of its runs
(``log_format.manifest.manifest``). For the largest topic ``manifest_bytes_max`` allows some 490,000 flushes that touch one
partition each, or 130,000 that touch eight. A topic under maintenance has some thousands.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from gateway.access.settings import AccessSettings
from gateway.audit.trail import AUDIT_BYTES_MAX
from gateway.catch_up_reads.settings import HELD_BYTES, HistorySettings
from gateway.console.settings import ConsoleSettings
from gateway.engine import bounds
from gateway.monitoring.settings import MonitoringSettings
from gateway.network.hosts import HOST_NAMES_PATTERN, URL_PATTERN, is_loopback, reachable
from gateway.quotas.quotas import QUOTAS_BYTES_MAX
from gateway.schemas.settings import RegistrySettings
from gateway.settings.flush import FlushSettings
from gateway.settings.kafka import KAFKA_KEPT_BYTES, KafkaSettings
from gateway.settings.log import LogSettings
from gateway.settings.tls import TlsSettings
from gateway.settings.topics import TopicSettings
from gateway.settings.workers import WorkerSettings
from gateway.settings.zone import ZoneSettings
from gateway.sql.settings import SqlSettings
from gateway.stores.own_commits import OWN_COMMITS_BYTES_MAX
from gateway.vending.settings import VendingSettings
from gateway.wrong_values import what_is_wrong
from log_format import limits

ENVIRONMENT_PREFIX: Final = "TIDELOG_"
MEBIBYTE: Final = 1024 * 1024

PROCESS_BYTES_MAX: Final = 600 * MEBIBYTE
"""Maximum bytes of the process with the default settings."""
BASELINE_BYTES: Final = 165 * MEBIBYTE
"""Bytes that an idle gateway holds (interpreter, pyarrow and its allocator, thread stacks), and slack."""
IN_FLIGHT_COPIES: Final = 2
"""Number of copies of an accepted body: it exists as Arrow, and for a short time as Parquet."""
CODEC_WORKING_BYTES: Final = 130 * MEBIBYTE
"""Bytes for decoding the largest request of the smallest JSON records: measured, without the Arrow that is made of it."""
_SERVICE_LINK: Final = re.compile(r"(tcp|udp|sctp)://[^/]*:[0-9]+")
"""Pattern of ``TIDELOG_PORT`` as Kubernetes sets it in every pod beside a Service called tidelog: no setting has such a value."""
CONNECTION_BYTES: Final = 32 * 1024
"""Bytes of a connection: protocol objects, and bytes received but not yet read."""
TLS_CONNECTION_BYTES: Final = 64 * 1024
"""Bytes that TLS adds to a connection: 44 KiB were measured for an idle one."""
OPERATIONS_CONNECTIONS_MAX: Final = 32
"""Number of connections of the operations listener: probes and scrapers, never clients."""
OPERATIONS_PORT: Final = 8081
"""Operations port of a gateway that listens beyond loopback, unless set."""


class SettingsError(ValueError):
    """A setting is unknown, malformed or out of its range. The text names each, by its environment name."""


def _count(default: int, minimum: int, maximum: int, description: str) -> Any:
    return Field(default, ge=minimum, le=maximum, description=description)


class Settings(
    AccessSettings,
    ConsoleSettings,
    HistorySettings,
    KafkaSettings,
    FlushSettings,
    LogSettings,
    MonitoringSettings,
    RegistrySettings,
    SqlSettings,
    TlsSettings,
    TopicSettings,
    VendingSettings,
    WorkerSettings,
    ZoneSettings,
):
    """All settings. Each field has its unit in its name, its default and range, and says what changing it does."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    store: str = Field(
        min_length=1,
        description="Where the log lies: file:///directory, a plain directory, or s3://bucket/prefix. Has no default.",
    )
    host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address to listen on. 0.0.0.0: reachable from anywhere; that needs auth=on, or insecure=true.",
    )
    port: int = _count(8080, 0, 65535, "TCP port. 0: any free one; it is printed.")
    ops_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address of the operations listener: /healthz, /readyz, /metrics, and /v1/cluster with the store's URI.",
    )
    ops_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description=f"Port of the operations listener. 0: any free one; it is printed. Default: {OPERATIONS_PORT} where host is"
        " not loopback; there none, and probes ask the port that clients use.",
    )
    allowed_hosts: str | None = Field(
        default=None,
        pattern=HOST_NAMES_PATTERN,
        description="Names by which clients reach this gateway (their Host header), comma-separated; .example.com: all below it."
        " Against DNS rebinding. Addresses, localhost and advertised_url always pass. Default: on loopback also names"
        " without a dot; elsewhere any name.",
    )
    gateway_id: str = Field(
        default_factory=lambda: secrets.token_hex(8),
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Name of this process among the gateways of a store. Default: random, new with each start.",
    )
    advertised_url: str | None = Field(
        default=None,
        pattern=URL_PATTERN,
        description="URL (scheme, host, port) by which others reach this gateway. Default: from host and port.",
    )
    forwarding: Literal["preferred", "random", "off"] = Field(
        default="preferred",
        description="Where produce requests are served: by the topic's preferred gateway, or (off) here. random is for tests.",
    )
    heartbeat_ms: int = _count(
        3_000,
        100,
        60_000,
        "How often this gateway says that it is alive and looks which others are; dead after four. The same in all gateways.",
    )
    journals: Literal["on", "off"] = Field(
        default="on",
        description="Whether topics may go to journals. off in one gateway holds them back in all: until every gateway and job"
        " is of a release with journals, and while an older one may come back. Topics that are at a journal stay there.",
    )
    cluster_key_file: str | None = Field(
        default=None,
        min_length=1,
        description="File with the key by which gateways know each other's heartbeats, or two while it changes, one a line. The"
        " same in all gateways. Default: a key that every reader of the store knows; with auth=on gateways then send each other"
        " nothing.",
    )
    request_bytes_max: int = _count(
        limits.REQUEST_BYTES_MAX,
        1024,
        256 * MEBIBYTE,
        "Largest request body, compressed and decompressed alike. More memory per request in flight.",
    )
    in_flight_bytes_max: int = _count(
        bounds.IN_FLIGHT_BYTES,
        MEBIBYTE,
        1 << 40,
        "Bytes of request bodies received and not yet answered. Past it 503 OVERLOADED. Lower: less memory, earlier refusals.",
    )
    answer_bytes_max: int = _count(
        64 * MEBIBYTE,
        MEBIBYTE,
        1 << 40,
        "Bytes of records and answers that are held at once. Past it fetches wait their turn, then 503 OVERLOADED."
        " A third is kept for clients (by their address) that hold less than that, and for small answers.",
    )
    tail_cache_bytes_max: int = _count(
        bounds.TAIL_CACHE_BYTES,
        0,
        1 << 40,
        "Newest records kept in memory for tail reads. Lower: more reads from the store.",
    )
    footer_cache_bytes_max: int = _count(
        bounds.FOOTER_CACHE_BYTES, 0, 1 << 40, "Segment footers kept in memory. Lower: more requests per cold read."
    )
    manifest_bytes_max: int = _count(
        bounds.MANIFEST_BYTES,
        MEBIBYTE,
        1 << 40,
        "What the segments of loaded topics take in memory. Past it 503 OVERLOADED for records until maintenance has merged some;"
        " one topic may take three quarters. The same in all gateways.",
    )
    groups_bytes_max: int = _count(
        bounds.GROUPS_BYTES,
        MEBIBYTE,
        1 << 40,
        "What consumer groups, their members and offsets take in memory: about 8 KiB for a group of one member and 8 partitions."
        " Past it 503 OVERLOADED for what would make it more. The same in all gateways.",
    )
    queues_bytes_max: int = _count(
        bounds.QUEUES_BYTES,
        MEBIBYTE,
        1 << 40,
        "What queues take in memory, with what of them is settled and leased: under 1 KiB for a queue, 1 KiB for a lease. Past it"
        " 503 OVERLOADED for new queues and for records to be received. The same in all gateways.",
    )
    access_bytes_max: int = _count(
        bounds.ACCESS_BYTES,
        MEBIBYTE,
        1 << 40,
        "What tokens, roles, ACLs and quotas take in memory with auth=on: 100,000 ACLs some 40 MiB. Past it 503 OVERLOADED for"
        " what would make it more. The same in all gateways.",
    )
    waiting_polls_max: int = _count(
        bounds.WAITING_POLLS,
        0,
        1_000_000,
        "Long polls and event streams that wait at once. Past it 503 OVERLOADED; each costs a few KiB.",
    )
    connections_max: int = _count(
        1_000,
        1,
        100_000,
        "Open client connections. Past it 503 OVERLOADED. Half as many requests begin a flush at once.",
    )
    connections_per_address_max: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Of these, from one address (IPv6: one /64). Behind a balancer set it to connections_max. Default: three"
        " quarters of connections_max; from loopback all, since a proxy there speaks for many.",
    )
    write_threads: int = _count(
        bounds.WRITE_THREADS, 1, 256, "Threads that upload and commit: at least one per topic that flushes at once."
    )
    read_threads: int = _count(bounds.READ_THREADS, 1, 256, "Threads that read old records from the store.")
    codec_threads: int = _count(
        1,
        1,
        64,
        "Threads that decode, encode and compress what is large. Each needs 130 MiB; decoding JSON gains nothing by more.",
    )

    head_ms: int = _count(
        10_000,
        100,
        3_600_000,
        "How long a request's line and headers may take, and a new connection until they are there. Then it is closed.",
    )
    body_idle_ms: int = _count(
        30_000,
        100,
        3_600_000,
        "Longest pause inside a request body before it is refused; and in each such span it must bring 500 bytes a second.",
    )
    body_total_ms: int = _count(600_000, 100, 3_600_000, "Longest time that one request body may take.")
    header_idle_ms: int = _count(
        60_000,
        100,
        3_600_000,
        "How long a connection may stay silent between requests. Below head_ms it also bounds a request's headers.",
    )
    write_stall_ms: int = _count(
        60_000,
        100,
        3_600_000,
        "How long a client may read nothing of its answer before its connection is cut. Three seconds while others wait for"
        " the memory that it holds.",
    )
    drain_timeout_ms: int = _count(
        30_000, 0, 600_000, "After SIGTERM: how long to wait for flushes and answers. Then the process ends anyway."
    )
    drain_notice_ms: int = _count(
        500,
        0,
        600_000,
        "After SIGTERM: how long at least to answer 503, so that balancers notice. Give them their probe interval.",
    )

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.in_flight_bytes_max < self.request_bytes_max:
            raise ValueError(
                "in_flight_bytes_max must not be below request_bytes_max: the largest request would never fit"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key are given both or not at all")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ValueError("tls_client_ca needs tls_cert: only over TLS a client shows a certificate")
        if self.tls_cert is not None and self.advertised_url is not None and self.advertised_url.startswith("http://"):
            raise ValueError(f"advertised_url is {self.advertised_url}, but with tls_cert this gateway speaks https://")
        reached = reachable(self.host, self.kafka_host, self.registry_host)
        if self.auth == "off" and not self.insecure and reached:
            raise ValueError(
                f"host {reached[0]} can be reached from other machines, and auth is off: set auth=on, or insecure=true to let"
                " everyone do all"
            )
        if (self.workers or 1) > 1 and self.store.startswith("memory:"):
            raise ValueError("a store in memory can't be shared by workers")
        if self.port and self.operations_port == self.port:
            raise ValueError(f"port and ops_port are both {self.port}: give ops_port another (0: any free one)")
        return self

    @property
    def scheme(self) -> str:
        """Scheme of this gateway's own URL."""
        return "http" if self.tls_cert is None else "https"

    @property
    def url(self) -> str:
        """URL by which other gateways reach this one; with port 0 it is known only once the gateway listens."""
        return self.advertised_url or f"{self.scheme}://{self.host}:{self.port}"

    @property
    def _tls_connections_max(self) -> int:
        return self.connections_max + (0 if self.kafka_listen is None else self.kafka_connections_max)

    @property
    def operations_port(self) -> int | None:
        """Port of the operations listener; None if there is none."""
        if self.ops_port is None and not is_loopback(self.host):
            return OPERATIONS_PORT
        return self.ops_port

    @classmethod
    def read(cls, environment: Mapping[str, str], given: Mapping[str, Any]) -> Settings:
        """Return settings from ``TIDELOG_*`` of ``environment``, overridden by ``given``; None there means not given.

        Variables with the prefix that name no setting are ignored, since other programs share it. So are the service addresses
        that Kubernetes puts there. Raises ``SettingsError``.
        """
        values: dict[str, Any] = {}
        for name in cls.model_fields:
            value = environment.get(ENVIRONMENT_PREFIX + name.upper())
            if value is not None and value.strip() and not _SERVICE_LINK.fullmatch(value):
                values[name] = value
        values |= {name: value for name, value in given.items() if value is not None}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise SettingsError(_explain(error)) from None

    def process_bytes(self) -> int:
        """Return the most bytes that the process holds with these settings: the sum in the module's table."""
        return (
            BASELINE_BYTES
            + self.in_flight_bytes_max * IN_FLIGHT_COPIES
            + self.codec_threads * CODEC_WORKING_BYTES
            + self.answer_bytes_max
            + self.tail_cache_bytes_max
            + bounds.SCHEDULED_CACHE_BYTES
            + self.footer_cache_bytes_max
            + self.manifest_bytes_max
            + self.groups_bytes_max
            + self.queues_bytes_max
            + limits.TRANSACTIONS_BYTES_MAX
            + limits.TRANSACTIONAL_IDS_BYTES_MAX
            + OWN_COMMITS_BYTES_MAX
            + bounds.FETCH_LISTS_BYTES_MAX
            + (self.connections_max + OPERATIONS_CONNECTIONS_MAX) * CONNECTION_BYTES
            + (0 if self.kafka_listen is None else self.kafka_connections_max * CONNECTION_BYTES + KAFKA_KEPT_BYTES)
            + (0 if self.tls_cert is None else self._tls_connections_max * TLS_CONNECTION_BYTES)
            + (0 if self.auth == "off" else self.access_bytes_max + QUOTAS_BYTES_MAX)
            + (0 if self.audit_mode == "off" else 2 * AUDIT_BYTES_MAX)
            + self.readers * HELD_BYTES
        )


def _explain(error: ValidationError) -> str:
    lines = []
    for found in error.errors(include_url=False):
        name = ".".join(str(part) for part in found["loc"])
        said = "is no setting" if found["type"] == "extra_forbidden" else what_is_wrong(found)
        lines.append(f"{ENVIRONMENT_PREFIX}{name.upper()}: {said}" if name else said)
    return "; ".join(lines)


assert Settings(store="memory").process_bytes() <= PROCESS_BYTES_MAX
