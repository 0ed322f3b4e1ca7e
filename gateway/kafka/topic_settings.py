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

_SHARED: Final[Mapping[str, int]] = MappingProxyType(
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
class UnsupportedSetting:
    """A Kafka setting without a meaning here. ``is_ignored``: any value is accepted, but not stored."""

    type: int
    default: str
    is_ignored: bool = False


UNSUPPORTED: Final[Mapping[str, UnsupportedSetting]] = MappingProxyType(
    {
        "compression.gzip.level": UnsupportedSetting(INT, "-1"),
        "compression.lz4.level": UnsupportedSetting(INT, "9"),
        "compression.zstd.level": UnsupportedSetting(INT, "3"),
        "file.delete.delay.ms": UnsupportedSetting(LONG, "60000"),
        "flush.messages": UnsupportedSetting(LONG, _LONG_MAX),
        "flush.ms": UnsupportedSetting(LONG, _LONG_MAX),
        "follower.replication.throttled.replicas": UnsupportedSetting(LIST, ""),
        "index.interval.bytes": UnsupportedSetting(INT, "4096"),
        "leader.replication.throttled.replicas": UnsupportedSetting(LIST, ""),
        "local.retention.bytes": UnsupportedSetting(LONG, "-2"),
        "local.retention.ms": UnsupportedSetting(LONG, "-2"),
        "max.compaction.lag.ms": UnsupportedSetting(LONG, _LONG_MAX),
        "min.cleanable.dirty.ratio": UnsupportedSetting(DOUBLE, "0.5"),
        "min.insync.replicas": UnsupportedSetting(INT, "1", is_ignored=True),
        "preallocate": UnsupportedSetting(BOOLEAN, "false"),
        "remote.log.copy.disable": UnsupportedSetting(BOOLEAN, "false"),
        "remote.log.delete.on.disable": UnsupportedSetting(BOOLEAN, "false"),
        "remote.storage.enable": UnsupportedSetting(BOOLEAN, "false"),
        "segment.bytes": UnsupportedSetting(INT, "1073741824", is_ignored=True),
        "segment.index.bytes": UnsupportedSetting(INT, "10485760", is_ignored=True),
        "segment.jitter.ms": UnsupportedSetting(LONG, "0"),
        "segment.ms": UnsupportedSetting(LONG, "604800000", is_ignored=True),
        "unclean.leader.election.enable": UnsupportedSetting(BOOLEAN, "false", is_ignored=True),
    }
)


@dataclass(frozen=True, slots=True)
class DescribedSetting:
    """A setting as a Kafka client sees it. ``is_set``: a user set it, so it is not the default."""

    name: str
    value: str
    type: int
    default: str
    is_set: bool = False


def describe_settings(config: TopicConfig) -> Iterator[DescribedSetting]:
    """Yield all settings of a topic, sorted by name: by Kafka's names, and Tidelog's own with the prefix ``tidelog.``."""
    everything = [
        *_own_settings(config),
        *(DescribedSetting(name, one.default, one.type, one.default) for name, one in UNSUPPORTED.items()),
    ]
    yield from sorted(everything, key=lambda one: one.name)


def translate_settings(given: Mapping[str, str | None]) -> dict[str, object]:
    """Translate settings of a Kafka client into Tidelog's names; None restores the default. Raise ``RequestRefused``
    (``INVALID_CONFIG``)."""
    named: dict[str, object] = {}
    for name, value in given.items():
        foreign = UNSUPPORTED.get(name)
        if foreign is None:
            own = translate_name(name)
            named[own] = None if own == "compression.type" and value == _PRODUCER else value
        elif value is not None and not foreign.is_ignored and not _equal(value, foreign.default):
            raise setting_refusal(
                name, f"means nothing here, and is taken with Kafka's default only, {foreign.default!r}"
            )
    return named


def translate_name(name: str) -> str:
    """Return Tidelog's name of a setting. Raise ``RequestRefused`` (``INVALID_CONFIG``) if there is none."""
    if name in _SHARED:
        return name
    own = name.removeprefix(PROPERTY_PREFIX)
    if own != name and own in SETTINGS and own not in _SHARED:
        return own
    own_settings = ", ".join(PROPERTY_PREFIX + one for one in SETTINGS if one not in _SHARED)
    raise setting_refusal(name, f"is not a setting; settings are {', '.join(_SHARED)}, {own_settings}")


def is_list(name: str) -> bool:
    """Return whether values may be appended to the setting and subtracted from it."""
    return _SHARED.get(name) == LIST or (name in UNSUPPORTED and UNSUPPORTED[name].type == LIST)


def _own_settings(config: TopicConfig) -> Iterator[DescribedSetting]:
    for name, setting in SETTINGS.items():
        is_set = name in config.overrides
        value: ConfigValue = config.overrides.get(name, setting.default)
        if name == "compression.type":
            yield DescribedSetting(name, str(value) if is_set else _PRODUCER, STRING, _PRODUCER, is_set)
        elif name in _SHARED:
            yield DescribedSetting(name, str(value), _SHARED[name], str(setting.default), is_set)
        else:
            kind = LONG if isinstance(setting, IntegerSetting) else STRING
            yield DescribedSetting(PROPERTY_PREFIX + name, str(value), kind, str(setting.default), is_set)


def _equal(value: str, default: str) -> bool:
    return value.strip().lower() == default


def setting_refusal(name: str, what: str) -> RequestRefused:
    """Return the refusal of a setting (``INVALID_CONFIG``)."""
    return RequestRefused(
        f"{name[:80]} {what}.",
        code=ErrorCode.INVALID_CONFIG,
        errors=[{"where": f"/config/{name[:80]}", "what": what}],
    )
