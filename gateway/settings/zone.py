"""The setting for the availability zone of a gateway; part of ``gateway.settings``."""

from __future__ import annotations

from pydantic import BaseModel, Field

from gateway.network.hosts import ZONE_PATTERN


class ZoneSettings(BaseModel):
    """Setting of the zone. The field says what changing it does."""

    zone: str | None = Field(
        default=None,
        pattern=ZONE_PATTERN,
        description="Availability zone of this gateway, such as us-east-1a: clients that name theirs read and write in it, and"
        " bytes between gateways of different zones are counted. Default: it says none.",
    )
