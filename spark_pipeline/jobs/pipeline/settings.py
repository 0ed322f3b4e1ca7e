"""Settings of a pipeline: from the command line, which takes precedence, and a TOML file.

::

    store = "s3://bucket/prefix"            # or a directory; --store
    topic = "flights"                       # --topic
    output = "s3://bucket/lake/flights"     # silver/, gold/<name>/ and checkpoints/ are made below; --output
    dead_letter_topic = "flights.bad"       # default: <topic>.dead-letters; --dead-letter-topic
    schema = "carrier STRING NOT NULL, hour INT, time_hour TIMESTAMP NOT NULL"      # DDL; --schema
    schema_file = "flight.schema.json"      # instead: JSON Schema, beside this file; --schema-file
    starting_offsets = "earliest"           # where a new pipeline begins: earliest, latest or the source's JSON
    max_offsets_per_trigger = 500000        # records of a micro-batch
    group = "flights-pipeline"              # a consumer group that shows the progress; default: none

    [checks]                                # what is said of a record that breaks it = what holds
    "hour: is not on the clock" = "hour BETWEEN 0 AND 23"

    [gold.delays]
    event_time = "time_hour"                # a column that is NOT NULL
    watermark = "3 hours"
    window = "1 hour"
    group_by = ["carrier"]
    unique = ["carrier", "flight", "time_hour"]     # default: none
    columns = { flights = "count(*)", mean_delay = "avg(dep_delay)" }
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from log_format.errors import StoreError
from log_format.stores import open_store
from spark_pipeline.jobs.pipeline.gold import Gold
from spark_pipeline.option_refused import OptionRefused, check_topic

MAX_OFFSETS_PER_TRIGGER: Final = 500_000
"""Records of a micro-batch: some seconds of work for two cores. At a kilobyte each they fit one commit of dead letters."""

_TEXTS: Final = ("store", "topic", "output", "dead_letter_topic", "schema", "schema_file", "starting_offsets", "group")
_GOLD_TEXTS: Final = ("event_time", "watermark", "window")
_GOLD_LISTS: Final = ("group_by", "unique")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one pipeline, with exactly one of ``ddl`` and ``json_schema``."""

    store: str
    topic: str
    output: str
    """Location without a trailing slash; a directory as an absolute ``file:`` URI."""
    dead_letter_topic: str
    ddl: str | None
    json_schema: object | None
    checks: Mapping[str, str]
    gold: tuple[Gold, ...]
    starting_offsets: str
    max_offsets_per_trigger: int
    group: str | None

    @property
    def silver(self) -> str:
        """Path of the table of rows."""
        return f"{self.output}/silver"

    def gold_table(self, gold: Gold) -> str:
        """Return the path of an aggregate's table."""
        return f"{self.output}/gold/{gold.name}"

    def checkpoint(self, query: str) -> str:
        """Return the path of a query's checkpoint."""
        return f"{self.output}/checkpoints/{query}"


def read_settings(config: str | None, options: Mapping[str, object]) -> Settings:
    """Return the settings of the file ``config`` (a path, ``s3://…`` or ``file:///…``), overridden by ``options`` that are not
    None.

    Raises ``OptionRefused`` that names what is missing, unknown or wrong.
    """
    values: dict[str, Any] = {}
    if config is not None:
        try:
            values = tomllib.loads(_read("config", config).decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise OptionRefused("config", f"{config} is no TOML: {problem}") from problem
    if options.get("schema") is not None or options.get("schema_file") is not None:
        values = {name: value for name, value in values.items() if name not in ("schema", "schema_file")}
    elif "schema_file" in values and config is not None:
        values["schema_file"] = _beside(config, str(values["schema_file"]))
    values |= {name: value for name, value in options.items() if value is not None}
    return _settings(values)


def _settings(values: Mapping[str, Any]) -> Settings:
    for name, value in values.items():
        if name not in (*_TEXTS, "max_offsets_per_trigger", "checks", "gold"):
            raise OptionRefused(name, "there is no such setting")
        if name in _TEXTS and not (isinstance(value, str) and value.strip()):
            raise OptionRefused(name, "is not a text")
    for name in ("store", "topic", "output"):
        if name not in values:
            raise OptionRefused(name, "is missing")
    if ("schema" in values) == ("schema_file" in values):
        raise OptionRefused("schema", "is missing, or schema_file is there, too: give one of them")
    dead_letter_topic = values.get("dead_letter_topic", f"{values['topic']}.dead-letters")
    for option, topic in (("topic", values["topic"]), ("dead_letter_topic", dead_letter_topic)):
        check_topic(option, topic)
    if dead_letter_topic == values["topic"]:
        raise OptionRefused("dead_letter_topic", "is the topic itself: its records would come back for ever")
    limit = values.get("max_offsets_per_trigger", MAX_OFFSETS_PER_TRIGGER)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise OptionRefused("max_offsets_per_trigger", "is not an integer of 1 or more")
    ddl, json_schema = _schema(values)
    return Settings(
        store=values["store"],
        topic=values["topic"],
        output=_uri(values["output"]),
        dead_letter_topic=dead_letter_topic,
        ddl=ddl,
        json_schema=json_schema,
        checks=_texts("checks", values.get("checks", {})),
        gold=_gold(values.get("gold", {})),
        starting_offsets=values.get("starting_offsets", "earliest"),
        max_offsets_per_trigger=limit,
        group=values.get("group"),
    )


def _schema(values: Mapping[str, Any]) -> tuple[str | None, object | None]:
    if "schema" in values:
        return values["schema"], None
    try:
        return None, json.loads(_read("schema_file", values["schema_file"]))
    except ValueError as problem:
        raise OptionRefused("schema_file", f"{values['schema_file']} is no JSON: {problem}") from problem


def _gold(given: object) -> tuple[Gold, ...]:
    if not isinstance(given, Mapping):
        raise OptionRefused("gold", "is no table")
    found: list[Gold] = []
    for name, table in given.items():
        at = f"gold.{name}"
        if not _NAME.fullmatch(name):
            raise OptionRefused(at, "a name is of a-z, 0-9 and _")
        if not isinstance(table, Mapping):
            raise OptionRefused(at, "is no table")
        for key in table:
            if key not in (*_GOLD_TEXTS, *_GOLD_LISTS, "columns"):
                raise OptionRefused(f"{at}.{key}", "there is no such setting")
        texts = {key: table.get(key) for key in _GOLD_TEXTS}
        for key, value in texts.items():
            if not isinstance(value, str):
                raise OptionRefused(f"{at}.{key}", "is missing, or no text")
        lists = {key: table.get(key, []) for key in _GOLD_LISTS}
        for key, value in lists.items():
            if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
                raise OptionRefused(f"{at}.{key}", "is no list of columns")
        columns = _texts(f"{at}.columns", table.get("columns", {}))
        if not columns:
            raise OptionRefused(f"{at}.columns", "is missing")
        found.append(
            Gold(
                name=name,
                event_time=str(texts["event_time"]),
                watermark=str(texts["watermark"]),
                window=str(texts["window"]),
                group_by=tuple(lists["group_by"]),
                unique=tuple(lists["unique"]),
                columns=columns,
            )
        )
    return tuple(found)


def _texts(name: str, given: object) -> Mapping[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values()):
        raise OptionRefused(name, "is no table of texts")
    return dict(given)


def _read(option: str, place: str) -> bytes:
    try:
        if "://" in place:
            above, _, name = place.rpartition("/")
            return open_store(above).get(name)
        return Path(place).read_bytes()
    except (OSError, StoreError, ValueError) as problem:
        raise OptionRefused(option, f"{place} can't be read: {problem}") from problem


def _beside(config: str, name: str) -> str:
    if "://" in name or Path(name).is_absolute():
        return name
    return f"{config.rpartition('/')[0]}/{name}" if "://" in config else str(Path(config).parent / name)


def _uri(place: str) -> str:
    if "://" in place:
        return place.rstrip("/")
    # Hadoop's form, which is not percent-encoded.
    return f"file:{Path(place).absolute()}".rstrip("/")
