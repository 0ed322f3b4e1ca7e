"""EndTxn is judged by what it does, as the commit over HTTP is: Write on each topic with staged records."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.support.kafka_secured import Service


def test_a_commit_needs_write_on_each_topic_with_staged_records(service: Service, topic: str) -> None:
    """librdkafka is told which kind of right is missing, and nothing is in the topic."""
    own = f"tid-{uuid.uuid4().hex[:8]}"
    principal, token = service.user(("Write", "transactional_id", own), ("Write", "topic", topic))
    producer = Producer(service.settings(token) | {"transactional.id": own})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"a")
    producer.flush(20)
    service.secured.forget(principal)
    service.secured.allow(principal, "Write", "transactional_id", own)
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(20)
    assert refused.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    read = f"/v1/topics/{topic}/partitions/0/records?offset=earliest"
    assert service.secured.admin.http.get(read).json()["records"] == []
