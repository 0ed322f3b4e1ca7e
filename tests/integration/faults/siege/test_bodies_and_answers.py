"""Short bodies that become much, and records that become much when they are read: neither costs memory, nor anybody's time."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.support.attacks.bodies import ARROW, BODIES, BODY_BYTES, RECORDS, empty_headers
from tests.support.attacks.connections import read_slowly
from tests.support.gateway_process import StartGateway
from tests.support.siege import besiege
from tests.support.waiting import eventually


def test_bodies_that_become_much(tmp_path: Path, start_gateway: StartGateway) -> None:
    """16 MiB of the smallest things that there are, a few kilobytes as sent, are refused at no cost to others."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("t")
    sent = [(path, content_type, gzip.compress(make(), 1)) for path, content_type, make, _ in BODIES.values()]

    def attack() -> None:
        for (path, content_type, body), (name, (*_, status)) in zip(sent, BODIES.items(), strict=True):
            headers = {"Content-Type": content_type, "Content-Encoding": "gzip"}
            assert gateway.http.post(path, content=body, headers=headers).status_code == status, name

    besiege(gateway, attack)


@pytest.mark.parametrize("kind", ["value", "headers"])
def test_large_records_read_slowly(kind: str, tmp_path: Path, start_gateway: StartGateway) -> None:
    """A dozen clients that ask for very large records and read nothing hold no more memory than their share."""
    gateway = start_gateway(str(tmp_path / "store"), "--tail-cache-bytes-max", "0")
    gateway.topic("t", max_message_bytes=BODY_BYTES)
    body, content_type = (
        (b"\x01" * BODY_BYTES, "application/octet-stream") if kind == "value" else (empty_headers(65_536), ARROW)
    )
    for _ in range(2 if kind == "value" else 20):
        assert gateway.http.post(RECORDS, content=body, headers={"Content-Type": content_type}).status_code == 200
    besiege(gateway, lambda: read_slowly(gateway, f"{RECORDS}?offset=earliest", 12, 3))
    # What they held is free again when the gateway sees them go.
    assert eventually(lambda: gateway.fetch("t", max_records=1).status_code == 200)
    (record,) = gateway.fetch("t", max_records=1).json()["records"]
    assert len(record["value"]) == (BODY_BYTES if kind == "value" else 0)
    assert len(record["headers"]) == (0 if kind == "value" else 65_536)
