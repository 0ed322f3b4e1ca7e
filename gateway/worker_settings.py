"""The settings of several gateways behind one port; part of ``gateway.settings``."""

from __future__ import annotations

from pydantic import BaseModel, Field


class WorkerSettings(BaseModel):
    """Each field says what changing it does."""

    workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Gateways behind this port, each a process with a core of its own. They share the memory for requests; what"
        " is known of topics and groups each has for itself.",
    )
    worker_ports: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="With several workers: the first one's own port, by which other gateways reach it; the next ones have the"
        " ports above. Default: any free ones.",
    )
