"""Options of ``format("tidelog")``, with the names and meanings of Spark's Kafka source.

Options that are unknown, malformed or contradict each other are refused by name. Precedences documented for Kafka's source hold
here, too. ``kafka.group.id`` means ``groupId``; other options for Kafka's client (``kafka.*``) have no effect, and give a
warning.

Source: Spark's "Structured Streaming + Kafka Integration Guide", "Configuring the Kafka source".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from log_format.errors import DECODE_ERRORS
from log_format.records.filter import RecordFilter
from spark_pipeline.kafka_options import is_kafka_option, warn_no_effect
from spark_pipeline.option_refused import OptionRefused, check_topic
from spark_pipeline.source.offsets import EARLIEST, LATEST, Positions
from spark_pipeline.vended import VendedStore, may_receive_token

MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
"""Default of ``maxTriggerDelay``, as in Kafka."""

ROWS_PER_TASK: Final = 1_000_000
"""Default of ``maxRecordsPerPartition``: some seconds of work for a core, which is lost with an executor."""

_KNOWN: Final = (
    "store",
    "gateway",
    "tokenFile",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "failOnDataLoss",
    "includeHeaders",
    "filterHeaders",
    "filterKey",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupId",
)
_KAFKA_GROUP: Final = "kafka.group.id"
_DURATION: Final = re.compile(r"\s*([0-9]{1,9})\s*([a-z]+)?\s*", re.IGNORECASE)
_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """Topics to read: ``topics`` by name, or all whose whole name matches ``pattern``, or only some partitions of each topic."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Begin or end of reading; the first member that is not None holds.

    ``timestamp_ms`` for every partition, ``timestamps_ms`` by topic and partition, else ``offsets``: ``EARLIEST`` or ``LATEST``
    for all, or by topic and partition.
    """

    timestamp_ms: int | None
    timestamps_ms: Positions | None
    offsets: int | Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Parsed options; see the module. Counts are of records; ``ending`` is for batch queries, the trigger's bounds for
    streams."""

    store: str | VendedStore
    subscription: Subscription
    starting: Boundary
    ending: Boundary
    fail_on_missing_timestamp: bool
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_ms_max: int
    fail_on_data_loss: bool
    include_headers: bool
    record_filter: RecordFilter | None
    """Filter of the records to read; None: all."""
    tasks_min: int | None
    rows_per_task_max: int
    group: str | None


def parse_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Return the options of a query. Raises ``OptionRefused``."""
    options = _Options(given)
    maximum, minimum = options.count("maxOffsetsPerTrigger"), options.count("minOffsetsPerTrigger")
    if maximum is not None and minimum is not None and minimum > maximum:
        raise OptionRefused("minOffsetsPerTrigger", f"{minimum} is more than maxOffsetsPerTrigger, {maximum}")
    if streaming:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if name in options:
                raise OptionRefused(name, "a stream has no end; Trigger.AvailableNow ends with what is there")
    subscription = _subscription(options)
    return SourceOptions(
        store=_store(options, subscription),
        subscription=subscription,
        starting=_starting(options, streaming=streaming),
        ending=_ending(options),
        fail_on_missing_timestamp=_fail_on_missing_timestamp(options),
        offsets_per_trigger_max=maximum,
        offsets_per_trigger_min=minimum,
        trigger_delay_ms_max=options.duration_ms("maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        include_headers=includes_headers(given),
        record_filter=_record_filter(options),
        tasks_min=options.count("minPartitions"),
        rows_per_task_max=options.count("maxRecordsPerPartition") or ROWS_PER_TASK,
        group=options.get("groupId"),
    )


def _record_filter(options: _Options) -> RecordFilter | None:
    text, key = options.get("filterHeaders"), options.get("filterKey")
    try:
        conditions = [] if text is None else msgspec.json.decode(text.encode(), type=list[str])
        return RecordFilter.from_texts(conditions, None if key is None else key.encode())
    except ValueError as problem:
        raise OptionRefused("filterHeaders", f'{problem}; it is written ["name:value", "name:*"]') from problem


def parse_place(given: Mapping[str, str]) -> tuple[str | VendedStore, Subscription]:
    """Return where a query reads, and what. Raises ``OptionRefused``."""
    options = _Options(given)
    subscription = _subscription(options)
    return _store(options, subscription), subscription


def includes_headers(given: Mapping[str, str]) -> bool:
    """Return whether ``includeHeaders`` asks for the column ``headers``. Raises ``OptionRefused``."""
    return _Options(given).flag("includeHeaders", default=False)


class _Options:
    """Given options, by name in any case; unknown ones are refused."""

    def __init__(self, given: Mapping[str, str]) -> None:
        known = {name.lower(): name for name in _KNOWN}
        for name, value in given.items():
            if name.lower() in known:
                continue
            if is_kafka_option(name):
                if name.lower() != _KAFKA_GROUP:
                    warn_no_effect(name, str(value))
                continue
            raise OptionRefused(name, f"there is no such option; there are {', '.join(_KNOWN)}")
        self._values = {known[name.lower()]: str(value) for name, value in given.items() if name.lower() in known}
        group = next((str(value) for name, value in given.items() if name.lower() == _KAFKA_GROUP), None)
        if group is not None and self._values.setdefault("groupId", group) != group:
            raise OptionRefused("groupId", f"is {self._values['groupId']!r}, and kafka.group.id is {group!r}")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is not None and not value.strip():
            raise OptionRefused(name, "is empty")
        return value

    def store(self) -> str:
        store = self.get("store")
        if store is None:
            raise OptionRefused("store", "is missing: a directory or s3://bucket/prefix")
        return store

    def count(self, name: str) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        if not text.strip().isdecimal() or int(text) < 1:
            raise OptionRefused(name, f"{text!r} is not a number from 1 on")
        return int(text)

    def timestamp_ms(self, name: str) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        if not text.strip().isdecimal():
            raise OptionRefused(name, f"{text!r} is not a time in milliseconds since the epoch")
        return int(text)

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.get(name)
        if text is None:
            return default
        if text.strip().lower() not in ("true", "false"):
            raise OptionRefused(name, f"{text!r} is neither true nor false")
        return text.strip().lower() == "true"

    def duration_ms(self, name: str, default_ms: int) -> int:
        text = self.get(name)
        if text is None:
            return default_ms
        match = _DURATION.fullmatch(text)
        unit = _UNITS_MS.get((match.group(2) or "ms").lower()) if match else None
        if match is None or unit is None:
            raise OptionRefused(name, f"{text!r} is not a duration like 500ms, 30s, 15m, 1h")
        return int(match.group(1)) * unit

    def partitions(self, name: str) -> Positions | None:
        """Return an option's object of numbers by topic and partition."""
        text = self.get(name)
        if text is None:
            return None
        try:
            found = msgspec.json.decode(text.encode(), type=dict[str, dict[str, int]])
            return {topic: {_partition(number): at for number, at in of.items()} for topic, of in found.items()}
        except (*DECODE_ERRORS, ValueError) as problem:
            raise OptionRefused(name, f'{problem}; it is written {{"topic": {{"0": 23, "1": -2}}}}') from problem

    def topics_and_partitions(self, name: str) -> dict[str, tuple[int, ...]] | None:
        """Return an option's object of lists of partitions by topic."""
        text = self.get(name)
        if text is None:
            return None
        try:
            found = msgspec.json.decode(text.encode(), type=dict[str, list[int]])
        except DECODE_ERRORS as problem:
            raise OptionRefused(name, f'{problem}; it is written {{"topic": [0, 1]}}') from problem
        if not found or any(not of or min(of) < 0 for of in found.values()):
            raise OptionRefused(name, "names no partition of a topic, or one below 0")
        return {topic: tuple(sorted(set(of))) for topic, of in found.items()}


def _partition(number: str) -> int:
    if not number.isdecimal():
        raise ValueError(f"{number!r} is not a partition")
    return int(number)


def _store(options: _Options, subscription: Subscription) -> str | VendedStore:
    """Return the store, or with ``gateway`` and ``tokenFile`` the store with credentials vended by the gateway."""
    uri, gateway, token_file = options.store(), options.get("gateway"), options.get("tokenFile")
    if gateway is None and token_file is None:
        return uri
    if gateway is None or token_file is None:
        raise OptionRefused("gateway" if gateway is None else "tokenFile", "is missing: the two go together")
    if not uri.startswith(("s3://", "s3a://")):
        raise OptionRefused("gateway", "vends credentials for S3 only: leave it out for a directory")
    if not may_receive_token(gateway):
        raise OptionRefused("gateway", f"{gateway!r} is not https://host:port; http:// is for this machine only")
    if subscription.pattern is not None:
        raise OptionRefused("subscribePattern", "does not go with gateway: credentials are for topics by name")
    if "groupId" in options:
        raise OptionRefused("groupId", "does not go with gateway: its credentials only read")
    return VendedStore(uri, gateway.rstrip("/"), token_file, subscription.topics)


def _subscription(options: _Options) -> Subscription:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if name in options]
    if len(ways) > 1:
        raise OptionRefused(ways[1], f"contradicts {ways[0]}: give one of subscribe, subscribePattern and assign")
    if not ways:
        raise OptionRefused("subscribe", "is missing: give one of subscribe, subscribePattern and assign")
    assigned = options.topics_and_partitions("assign")
    if assigned is not None:
        return Subscription(topics=_topic_names("assign", assigned), assigned=assigned)
    pattern = options.get("subscribePattern")
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as problem:
            raise OptionRefused("subscribePattern", f"{pattern!r} is not a regular expression: {problem}") from problem
        return Subscription(pattern=pattern)
    names = [name.strip() for name in (options.get("subscribe") or "").split(",")]
    return Subscription(topics=_topic_names("subscribe", [name for name in names if name]))


def _topic_names(option: str, names: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(names))
    if not found:
        raise OptionRefused(option, "names no topic")
    for name in found:
        check_topic(option, name)
    return found


def _starting(options: _Options, *, streaming: bool) -> Boundary:
    boundary = _boundary(options, "starting", LATEST if streaming else EARLIEST)
    if streaming or boundary.timestamp_ms is not None or boundary.timestamps_ms is not None:
        return boundary
    if boundary.offsets == LATEST or (isinstance(boundary.offsets, dict) and _names(boundary.offsets, LATEST)):
        raise OptionRefused("startingOffsets", "latest (-1) is where a batch query ends, it can't begin there")
    return boundary


def _ending(options: _Options) -> Boundary:
    boundary = _boundary(options, "ending", LATEST)
    if boundary.offsets == EARLIEST or (isinstance(boundary.offsets, dict) and _names(boundary.offsets, EARLIEST)):
        raise OptionRefused("endingOffsets", "earliest (-2) is where a query begins, it can't end there")
    return boundary


def _boundary(options: _Options, side: str, default: int) -> Boundary:
    name = f"{side}Offsets"
    text = (options.get(name) or "").strip().lower()
    offsets: int | Positions | None = {"": default, "earliest": EARLIEST, "latest": LATEST}.get(text)
    if offsets is None:
        offsets = options.partitions(name)
        assert offsets is not None
        if any(offset < EARLIEST for of in offsets.values() for offset in of.values()):
            raise OptionRefused(name, "an offset is 0 or more, -1 for the latest or -2 for the earliest")
    timestamps = options.partitions(f"{side}OffsetsByTimestamp")
    if timestamps is not None and any(time < 0 for of in timestamps.values() for time in of.values()):
        raise OptionRefused(f"{side}OffsetsByTimestamp", "a time is in milliseconds since the epoch")
    return Boundary(timestamp_ms=options.timestamp_ms(f"{side}Timestamp"), timestamps_ms=timestamps, offsets=offsets)


def _names(positions: Positions, offset: int) -> bool:
    return any(offset in of.values() for of in positions.values())


def _fail_on_missing_timestamp(options: _Options) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = (options.get(name) or "error").strip().lower()
    if text not in ("error", "latest"):
        raise OptionRefused(name, f"{text!r} is neither error nor latest")
    return text == "error"
