"""The settings of flushes that begin before ``flush.ms`` is over; part of ``gateway.settings``."""

from __future__ import annotations

from pydantic import BaseModel, Field

from gateway.engine import bounds

_SAVINGS_MS_MAX = 366 * 24 * 3_600_000


class FlushSettings(BaseModel):
    """Settings of early flushes. Each field says what changing it does."""

    flush_savings_first_ms: int = Field(
        default=bounds.FLUSH_SAVINGS_FIRST_MS,
        ge=0,
        le=_SAVINGS_MS_MAX,
        description="What a new topic or journal may spend on flushes that begin before its flush.ms is over, where senders"
        " wait for an answer; one that is opened has what was earned since it was last written to, this much at most. Each"
        " flush costs flush.ms; what is not spent is saved. A topic's delayed records have as much, and so have the commits of"
        " groups and those of queues, an hour at most.",
    )
    flush_savings_max_ms: int = Field(
        default=bounds.FLUSH_SAVINGS_MS,
        ge=0,
        le=_SAVINGS_MS_MAX,
        description="The most that each saves; groups and queues no more than an hour. 0: every flush waits for flush.ms, and"
        " commits of groups and of queues keep their pace.",
    )
