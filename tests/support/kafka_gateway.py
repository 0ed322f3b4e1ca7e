"""A gateway process with a listener for Kafka's clients."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.gateway_process import GatewayProcess


class KafkaGateway(GatewayProcess):
    """``kafka`` is ``host:port``."""

    kafka: str


@contextlib.contextmanager
def kafka_gateway(store: str | Path, log_path: Path, *settings: str, **more: Any) -> Iterator[KafkaGateway]:
    """One that runs, and ends with the block: with status 0."""
    address = f"127.0.0.1:{_free_port()}"
    gateway = KafkaGateway(store, log_path, "--kafka-listen", address, *settings, **more)
    gateway.kafka = address
    try:
        yield gateway
    finally:
        status = gateway.end()
    assert status == 0, gateway.log()[-3000:]


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
