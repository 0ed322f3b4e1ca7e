"""The settings of monitoring; part of ``gateway.settings``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class MonitoringSettings(BaseModel):
    """Settings of monitoring. Each field says what changing it does."""

    metrics_history: Literal["on", "off"] = Field(
        default="on",
        description="Whether this gateway keeps a history of its metrics in the topic __metrics: at most 24 PUTs an hour, none"
        " while no record is sent or read.",
    )
    alarm_webhook_file: str | None = Field(
        default=None,
        min_length=1,
        description="File whose only line is the URL of a webhook that is told of this gateway's alarms, in the format of"
        " Prometheus' Alertmanager. Default: nothing is told.",
    )
