"""A share group's settings by Kafka's names are those of its queue."""

from __future__ import annotations

import pytest

from gateway.kafka.group_settings import describe_settings, parse_changes
from gateway.queues.queues import default_settings
from log_format.errors import ErrorCode, RequestRefused

LOCK, COUNT, LOCKS = "share.record.lock.duration.ms", "share.delivery.count.limit", "share.partition.max.record.locks"
START, ISOLATION, SESSION = "share.auto.offset.reset", "share.isolation.level", "share.session.timeout.ms"


def test_settings_are_told_with_kafkas_defaults() -> None:
    """Also of a group that is not there yet."""
    for settings in (None, default_settings(["t"])):
        found = {one.name: one.value for one in describe_settings(settings)}
        assert (found[LOCK], found[COUNT], found[LOCKS], found[START]) == ("30000", "5", "2000", "latest")
        assert not any(one.is_set for one in describe_settings(settings))


def test_a_client_sets_a_queues_settings() -> None:
    """Of what means nothing here only the value that holds is taken."""
    given = {
        LOCK: "15000",
        COUNT: None,
        LOCKS: "100",
        START: "earliest",
        ISOLATION: "read_uncommitted",
        SESSION: "45000",
    }
    assert parse_changes(given) == {"lock_ms": 15_000, "max_deliveries": 5, "max_in_flight": 100, "start": "earliest"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((LOCK, value) for value in ("999", "x", "-1", "9" * 30, "²")),
        *((COUNT, "0"), (LOCKS, ""), (START, "by_duration:PT1H"), (SESSION, "30000")),
        *(("consumer.session.timeout.ms", "50000"), ("nonsense", "1")),
    ],
)
def test_what_can_not_be_kept_is_refused(name: str, value: str) -> None:
    """By the code INVALID_CONFIG: values out of range, settings of other groups, unknown names."""
    with pytest.raises(RequestRefused) as refused:
        parse_changes({name: value})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
