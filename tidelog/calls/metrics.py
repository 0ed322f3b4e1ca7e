"""A gateway's page of metrics, as text. Raises what ``Transport.call`` raises."""

from __future__ import annotations

from tidelog.calls.requests import read_request
from tidelog.deadline import Deadline
from tidelog.http.transport import Transport


def metrics_page(transport: Transport, deadline: Deadline) -> str:
    """Return the metrics in Prometheus's format. Raises ``Unauthorized`` without the right to Describe the cluster."""
    return transport.call(read_request("/metrics"), deadline).body.decode()
