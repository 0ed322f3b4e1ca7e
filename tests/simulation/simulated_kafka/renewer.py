"""One that deletes topics by their ids, and makes them anew. Behind a lost answer it asks again, by the same id."""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode as KafkaError

from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_kafka.clients import TRIES_MAX, KafkaClient
from tests.simulation.simulated_service import clients as by_http
from tests.simulation.simulated_service.network import Lost

ANOTHER_IS_QUICKER = 0.6
"""How often somebody else makes the topic anew before the one that lost an answer asks again."""


def renewer(client: KafkaClient) -> None:
    """Deletes topics and makes them anew."""
    around = client.around
    for _ in range(2 * around.turns):
        around.think()
        topic = around.rng.choice(around.topics)
        client.forget_ids()
        topic_id = client.topic_id(client.line(), topic)
        if topic_id is not None and around.rng.random() < client.faults.profile.recreation:
            _delete(client, topic, topic_id)
            around.judge.told["made anew"] += 1
        by_http.make(around, topic)
    client.leave()


def _delete(client: KafkaClient, topic: str, topic_id: UUID) -> None:
    client.judge.may_be_deleted.add(str(topic_id))
    for _ in range(TRIES_MAX):
        asked = [{"name": None, "topic_id": topic_id}]
        told = client.line().call("delete_topics", 6, topics=asked, timeout=30_000)
        if told is not Lost.NO_ANSWER:
            error = told.responses[0].error_code
            if error is KafkaError.unknown_server_error:
                raise Violation(f"a deletion of {topic_id} met an unforeseen error")
            if error in (KafkaError.none, KafkaError.unknown_topic_id):
                return
        if client.rng.random() < ANOTHER_IS_QUICKER:
            by_http.make(client.around, topic)
        client.pause()
