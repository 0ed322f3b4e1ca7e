"""Looks at the topics that a request names: by the caller's rights first, so that a name costs the store nothing without them."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.locating import Topics
from gateway.engine.open_topic import OpenTopic
from gateway.kafka.call import KafkaCall, let_others_in
from log_format.errors import TidelogError


async def looked_at(call: KafkaCall, names: Iterable[str], arrival_ms: int) -> Topics:
    """Look once after ``arrival_ms`` (monotonic) at each topic that the caller may describe; else the reason is its value."""
    found: dict[str, OpenTopic | TidelogError] = {}
    wanted = []
    for number, name in enumerate(dict.fromkeys(names), 1):
        try:
            call.require("Describe", "topic", name)
        except TidelogError as refusal:
            found[name] = refusal
        else:
            wanted.append(FetchFrom(topic=name, partition=0))
        await let_others_in(number)
    return {**found, **(await call.engine.locating.fresh(wanted, arrival_ms) if wanted else {})}
