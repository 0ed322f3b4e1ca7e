"""The setting about topics that no client has created; part of ``gateway.settings``."""

from __future__ import annotations

from pydantic import BaseModel, Field

from log_format import limits


class TopicSettings(BaseModel):
    """Settings of topics. Each field says what changing it does."""

    auto_create_topics: int = Field(
        default=0,
        ge=0,
        le=limits.PARTITION_COUNT_MAX,
        description="Partitions of a topic that the SDK's producers, the command line and Kafka's clients create by sending to"
        " it; they need Create on it. 0: sending to an unknown topic fails.",
    )
