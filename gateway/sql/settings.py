"""The setting of SQL; part of ``gateway.settings``."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, Field

PROCESS_BYTES: Final = 512 * 1024 * 1024
"""Memory of a statement's process while it runs."""


class SqlSettings(BaseModel):
    """Setting of SQL. Each field says what changing it does."""

    sql: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Whether POST /v1/sql answers questions about topics. A process of low priority runs one statement after the"
        f" other, in up to {PROCESS_BYTES >> 20} MiB beside the gateway, and ends with it. Each of several workers has its own."
        " on needs Linux and the extra tidelog[sql]. auto: where these are there, but not with insecure=true and auth=off, since"
        " anyone may ask then.",
    )
