"""The settings of TLS; part of ``gateway.settings``."""

from __future__ import annotations

from pydantic import BaseModel, Field


class TlsSettings(BaseModel):
    """Settings of TLS. Each field says what changing it does."""

    tls_cert: str | None = Field(
        default=None,
        min_length=1,
        description="PEM file of this gateway's certificate, with its chain behind it: the clients' port then speaks TLS (1.2"
        " or 1.3) and no plain HTTP. Read again when it changes. The operations listener stays plain.",
    )
    tls_key: str | None = Field(
        default=None, min_length=1, description="PEM file of the private key of tls_cert, without a password."
    )
    tls_ca: str | None = Field(
        default=None,
        min_length=1,
        description="PEM file of the authorities that other gateways' certificates must come from. Default: the system's.",
    )
    tls_client_ca: str | None = Field(
        default=None,
        min_length=1,
        description="PEM file of the authorities of client certificates: a client that shows one is the principal that its only"
        " subjectAltName URI names; with auth=off each must show one. Needs tls_cert, which this gateway shows to other gateways"
        " then. Read again when it changes.",
    )
    tls_peer_name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9._-]{1,253}$",
        description="Name that other gateways' certificates must have, where they share one and are reached by addresses."
        " Default: the host in the other's URL.",
    )
