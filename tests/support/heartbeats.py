"""Heartbeats of gateways."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.cluster.heartbeat import Heartbeat

_HEARTBEAT = Heartbeat(
    id="a", instance="a-1", beat=1, url="http://a:1", started_at=0, version="1", owned_topics=0, issued_at=0,
    journals=True, hops=True,
)  # fmt: skip


def heartbeat(name: str, **fields: Any) -> Heartbeat:
    """Of a gateway's first start, which serves whatever there is, but for ``fields``."""
    of_name = {"id": name, "instance": f"{name}-1", "url": f"http://{name}:1"}
    return msgspec.structs.replace(_HEARTBEAT, **{**of_name, **fields})
