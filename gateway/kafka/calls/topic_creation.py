"""Automatic creation of topics that clients ask for, where the gateway's ``auto_create_topics`` and the request allow it.

Kafka's producers ask for a topic's metadata before they send to it, and again once they are told that it is unknown. So Produce
itself creates no topic, as with a broker.

Source: Kafka's ``auto.create.topics.enable``, KIP-361.
"""

from __future__ import annotations

from gateway.engine.open_topic import OpenTopic
from gateway.engine.start_resolver import TopicsByName
from gateway.kafka.administration import CONCURRENT_MAX, Right, administer
from gateway.kafka.call import KafkaCall
from gateway.kafka.calls.topics import create_topic
from gateway.tasks.parallel import run_parallel
from log_format.errors import ErrorCode, TidelogError


async def create_missing(call: KafkaCall, looked: TopicsByName) -> TopicsByName:
    """Create the missing topics of ``looked``, and return ``looked`` with each of them, or with the reason why it can't be
    created."""

    async def one(name: str) -> OpenTopic | TidelogError:
        try:
            await _create(call, name)
            return await call.engine.topics.fresh(name, call.engine.clock.monotonic_ms())
        except TidelogError as refusal:
            return refusal

    missing = [name for name, found in looked.items() if isinstance(found, OpenTopic) and not found.state.exists]
    return {**looked, **dict(zip(missing, await run_parallel(one, missing, limit=CONCURRENT_MAX), strict=True))}


async def _create(call: KafkaCall, name: str) -> None:
    """Create the topic unless it exists. Raise as ``create_topic`` does."""
    call.require("Describe", "topic", name)
    count, config = call.gateway.settings.auto_create_topics, call.engine.administration.parse_config({})
    try:
        await administer(call, Right("Create", "topic", name), lambda: create_topic(call, name, count, config))
    except TidelogError as refusal:
        if refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
