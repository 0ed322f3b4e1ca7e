"""Dead records are in the dead letter topic once, and are redriven once (docs/http-api.md section 11.4)."""

from __future__ import annotations

from tests.support.http_api import Api
from tests.support.queue_calls import Queue, dead, headers, values


def test_a_rejected_record_goes_to_the_dead_letter_topic(api: Api) -> None:
    """A rejected record goes to the dead letter topic."""
    letters = api.topic()
    queue = Queue(api, dead_letter_topic=letters)
    queue.produce("a", "b", key="k", headers={"own": "1"})
    first, second = queue.receive()
    queue.settle(first, action="reject", reason="broken")
    queue.settle(second)
    (letter,) = dead(api, letters)
    assert (letter["key"], letter["value"]) == ("k", "a")
    found = headers(letter)
    assert found.pop("tidelog-dlq-proof")
    assert found == {
        "own": "1",
        "tidelog-dlq-topic": queue.topic,
        "tidelog-dlq-partition": "0",
        "tidelog-dlq-offset": "0",
        "tidelog-dlq-deliveries": "1",
        "tidelog-dlq-reason": "broken",
        "tidelog-dlq-queue": queue.name,
    }
    queue.becomes(start_offset=2, lag=0)


def test_without_a_dead_letter_topic_it_is_dropped(api: Api) -> None:
    """Without a dead letter topic it is dropped."""
    queue = Queue(api)
    queue.produce("a")
    queue.settle(*queue.receive(), action="reject")
    queue.stands(start_offset=1, lag=0)
    api.refused(queue.call("redrive", {}), 409, "NO_DEAD_LETTER_TOPIC")


def test_after_max_deliveries_a_record_is_dead_without_a_receiver(api: Api) -> None:
    """After max deliveries a record is dead without a receiver."""
    letters = api.topic()
    queue = Queue(api, dead_letter_topic=letters, max_deliveries=2, lock_ms=1000)
    queue.produce("released", "forgotten")
    queue.settle(*queue.receive(), action="release")
    released, forgotten = queue.receive()
    assert (released["delivery_count"], forgotten["delivery_count"]) == (2, 2)
    queue.settle(released, action="release")
    found = dead(api, letters, 2)
    assert {one["value"]: headers(one)["tidelog-dlq-reason"] for one in found} == {
        "released": "max_deliveries",
        "forgotten": "max_deliveries",
    }
    assert {headers(one)["tidelog-dlq-deliveries"] for one in found} == {"2"}
    assert queue.receive() == []


def test_a_dead_letter_topic_that_is_gone_is_named(api: Api) -> None:
    """A redrive says which topic does not exist: the settings name one."""
    letters = api.topic()
    queue = Queue(api, dead_letter_topic=letters)
    assert api.http.delete(f"/v1/topics/{letters}").status_code == 204
    problem = api.refused(queue.call("redrive", {}), 409, "NO_DEAD_LETTER_TOPIC")
    assert f"{letters!r} does not exist" in problem["detail"]


def test_redrive_produces_each_dead_letter_once(api: Api) -> None:
    """Redrive produces each dead letter once."""
    letters, other = api.topic(), api.topic()
    queue = Queue(api, dead_letter_topic=letters)
    api.produce(letters, {"value": "a stranger's"})
    queue.produce("a", "b", "c", headers={"own": "1"})
    queue.settle(*queue.receive(), action="reject")
    dead(api, letters, 4)
    assert queue.call("redrive", {"max_records": 1}).json() == {"redriven": 1}
    assert queue.call("redrive", {"to_topic": other}).json() == {"redriven": 2}
    assert queue.call("redrive", {}).json() == {"redriven": 0}
    assert sorted(values(api.records(other)) + values(queue.receive())) == ["a", "b", "c"]
    assert headers(api.records(other)[0]) == {"own": "1"}
    api.refused(queue.call("redrive", {"to_topic": "no-such-topic"}), 404, "UNKNOWN_TOPIC")
    problem = api.refused(queue.call("redrive", {"max_records": 0}), 400, "INVALID_REQUEST")
    assert problem["errors"][0]["where"] == "/max_records"
