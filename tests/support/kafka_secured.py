"""A gateway with ``auth=on`` and a listener for Kafka's clients, its administrator and its users."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

from tests.support.issuer import Issuer
from tests.support.kafka_gateway import KafkaGateway
from tests.support.secured import Secured


class Service(NamedTuple):
    """``issuer``: whose JWTs it takes."""

    gateway: KafkaGateway
    secured: Secured
    issuer: Issuer

    @property
    def kafka(self) -> str:
        return self.gateway.kafka

    def user(self, *rights: tuple[str, str, str]) -> tuple[str, str]:
        """A new principal with these rights, and its token."""
        principal = f"User:u-{uuid.uuid4().hex[:12]}"
        for right in rights:
            self.secured.allow(principal, *right)
        return principal, self.secured.token(principal)["token"]

    def settings(self, token: str) -> dict[str, Any]:
        """A librdkafka client's, with the token as password."""
        return {
            "bootstrap.servers": self.kafka,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "anything",
            "sasl.password": token,
        }
