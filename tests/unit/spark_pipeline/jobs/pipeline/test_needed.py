"""A pipeline that its topic makes needless says so, and what to do instead; one that does more is left in peace."""

from __future__ import annotations

from typing import Any

import pytest

from log_format.topic.config import TopicConfig
from spark_pipeline.jobs.pipeline.needed import advice
from spark_pipeline.jobs.pipeline.settings import read_settings

GOLD = {
    "delays": {
        "event_time": "at",
        "watermark": "1 hour",
        "window": "1 hour",
        "group_by": ["hour"],
        "columns": {"flights": "count(*)"},
    }
}


def told(typed: bool, **more: Any) -> str | None:
    """What is said of a pipeline with these settings beside the necessary ones."""
    options = {"store": "/log", "topic": "flights", "output": "/lake", "schema": "hour INT, at TIMESTAMP NOT NULL"}
    config = TopicConfig.parse({"value.schema": "flights-value"} if typed else {})
    return advice(read_settings(None, options | more), config)


def test_columns_alone_need_no_pipeline() -> None:
    """With a schema the table is named, without one the commands that give the topic one."""
    said = told(typed=True)
    assert said is not None
    assert "not needed" in said
    assert "/log/topics/flights" in said
    said = told(typed=False)
    assert said is not None
    assert "'tidelog topic alter flights --value-schema flights-value --backfill'" in said


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"checks": {"hour: off": "hour < 24"}}, "its checks."),
        ({"gold": GOLD}, "its aggregates."),
        ({"checks": {"hour: off": "hour < 24"}, "gold": GOLD}, "its checks and aggregates."),
    ],
)
def test_what_a_topic_cant_do_needs_one(more: dict[str, Any], what: str) -> None:
    """Of a typed topic it is said which part the pipeline is for; of another nothing."""
    said = told(typed=True, **more)
    assert said is not None
    assert said.endswith(f"still needed for {what}")
    assert told(typed=False, **more) is None
