"""A Kafka client's settings: those that mean something here, those that have nothing to act upon, and refused ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec


class Known(msgspec.Struct, frozen=True):
    """Of one client. ``used``: by its name there. ``without_effect``: sockets, metadata, brokers."""

    used: frozenset[str]
    without_effect: frozenset[str]

    def check(self, given: Mapping[str, Any], refuse: Callable[[str], Exception]) -> None:
        """Raise what ``refuse`` makes of a sentence where a name is neither."""
        unknown = sorted(given.keys() - self.used - self.without_effect)
        if unknown:
            raise refuse(f"{', '.join(unknown)}: Tidelog has nothing that these settings could mean")


class Security(msgspec.Struct, frozen=True):
    """What both clients say about their identity, by kafka-python's names."""

    protocol: str | None = None
    mechanism: str | None = None
    password: str | None = None
    token_of: Callable[[], str] | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def connection(self, servers: str | Sequence[str], refuse: Callable[[str], Exception]) -> dict[str, Any]:
        """Arguments of the SDK's clients. A token is the password of SASL's PLAIN, or what OAUTHBEARER's function returns.

        Raises what ``refuse`` makes of a sentence: where TLS is asked for, every address must be ``https://``.
        """
        protocol = (self.protocol or "PLAINTEXT").upper()
        addresses = servers.split(",") if isinstance(servers, str) else servers
        if protocol.endswith("SSL") and not all(each.strip().startswith("https://") for each in addresses):
            raise refuse(f"security protocol {protocol} needs addresses that begin with https://")
        files = {"ca_file": self.ca_file, "cert_file": self.cert_file, "key_file": self.key_file}
        given: dict[str, Any] = {name: value for name, value in files.items() if value is not None}
        if not protocol.startswith("SASL"):
            return given
        if self.mechanism == "PLAIN" and self.password is not None:
            return {**given, "token": self.password}
        if self.mechanism == "OAUTHBEARER" and self.token_of is not None:
            return {**given, "token": self.token_of}
        raise refuse("SASL here is PLAIN, with the token as password, or OAUTHBEARER with a function that returns it")


def compression_of(given: str | None, refuse: Callable[[str], Exception]) -> str | None:
    """Of requests, as the SDK takes it. What only Kafka's batches have becomes zstd where that is installed, else gzip."""
    from tidelog.arguments import zstd_available  # noqa: PLC0415 - asked once

    if given in {None, "none"}:
        return None
    if given == "gzip":
        return "gzip"
    if given in {"zstd", "lz4", "snappy"}:
        return "zstd" if zstd_available() else "gzip"
    raise refuse(f"{given!r} is no compression")
