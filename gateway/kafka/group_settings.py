"""A share group's settings by Kafka's names: they are the settings of its queue.

1. A name that a queue has no setting for is shown with the value that holds here, and no other value is accepted.
2. ``share.isolation.level`` is accepted with any value: visible records are always committed.
3. The session timeout and heartbeat interval of consumer groups whose partitions the gateway assigns are shown as they hold here.
   Settings of Kafka Streams are unknown.

docs/kafka.md has the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from gateway.groups.bounds import SESSION_TIMEOUT_MS_DEFAULT
from gateway.groups.calls.groups import heartbeat_interval_ms
from gateway.kafka.topic_settings import INT, STRING, DescribedSetting, setting_refusal
from log_format import limits
from log_format.queues.row import EARLIEST, LATEST, QueueSettings

START: Final = "share.auto.offset.reset"
SESSION_MS: Final = "share.session.timeout.ms"
HEARTBEAT_MS: Final = "share.heartbeat.interval.ms"
CONSUMER_SESSION_MS: Final = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_MS: Final = "consumer.heartbeat.interval.ms"


class _IntegerSetting(NamedTuple):
    """A number among the settings: its ``field`` of ``QueueSettings``, and its range."""

    field: str
    value_min: int
    value_max: int
    default: int


_NUMBERS: Final[Mapping[str, _IntegerSetting]] = MappingProxyType(
    {
        "share.delivery.count.limit": _IntegerSetting(
            "max_deliveries", 1, limits.DELIVERIES_MAX, limits.DELIVERIES_DEFAULT
        ),
        "share.partition.max.record.locks": _IntegerSetting(
            "max_in_flight", 1, limits.IN_FLIGHT_MAX, limits.IN_FLIGHT_DEFAULT
        ),
        "share.record.lock.duration.ms": _IntegerSetting(
            "lock_ms", limits.LOCK_MS_MIN, limits.LOCK_MS_MAX, limits.LOCK_MS_DEFAULT
        ),
    }
)
_FIXED: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {
        CONSUMER_HEARTBEAT_MS: (INT, str(heartbeat_interval_ms(SESSION_TIMEOUT_MS_DEFAULT))),
        CONSUMER_SESSION_MS: (INT, str(SESSION_TIMEOUT_MS_DEFAULT)),
        HEARTBEAT_MS: (INT, "3000"),
        "share.renew.acknowledge.enable": (STRING, "true"),
        SESSION_MS: (INT, "45000"),
    }
)
_ISOLATION: Final = "share.isolation.level"


def describe_settings(settings: QueueSettings | None) -> list[DescribedSetting]:
    """Return all settings, sorted by name. None: the group has no settings yet."""
    found = [DescribedSetting(name, value, kind, value) for name, (kind, value) in _FIXED.items()]
    found.append(DescribedSetting(_ISOLATION, "read_committed", STRING, "read_committed"))
    for name, one in _NUMBERS.items():
        value = one.default if settings is None else getattr(settings, one.field)
        found.append(DescribedSetting(name, str(value), INT, str(one.default), value != one.default))
    start = LATEST if settings is None else settings.start
    word = start if isinstance(start, str) else f"timestamp:{start}"
    found.append(DescribedSetting(START, word, STRING, LATEST, word != LATEST))
    return sorted(found, key=lambda one: one.name)


def parse_changes(given: Mapping[str, str | None]) -> dict[str, object]:
    """Translate settings of a Kafka client into changes of ``QueueSettings`` fields; None restores the default.

    Raises ``RequestRefused`` (``INVALID_CONFIG``).
    """
    found: dict[str, object] = {}
    for name, value in given.items():
        if name in _NUMBERS:
            found[_NUMBERS[name].field] = _number(name, _NUMBERS[name], value)
        elif name == START:
            if value not in (None, LATEST, EARLIEST):
                raise setting_refusal(name, f"must be {LATEST} or {EARLIEST}")
            found["start"] = value or LATEST
        elif name in _FIXED:
            if value is not None and value != _FIXED[name][1]:
                raise setting_refusal(name, f"is {_FIXED[name][1]} here, for every group")
        elif name != _ISOLATION:
            known = ", ".join(one.name for one in describe_settings(None))
            raise setting_refusal(name, f"is not a setting of a group; settings are {known}")
    return found


def _number(name: str, one: _IntegerSetting, value: str | None) -> int:
    if value is None:
        return one.default
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 20 else -1
    if not one.value_min <= number <= one.value_max:
        raise setting_refusal(name, f"must be {one.value_min} to {one.value_max}")
    return number
