"""The settings of a gateway's log; part of ``gateway.settings``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class LogSettings(BaseModel):
    """Settings of the log. Each field says what changing it does."""

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level that is logged. info has lines for requests; warning has none."
    )
    log_requests: Literal["all", "failures"] = Field(
        default="all",
        description="Requests that are a line each. failures: those with status 400 and above; others are in the metrics."
        " Messages between gateways are lines only where they fail.",
    )
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="json: an object a line. text: for people. auto: text on a terminal, else json."
    )
