"""What a gateway counts: its page of metrics, as text. Raises what ``Transport.call`` raises."""

from __future__ import annotations

from tidelog.deadline import Deadline
from tidelog.http.transport import Request, Transport


def metrics_page(transport: Transport, deadline: Deadline) -> str:
    """In Prometheus's format. Raises ``Forbidden`` without the right to Describe the cluster."""
    request = Request(method="GET", target="/metrics", repeatable=True, reads=True)
    return transport.call(request, deadline).body.decode()
