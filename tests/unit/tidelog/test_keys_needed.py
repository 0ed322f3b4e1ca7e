"""Topics that compact keys: a record without one is refused by itself, and takes none of its company with it."""

from __future__ import annotations

import pytest

from tests.support.fake_gateway import FakeGateway
from tidelog import Producer
from tidelog.errors import InvalidRecord


def test_only_the_records_without_a_key_are_refused(gateway: FakeGateway) -> None:
    """Of one batch: the others are stored, in order."""
    gateway.create("t", 1, cleanup_policy="compact")
    with Producer(gateway.url, linger_ms=50, on_delivery=lambda *_: None) as producer:
        futures = [producer.send("t", f"{number}", key=None if number % 3 == 1 else "k") for number in range(6)]
        for number, future in enumerate(futures):
            if number % 3 == 1:
                with pytest.raises(InvalidRecord):
                    future.result(timeout=10)
            else:
                future.result(timeout=10)
    assert [record.value for record in gateway.topics["t"].records[0]] == [b"0", b"2", b"3", b"5"]


def test_a_policy_that_came_meanwhile_is_learned_of_the_refusal(gateway: FakeGateway) -> None:
    """What is known of the topic is old: the gateway refuses, the producer looks again, and sends what may be sent."""
    gateway.create("t", 1)
    with Producer(gateway.url, linger_ms=50, on_delivery=lambda *_: None) as producer:
        producer.send("t", "first").result(timeout=10)
        gateway.topics["t"].config["cleanup.policy"] = "compact"
        gateway.misbehave("POST .*/records", gateway.refuse(400, "INVALID_RECORD"))
        good, bad = producer.send("t", "second", key="k"), producer.send("t", "third")
        assert good.result(timeout=10).offset == 1
        with pytest.raises(InvalidRecord):
            bad.result(timeout=10)
