"""The settings of the schema registry; part of ``gateway.settings``."""

from __future__ import annotations

from pydantic import BaseModel, Field

from gateway.engine.bounds import SCHEMAS_BYTES
from gateway.network.hosts import ADDRESS_PATTERN


class RegistrySettings(BaseModel):
    """Settings of the registry. Each field says what changing it does."""

    registry: str | None = Field(
        default=None,
        pattern=ADDRESS_PATTERN,
        description="HOST:PORT to listen on for clients of the schema registry that can't take a path; port 0: any free one. Of"
        " several workers the first listens. Default: no such listener; the registry is at /registry of the gateway's own"
        " address.",
    )
    schemas_bytes_max: int = Field(
        default=SCHEMAS_BYTES,
        ge=1024 * 1024,
        le=1 << 40,
        description="What the registry's schemas take in memory once one was asked for: about 1 KiB and the text for each. Past"
        " it 503 OVERLOADED for registrations. The same in all gateways.",
    )

    @property
    def registry_host(self) -> str | None:
        """Address of the listener; None if there is none."""
        return None if self.registry is None else self.registry.rpartition(":")[0].strip("[]")
