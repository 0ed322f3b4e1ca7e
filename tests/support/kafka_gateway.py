"""A gateway process with a listener for Kafka's clients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.gateway_process import GatewayProcess
from tests.support.server_process import free_port


class KafkaGateway(GatewayProcess):
    """``kafka`` is ``host:port``."""

    kafka: str


@contextlib.contextmanager
def kafka_gateway(
    store: str | Path, log_path: Path, *settings: str, told: str = "127.0.0.1", **more: Any
) -> Iterator[KafkaGateway]:
    """One that runs, and ends with the block: with status 0. ``told`` is the host that clients are told."""
    port = free_port()
    address = f"{told}:{port}"
    listening = ("--kafka-listen", f"127.0.0.1:{port}", "--kafka-advertised", address)
    gateway = KafkaGateway(store, log_path, *listening, *settings, **more)
    gateway.kafka = address
    try:
        yield gateway
    finally:
        status = gateway.end()
    assert status == 0, gateway.log()[-3000:]
