"""Topic settings by Kafka's names: which are Tidelog's, which have no meaning here, and which are refused.

1. A setting with the same meaning in Kafka and Tidelog has one name and one value in both APIs.
2. A setting that Kafka does not have, or defines otherwise, is ``tidelog.<name>``: ``flush.ms`` is how often Kafka's broker calls
   fsync, ``tidelog.flush.ms`` how long a gateway collects records.
3. A Kafka setting without a meaning here is shown with Kafka's default, and only that value is accepted. Where clients set it by
   themselves and no promise is broken, any value is accepted, but not stored.

docs/kafka.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from log_format.errors import ErrorCode, RequestRefused
from log_format.topic.config import PROPERTY_PREFIX, SETTINGS, ConfigValue, IntegerSetting, TopicConfig

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Kafka's numbers of the types of settings."""

_SAME: Final[Mapping[str, int]] = MappingProxyType(
    {
        "cleanup.policy": LIST,
        "compression.type": STRING,
        "delete.retention.ms": LONG,
        "max.message.bytes": INT,
        "message.timestamp.after.max.ms": LONG,
        "message.timestamp.before.max.ms": LONG,
        "message.timestamp.type": STRING,
        "min.compaction.lag.ms": LONG,
        "retention.bytes": LONG,
        "retention.ms": LONG,
    }
)
"""Settings with the same meaning in Kafka and Tidelog, with their type."""
_PRODUCER: Final = "producer"
"""Kafka's default of ``compression.type``: as the producer sent it. Tidelog's default is that of the stored files."""
_LONG_MAX: Final = str(2**63 - 1)


@dataclass(frozen=True, slots=True)
class Foreign:
    """A Kafka setting without a meaning here. ``is_ignored``: any value is accepted, but not stored."""

    type: int
    default: str
    is_ignored: bool = False


FOREIGN: Final[Mapping[str, Foreign]] = MappingProxyType(
    {
        "compression.gzip.level": Foreign(INT, "-1"),
        "compression.lz4.level": Foreign(INT, "9"),
        "compression.zstd.level": Foreign(INT, "3"),
        "file.delete.delay.ms": Foreign(LONG, "60000"),
        "flush.messages": Foreign(LONG, _LONG_MAX),
        "flush.ms": Foreign(LONG, _LONG_MAX),
        "follower.replication.throttled.replicas": Foreign(LIST, ""),
        "index.interval.bytes": Foreign(INT, "4096"),
        "leader.replication.throttled.replicas": Foreign(LIST, ""),
        "local.retention.bytes": Foreign(LONG, "-2"),
        "local.retention.ms": Foreign(LONG, "-2"),
        "max.compaction.lag.ms": Foreign(LONG, _LONG_MAX),
        "min.cleanable.dirty.ratio": Foreign(DOUBLE, "0.5"),
        "min.insync.replicas": Foreign(INT, "1", is_ignored=True),
        "preallocate": Foreign(BOOLEAN, "false"),
        "remote.log.copy.disable": Foreign(BOOLEAN, "false"),
        "remote.log.delete.on.disable": Foreign(BOOLEAN, "false"),
        "remote.storage.enable": Foreign(BOOLEAN, "false"),
        "segment.bytes": Foreign(INT, "1073741824", is_ignored=True),
        "segment.index.bytes": Foreign(INT, "10485760", is_ignored=True),
        "segment.jitter.ms": Foreign(LONG, "0"),
        "segment.ms": Foreign(LONG, "604800000", is_ignored=True),
        "unclean.leader.election.enable": Foreign(BOOLEAN, "false", is_ignored=True),
    }
)


@dataclass(frozen=True, slots=True)
class Told:
    """A setting as a Kafka client sees it. ``is_set``: a user set it, so it is not the default."""

    name: str
    value: str
    type: int
    default: str
    is_set: bool = False


def told(config: TopicConfig) -> Iterator[Told]:
    """Yield all settings of a topic, sorted by name: by Kafka's names, and Tidelog's own with the prefix ``tidelog.``."""
    everything = [*_ours(config), *(Told(name, one.default, one.type, one.default) for name, one in FOREIGN.items())]
    yield from sorted(everything, key=lambda one: one.name)


def own_names(given: Mapping[str, str | None]) -> dict[str, object]:
    """Translate settings of a Kafka client into Tidelog's names; None restores the default. Raise ``RequestRefused``
    (``INVALID_CONFIG``)."""
    named: dict[str, object] = {}
    for name, value in given.items():
        foreign = FOREIGN.get(name)
        if foreign is None:
            own = own_name(name)
            named[own] = None if own == "compression.type" and value == _PRODUCER else value
        elif value is not None and not foreign.is_ignored and not _equal(value, foreign.default):
            raise refused(name, f"means nothing here, and is taken with Kafka's default only, {foreign.default!r}")
    return named


def own_name(name: str) -> str:
    """Return Tidelog's name of a setting. Raise ``RequestRefused`` (``INVALID_CONFIG``) if there is none."""
    if name in _SAME:
        return name
    own = name.removeprefix(PROPERTY_PREFIX)
    if own != name and own in SETTINGS and own not in _SAME:
        return own
    own_settings = ", ".join(PROPERTY_PREFIX + one for one in SETTINGS if one not in _SAME)
    raise refused(name, f"is not a setting; settings are {', '.join(_SAME)}, {own_settings}")


def is_list(name: str) -> bool:
    """Return whether values may be appended to the setting and subtracted from it."""
    return _SAME.get(name) == LIST or (name in FOREIGN and FOREIGN[name].type == LIST)


def _ours(config: TopicConfig) -> Iterator[Told]:
    for name, setting in SETTINGS.items():
        is_set = name in config.overrides
        value: ConfigValue = config.overrides.get(name, setting.default)
        if name == "compression.type":
            yield Told(name, str(value) if is_set else _PRODUCER, STRING, _PRODUCER, is_set)
        elif name in _SAME:
            yield Told(name, str(value), _SAME[name], str(setting.default), is_set)
        else:
            kind = LONG if isinstance(setting, IntegerSetting) else STRING
            yield Told(PROPERTY_PREFIX + name, str(value), kind, str(setting.default), is_set)


def _equal(value: str, default: str) -> bool:
    return value.strip().lower() == default


def refused(name: str, what: str) -> RequestRefused:
    """Return the refusal of a setting (``INVALID_CONFIG``)."""
    return RequestRefused(
        f"{name[:80]} {what}.",
        code=ErrorCode.INVALID_CONFIG,
        errors=[{"where": f"/config/{name[:80]}", "what": what}],
    )
