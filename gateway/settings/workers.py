"""The settings of several gateways behind one port; part of ``gateway.settings``."""

from __future__ import annotations

from pydantic import BaseModel, Field


class WorkerSettings(BaseModel):
    """Settings of workers. Each field says what changing it does."""

    workers: int | None = Field(
        default=None,
        ge=1,
        le=64,
        description="Gateways behind this port, each a process with a core of its own. They share the memory for requests; what"
        " is known of topics and groups each has for itself. Default: three for four cores that the process may use, 1 to 8,"
        " as far as their stated memory is there; one with kafka_listen, forwarding=off, a store in memory, auth=on without"
        " cluster_key_file, and where gateways of other machines are told this address and worker_ports is not set.",
    )
    worker_ports: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="With several workers: the first one's own port, by which other gateways reach it; the next ones have the"
        " ports above. Default: any free ones.",
    )
