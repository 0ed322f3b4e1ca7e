"""Topic names and settings: Kafka's names and meanings, checked on entry.

Settings are table properties of the topic's Delta table, ``tidelog.<name>``. Only settings that a user set are stored, so that
``null`` can restore the default. Stored values are text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from log_format import limits
from log_format.errors import ErrorCode, RequestRefused
from log_format.topic.cluster_columns import ColumnsSetting
from log_format.topic.setting_rules import contradictions
from log_format.topic_name import NAME_RULE, is_topic_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PROPERTY_PREFIX: Final = "tidelog."
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_INT64_MAX: Final = 2**63 - 1
TABLE_AS_LOG: Final = "log"
"""Value of ``table.retention.*``: rows stay in the table as long as in the log."""
SUBJECT_CHARACTERS_MAX: Final = 1_000
"""Longest name of a subject of the schema registry."""

ConfigValue = int | str


class Subjects(NamedTuple):
    """The subjects of the registry that a topic's values and keys have schemas of; empty: none."""

    value: str = ""
    key: str = ""

    @property
    def are_set(self) -> bool:
        """Whether the topic is typed."""
        return bool(self.value or self.key)


UNTYPED: Final = Subjects()


@dataclass(frozen=True, slots=True)
class IntegerSetting:
    """An integer within ``[minimum, maximum]``."""

    default: int
    minimum: int
    maximum: int = _INT64_MAX

    def parse(self, value: object) -> int:
        """Return the value of an ``int``, or of text that is one. Raises ``ValueError`` with the allowed range."""
        number: int | None = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
            number = int(value)
        if number is None or not self.minimum <= number <= self.maximum:
            raise ValueError(f"must be an integer from {self.minimum} to {self.maximum}")
        return number


@dataclass(frozen=True, slots=True)
class ChoiceSetting:
    """A setting whose value is one of a few words, or one of a few lists of words."""

    default: str
    choices: tuple[str, ...]

    def parse(self, value: object) -> str:
        """Return the choice; the words of a list may come in any order. Raises ``ValueError`` with the choices."""
        if isinstance(value, str):
            words = ",".join(sorted(word.strip() for word in value.split(",")))
            if words in self.choices:
                return words
        raise ValueError(f"must be one of {', '.join(repr(choice) for choice in self.choices)}")


@dataclass(frozen=True, slots=True)
class TableRetentionSetting:
    """A setting that says how much of the table stays: ``log`` for as much as the log has, -1 for all, else a number."""

    default: str = TABLE_AS_LOG

    def parse(self, value: object) -> int | str:
        """Return ``log`` or the number, of an ``int`` or of text. Raises ``ValueError`` for anything else."""
        if value == TABLE_AS_LOG:
            return TABLE_AS_LOG
        try:
            return IntegerSetting(-1, -1).parse(value)
        except ValueError:
            raise ValueError(f"must be {TABLE_AS_LOG!r} or an integer from -1 to {_INT64_MAX}") from None


class TableRetention(NamedTuple):
    """How long rows stay in a topic's table: milliseconds and bytes, each None for as long as in the log, -1 for no limit."""

    retention_ms: int | None
    retention_bytes: int | None

    @property
    def keeps_archive(self) -> bool:
        """Whether rows stay in the table after they have left the log."""
        return self.retention_ms is not None or self.retention_bytes is not None


NO_TABLE_RETENTION: Final = TableRetention(None, None)


@dataclass(frozen=True, slots=True)
class SubjectSetting:
    """A setting that names a subject of the schema registry; empty: none."""

    default: str = ""

    def parse(self, value: object) -> str:
        """Return the subject. Raises ``ValueError`` for a name that none has."""
        if isinstance(value, str) and len(value) <= SUBJECT_CHARACTERS_MAX and (value.isprintable() or not value):
            return value
        raise ValueError(f"must be the name of a subject, at most {SUBJECT_CHARACTERS_MAX} printable characters")


SETTINGS: Final[
    Mapping[str, IntegerSetting | ChoiceSetting | SubjectSetting | TableRetentionSetting | ColumnsSetting]
] = MappingProxyType(
    {
        "retention.ms": IntegerSetting(604_800_000, -1),
        "retention.bytes": IntegerSetting(-1, -1),
        "table.retention.ms": TableRetentionSetting(),
        "table.retention.bytes": TableRetentionSetting(),
        "table.file.bytes": IntegerSetting(256 * 1024 * 1024, 1024 * 1024, 1024 * 1024 * 1024),
        "table.cluster.by": ColumnsSetting(),
        "cleanup.policy": ChoiceSetting("delete", ("delete", "compact", "compact,delete", "")),
        "delete.retention.ms": IntegerSetting(86_400_000, 0),
        "min.compaction.lag.ms": IntegerSetting(0, 0),
        "max.message.bytes": IntegerSetting(limits.RECORD_BYTES_DEFAULT, 0),
        "flush.ms": IntegerSetting(250, 0, limits.FLUSH_MS_MAX),
        "flush.bytes": IntegerSetting(8 * 1024 * 1024, 1),
        "compression.type": ChoiceSetting("zstd", ("zstd", "lz4", "snappy", "gzip", "uncompressed")),
        "message.timestamp.type": ChoiceSetting("CreateTime", ("CreateTime", "LogAppendTime")),
        "message.timestamp.before.max.ms": IntegerSetting(_INT64_MAX, 0),
        "message.timestamp.after.max.ms": IntegerSetting(_INT64_MAX, 0),
        "producer.id.expiration.ms": IntegerSetting(limits.PRODUCER_EXPIRATION_MS, 1),
        "owners": IntegerSetting(1, 1, limits.TOPIC_OWNERS_MAX),
        "commit.mode": ChoiceSetting("auto", ("auto", "own", "shared")),
        "delay.max.ms": IntegerSetting(limits.DELAY_MS_DEFAULT, 0, limits.DELAY_MS_MAX),
        "drain.ms": IntegerSetting(limits.DRAIN_MS, 1_000, 86_400_000),
        "deleted.file.retention.ms": IntegerSetting(
            limits.DELETED_FILE_RETENTION_MS, 0, limits.DELETED_FILE_RETENTION_MS_MAX
        ),
        "deleted.file.retention.count": IntegerSetting(limits.DELETED_FILES_KEPT, -1),
        "commit.retention.count": IntegerSetting(limits.COMMITS_KEPT, -1),
        "commit.retention.ms": IntegerSetting(
            limits.LOG_KEPT_MS_MIN, limits.LOG_KEPT_MS_MIN, limits.DELETED_FILE_RETENTION_MS_MAX
        ),
        "erase.grace.ms": IntegerSetting(86_400_000, 0, 604_800_000),
        "erase.keep": ChoiceSetting("key", ("key", "nothing")),
        "value.schema": SubjectSetting(),
        "key.schema": SubjectSetting(),
        "data.on.error": ChoiceSetting("reject", ("dead-letter", "mark", "reject")),
        "data.backfill": ChoiceSetting("off", ("off", "on")),
        "value.keep": ChoiceSetting("true", ("false", "true")),
    }
)

OWN_SETTINGS: Final = frozenset(
    {
        "table.retention.ms",
        "table.retention.bytes",
        "table.file.bytes",
        "table.cluster.by",
        "producer.id.expiration.ms",
        "owners",
        "deleted.file.retention.ms",
        "deleted.file.retention.count",
        "commit.retention.count",
        "commit.retention.ms",
        "erase.grace.ms",
        "erase.keep",
        "value.schema",
        "key.schema",
        "data.on.error",
        "data.backfill",
        "value.keep",
    }
)
"""Settings that only Tidelog has, and Kafka does not."""

SHOWN_WHERE_SET: Final = OWN_SETTINGS | {"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"}
"""Settings that are shown only if a user set them, since the HTTP contract does not name them."""


def subjects_named(config: Mapping[str, object]) -> list[str]:
    """Return the subjects of the registry that settings name, as a user gives them."""
    named = [config.get(name) for name, setting in SETTINGS.items() if isinstance(setting, SubjectSetting)]
    return [name for name in named if isinstance(name, str) and name]


def names_schemas(config: Mapping[str, object]) -> bool:
    """Return whether settings say by which schemas the topic's records are judged, or that they are not."""
    return any(isinstance(SETTINGS.get(name), SubjectSetting) for name in config)


DEAD_LETTERS_SUFFIX: Final = ".dead-letters"


def dead_letter_topic(topic: str) -> str:
    """Return the name of the topic for what is not of the topic's schemas (``data.on.error=dead-letter``)."""
    return f"{topic}{DEAD_LETTERS_SUFFIX}"


def dead_letter_topics_named(topic: str, config: Mapping[str, object]) -> list[str]:
    """Return the topics that records sent to a topic may go to instead, by settings as a user gives them."""
    return [dead_letter_topic(topic)] if config.get("data.on.error") == "dead-letter" else []


def check_topic_name(name: object) -> str:
    """Return the name if a topic may have it. Raises ``RequestRefused`` (``INVALID_TOPIC_NAME``)."""
    if isinstance(name, str) and is_topic_name(name):
        return name
    raise RequestRefused(
        f"{str(name)[:80]!r} can't name a topic: it {NAME_RULE}.",
        code=ErrorCode.INVALID_TOPIC_NAME,
        errors=[{"where": "/name", "what": NAME_RULE}],
    )


@dataclass(frozen=True, slots=True)
class AcceptedTimes:
    """The timestamps that a topic accepts now, in milliseconds since the epoch; both ends are accepted."""

    first_ms: int
    last_ms: int

    def __contains__(self, time_ms: int) -> bool:
        """Return whether the timestamp is accepted."""
        return self.first_ms <= time_ms <= self.last_ms

    def outside(self, times_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return the indices of the timestamps that are not accepted."""
        return ((times_ms < self.first_ms) | (times_ms > self.last_ms)).nonzero()[0]

    def __str__(self) -> str:
        """Describe the accepted range, for error messages."""
        settings = "message.timestamp.before.max.ms and message.timestamp.after.max.ms"
        return f"the topic accepts {self.first_ms} to {self.last_ms} now, by its {settings}"


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings of one topic. ``overrides`` are those that a user set; all others have their defaults."""

    overrides: Mapping[str, ConfigValue]

    @classmethod
    def parse(cls, given: Mapping[str, object], *, request_bytes_max: int = limits.REQUEST_BYTES_MAX) -> TopicConfig:
        """Parse settings as a user gives them; ``None`` stands for the default.

        Raises ``RequestRefused`` (``INVALID_CONFIG``) that lists the unknown settings and the values out of range.
        """
        return cls(MappingProxyType({})).altered(given, request_bytes_max=request_bytes_max)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> TopicConfig:
        """Return the settings among a table's properties, ignoring unknown and unreadable ones."""
        return _shared_config(tuple(properties.get(property_name) for property_name in _PROPERTIES))

    def altered(self, given: Mapping[str, object], *, request_bytes_max: int = limits.REQUEST_BYTES_MAX) -> TopicConfig:
        """Return these settings with some changed; ``None`` restores the default. Raises like ``parse``."""
        overrides = dict(self.overrides)
        errors: list[dict[str, str]] = []
        for name, value in given.items():
            setting = SETTINGS.get(name)
            if setting is None:
                meant = "".join(f" (is {like} meant?)" for like in difflib.get_close_matches(name, SETTINGS, 1))
                what = f"is not a setting{meant}; settings are {', '.join(SETTINGS)}"
                errors.append({"where": f"/config/{_pointer(name)}", "what": what})
            elif value is None:
                overrides.pop(name, None)
            else:
                try:
                    overrides[name] = setting.parse(value)
                except ValueError as problem:
                    errors.append({"where": f"/config/{_pointer(name)}", "what": str(problem)})
        for name, what in contradictions(overrides, request_bytes_max):
            errors.append({"where": f"/config/{name}", "what": what})
        if errors:
            first = errors[0]
            raise RequestRefused(
                f"{first['where'].removeprefix('/config/')} {first['what']}.",
                code=ErrorCode.INVALID_CONFIG,
                errors=errors[: limits.REPORTED_ERRORS_MAX],
            )
        return TopicConfig(MappingProxyType(overrides))

    def properties(self) -> dict[str, str]:
        """Return the overrides as table properties."""
        return {PROPERTY_PREFIX + name: str(value) for name, value in self.overrides.items()}

    def effective(self) -> dict[str, ConfigValue]:
        """Return settings with their values, in the order of docs/http-api.md, section 3; ``SHOWN_WHERE_SET`` only if
        overridden."""
        return {
            name: self.overrides.get(name, setting.default)
            for name, setting in SETTINGS.items()
            if name not in SHOWN_WHERE_SET or name in self.overrides
        }

    def integer(self, name: str) -> int:
        """Return the value of an integer setting."""
        value = self.overrides.get(name, SETTINGS[name].default)
        assert isinstance(value, int)
        return value

    def choice(self, name: str) -> str:
        """Return the value of a choice setting."""
        value = self.overrides.get(name, SETTINGS[name].default)
        assert isinstance(value, str)
        return value

    def accepted_times(self, now_ms: int) -> AcceptedTimes | None:
        """Return the range of producers' timestamps that the topic accepts at ``now_ms``; None if it accepts or
        overwrites all."""
        before, after = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
        if before not in self.overrides and after not in self.overrides:
            return None
        if self.choice("message.timestamp.type") == "LogAppendTime":
            return None
        return AcceptedTimes(now_ms - self.integer(before), min(now_ms + self.integer(after), _INT64_MAX))

    @property
    def subjects(self) -> Subjects:
        """Subjects of the schemas of values and keys."""
        if "value.schema" not in self.overrides and "key.schema" not in self.overrides:
            return UNTYPED  # asked for with each batch
        return Subjects(self.choice("value.schema"), self.choice("key.schema"))

    @property
    def commit_mode(self) -> str:
        """Where the topic's appends are committed: ``commit.mode``, but a topic that leaves values out has its own commits, since
        a journal has no columns that stand for them."""
        return "own" if self.choice("value.keep") == "false" else self.choice("commit.mode")

    @property
    def table_retention(self) -> TableRetention:
        """How long rows stay in the table."""
        if "table.retention.ms" not in self.overrides and "table.retention.bytes" not in self.overrides:
            return NO_TABLE_RETENTION
        values = (self.overrides.get(f"table.retention.{unit}") for unit in ("ms", "bytes"))
        return TableRetention(*(value if isinstance(value, int) else None for value in values))

    @property
    def deletes_old(self) -> bool:
        """Whether retention removes old records."""
        return "delete" in self.choice("cleanup.policy")

    @property
    def needs_keys(self) -> bool:
        """Whether new records must have a key. With ``compact`` in ``cleanup.policy`` a record without one would stay
        for ever."""
        return "compact" in self.choice("cleanup.policy")


def _pointer(name: str) -> str:
    """Return a member's name as a token of a JSON pointer (RFC 6901, section 3)."""
    return name[:80].replace("~", "~0").replace("/", "~1")


_PROPERTIES: Final = tuple(PROPERTY_PREFIX + name for name in SETTINGS)


@lru_cache(maxsize=1_000)
def _shared_config(texts: tuple[str | None, ...]) -> TopicConfig:
    """Return the config with these values of ``_PROPERTIES``: the same object for all topics with equal ones."""
    overrides: dict[str, ConfigValue] = {}
    for (name, setting), text in zip(SETTINGS.items(), texts, strict=True):
        if text is not None:
            try:
                overrides[name] = setting.parse(text)
            except ValueError:
                continue
    return TopicConfig(MappingProxyType(overrides))
