"""The settings of the listener for Kafka's clients; part of ``gateway.settings``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final, Self

from pydantic import BaseModel, Field, model_validator

from gateway.network.hosts import ADDRESS_PATTERN

NEEDED: Final = ("aiokafka", "cramjam", "crc32c", "kio")
"""Libraries of the extra ``kafka``."""
KAFKA_KEPT_BYTES: Final = 24 * 1024 * 1024
"""Bytes that a listener keeps for all its connections: topics and batches as they were encoded, fetch sessions."""


class KafkaSettings(BaseModel):
    """Settings of Kafka's listener. Each field says what changing it does."""

    kafka_listen: str | None = Field(
        default=None,
        pattern=ADDRESS_PATTERN,
        description="HOST:PORT to listen on for Kafka's own clients; port 0: any free one. With several workers each listens at a"
        " port of its own, from this one on. Needs the extra tidelog[kafka]. Default: no such listener.",
    )
    kafka_advertised: str | None = Field(
        default=None,
        pattern=ADDRESS_PATTERN,
        description="HOST:PORT by which Kafka's clients reach this gateway's listener; with several workers the first one's."
        " Default: kafka_listen.",
    )
    kafka_connections_max: int = Field(
        default=1_000,
        ge=1,
        le=100_000,
        description="Open connections of Kafka's clients, TLS handshakes under way included. Past it a connection is closed at"
        " once.",
    )
    kafka_connections_per_address_max: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="Of these, from one address (IPv6: one /64). Default: three quarters of kafka_connections_max; from loopback"
        " all.",
    )

    @property
    def kafka_host(self) -> str | None:
        """Address of the listener; None if there is none."""
        return None if self.kafka_listen is None else self.kafka_listen.rpartition(":")[0].strip("[]")

    @model_validator(mode="after")
    def _is_installed(self) -> Self:
        if self.kafka_listen is not None and any(find_spec(name) is None for name in NEEDED):
            raise ValueError("kafka_listen needs more libraries: pip install 'tidelog[kafka]'")
        return self
