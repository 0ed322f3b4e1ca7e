"""The registry at an address of its own, for clients that can't take a path."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx

from tests.support.gateway_process import running_gateway
from tests.support.registry import Registry, record


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_the_same_registry_is_at_the_root_of_its_own_address(tmp_path: Path) -> None:
    """What is registered at one is at the other, and the rest of the gateway is not there."""
    port = _free_port()
    with running_gateway(tmp_path / "store", tmp_path / "log", "--registry", f"127.0.0.1:{port}") as gateway:
        own, below = Registry(f"http://127.0.0.1:{port}"), Registry(f"{gateway.url}/registry")
        schema_id = own.register("a/b", record("A", a="int"))
        assert below.call("GET", f"/schemas/ids/{schema_id}") == own.call("GET", f"/schemas/ids/{schema_id}")
        assert own.call("GET", "/subjects/a%2Fb/versions/latest")["id"] == schema_id
        assert own.call("GET", "/") == {}
        own.refused(404, "GET", "/v1/topics")
        own.refused(404, "GET", "/registry/subjects")
        assert httpx.get(f"{gateway.url}/healthz").status_code == 200
        own.close()
        below.close()
