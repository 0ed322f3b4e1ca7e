"""Look-ups of the topics that a request names; rights are checked first, so that a caller without them causes no reads of the
store."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.open_topic import OpenTopic
from gateway.engine.start_resolver import TopicsByName
from gateway.kafka.call import KafkaCall, yield_to_loop
from log_format.errors import TidelogError


async def look_up_topics(call: KafkaCall, names: Iterable[str], arrival_ms: int) -> TopicsByName:
    """Look up topics, each once.

    Args:
        call: The request.
        names: Topics.
        arrival_ms: Monotonic time; the topics' states are read after it.

    Returns:
        Each topic that the caller may describe; for the others the error.
    """
    found: dict[str, OpenTopic | TidelogError] = {}
    wanted = []
    for number, name in enumerate(dict.fromkeys(names), 1):
        try:
            call.require("Describe", "topic", name)
        except TidelogError as refusal:
            found[name] = refusal
        else:
            wanted.append(FetchFrom(topic=name, partition=0))
        await yield_to_loop(number)
    return {**found, **(await call.engine.start_resolver.fresh(wanted, arrival_ms) if wanted else {})}
