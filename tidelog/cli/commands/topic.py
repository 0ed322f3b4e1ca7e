"""``tidelog topic …``: topics and their settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated

import typer

from log_format.topic.config import SETTINGS
from log_format.words import counted
from tidelog.admin import END
from tidelog.cli.commands import clones, erasures, scheduled, topic_summary
from tidelog.cli.commands.topic_settings import ConfigOption, settings_of
from tidelog.cli.commands.typed_topic import schema_lines
from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.console import note, note_json, print_json
from tidelog.cli.terminal.error_words import repair_of
from tidelog.cli.terminal.expiry import expiry_warning
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.names import TopicArgument, complete_setting_names, complete_subjects
from tidelog.cli.terminal.table_writers import print_facts, print_tables
from tidelog.cli.terminal.tables import table, time_text
from tidelog.cli.terminal.units import duration_text, in_words, setting_value, size_text
from tidelog.errors import TopicAlreadyExists, Unauthorized
from tidelog.types.topic import DamagedTopic, Topic, TopicCommit

app = Commands(help="Create, list, describe, alter and delete topics.")
app.add_typer(scheduled.app, name="scheduled")
app.command("clone")(clones.clone)
app.command("erase")(erasures.erase)
app.command("erasures")(erasures.erasures)
app.command("summary")(topic_summary.summary)

NameArgument = Annotated[str, typer.Argument(help="The topic's name.")]
RetentionOption = Annotated[
    str | None,
    typer.Option(
        "--retention", metavar="DURATION", help="How long records stay in the log: retention.ms. 7d, or 'forever'."
    ),
]
TableRetentionOption = Annotated[
    str | None,
    typer.Option(
        "--table-retention",
        metavar="DURATION",
        help="How long their rows stay in the table: table.retention.ms. 365d, 'forever', or 'log': as long as in the log.",
    ),
]
ValueSchemaOption = Annotated[
    str | None,
    typer.Option(
        "--value-schema",
        metavar="SUBJECT",
        autocompletion=complete_subjects,
        help="Check values by the schemas of this subject, and store their members as columns.",
    ),
]
KeySchemaOption = Annotated[
    str | None,
    typer.Option("--key-schema", metavar="SUBJECT", autocompletion=complete_subjects, help="The same for keys."),
]


@app.command()
def create(
    name: NameArgument,
    *,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="Number of partitions.")] = 1,
    config: ConfigOption = None,
    retention: RetentionOption = None,
    table_retention: TableRetentionOption = None,
    value_schema: ValueSchemaOption = None,
    key_schema: KeySchemaOption = None,
    if_not_exists: Annotated[
        bool,
        typer.Option("--if-not-exists", help="Succeed if the topic exists; its differences are reported."),
    ] = False,
    call: AdminCall,
) -> None:
    """Create a topic.

    \b
    Examples:
      tidelog topic create orders --partitions 8
      tidelog topic create orders --value-schema orders-value
      tidelog topic create events --retention 7d --table-retention forever
      tidelog topic create clicks -p 4 -c retention.ms=7d -c flush.ms=50 --if-not-exists
    """
    with call.admin() as admin:
        settings = settings_of(config) | _retention(retention, table_retention) | _subjects(value_schema, key_schema)
        try:
            topic = admin.create_topic(name, partitions, settings, exist_ok=if_not_exists)
        except TopicAlreadyExists:
            if not if_not_exists:
                raise
            topic = admin.describe_topic(name)
            said = f"Topic {name} exists, {_differences(topic, partitions, settings)}."
            if call.as_json:
                note_json({"warning": {"detail": said}})
            else:
                note(said)
        call.report(topic, f"Topic {topic.name} has {counted(topic.partition_count, 'partition')}.")


@app.command("list")
def list_(
    prefix: Annotated[str | None, typer.Option(help="Only topics whose names begin with this.")] = None,
    *,
    call: TableCall,
) -> None:
    """List the topics.

    \b
    Examples:
      tidelog topic list
      tidelog topic list --prefix orders. --json
    """
    with call.admin() as admin:
        found = admin.list_topics(prefix)
        if call.as_json:
            print_json({"topics": list(found)} | ({"damaged": found.damaged} if found.damaged else {}))
            return
        shown: list[Topic | DamagedTopic] = sorted([*found, *found.damaged], key=lambda topic: topic.name)
        is_typed = any("value.schema" in topic.config or "key.schema" in topic.config for topic in found)
        columns = table("topic", *(["schema"] if is_typed else ()), numbers=["partitions", "records", "bytes"])
        call.show_list({"topics": shown}, columns, partial(_row, is_typed=is_typed), none="There are no topics.")
        for topic in found.damaged:
            note(f"Topic {topic.name} is damaged: {topic.detail}")
        if any(topic.error_code == "CORRUPT_SEGMENT" for topic in found.damaged):
            note(repair_of("TOPIC"))


@app.command()
def describe(name: TopicArgument, call: TableCall) -> None:
    """Show a topic: its table, settings, and each partition's offsets.

    Of a typed topic also its schemas, its columns with their types, how many of the newest records are not of their schema, and
    a query.

    \b
    Examples:
      tidelog topic describe orders
      tidelog topic describe orders --json
    """
    with call.admin() as admin:
        topic = admin.describe_topic(name, flush_savings=True)
        _show(topic, call.as_json, () if call.as_json else schema_lines(admin, topic))


@app.command()
def alter(
    name: TopicArgument,
    *,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="The new number of partitions, above the current one."),
    ] = None,
    config: ConfigOption = None,
    reset_config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A setting to reset to its default; repeatable.",
            autocompletion=complete_setting_names,
        ),
    ] = None,
    retention: RetentionOption = None,
    table_retention: TableRetentionOption = None,
    value_schema: ValueSchemaOption = None,
    key_schema: KeySchemaOption = None,
    backfill: Annotated[
        bool,
        typer.Option(
            "--backfill",
            help="Let maintenance give the records that are there columns, too; -c data.backfill=off stops it.",
        ),
    ] = False,
    yes: YesOption = False,
    call: TableCall,
) -> None:
    """Add partitions or change settings, all or nothing.

    Asks for confirmation if the change would expire half of the records or more.

    \b
    Examples:
      tidelog topic alter orders --partitions 16
      tidelog topic alter orders -c retention.ms=-1 --reset-config flush.ms
      tidelog topic alter orders -c commit.mode=shared
      tidelog topic alter orders --value-schema orders-value --backfill
    """
    with call.admin() as admin:
        changes: dict[str, int | str | None] = {**settings_of(config), **dict.fromkeys(reset_config or ())}
        changes |= _retention(retention, table_retention)
        changes |= _subjects(value_schema, key_schema) | ({"data.backfill": "on"} if backfill else {})
        if partitions is None and not changes:
            raise ValueError("there is nothing to change: give --partitions, --config or --reset-config")
        removed = None if yes else expiry_warning(admin, name, changes)
        if removed is not None:
            confirm(f"{removed}. Change it?", yes=yes)
        before = None
        with suppress(Unauthorized):  # A denied Describe leaves the right to Alter.
            before = admin.describe_topic(name)
        topic = admin.alter_topic(name, partition_count=partitions, config=changes or None)
        if before is None:
            _show(topic, call.as_json)
        else:
            _show_changes(before, topic, call)


@app.command()
def delete(
    name: TopicArgument,
    *,
    yes: YesOption = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if the topic does not exist.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also a topic with pins, which end with it.")] = False,
    call: AdminCall,
) -> None:
    """Delete a topic with all its records. Asks for confirmation.

    \b
    Examples:
      tidelog topic delete orders --yes
    """
    with call.admin() as admin:
        confirm(f"Delete topic {name} and all its records?", yes=yes)
        admin.delete_topic(name, missing_ok=if_exists, force=force)
        call.report({"deleted": name}, f"Topic {name} is deleted.")


@app.command("delete-records")
def delete_records(
    name: TopicArgument,
    *,
    before: Annotated[
        list[str],
        typer.Option(
            metavar="PARTITION:OFFSET",
            help="Delete the partition's records below this offset; 'end': all of them. Repeatable.",
        ),
    ],
    yes: YesOption = False,
    call: AdminCall,
) -> None:
    """Delete the records below an offset. Asks for confirmation.

    \b
    Examples:
      tidelog topic delete-records orders --before 0:1200 --before 1:end --yes
    """
    with call.admin() as admin:
        places_before = dict(_place(text) for text in before)
        confirm(f"Delete the records of topic {name} before {', '.join(before)}?", yes=yes)
        starts = admin.delete_records(name, places_before)
        places = [{"partition": partition, "log_start_offset": offset} for partition, offset in starts.items()]
        said = [f"Partition {partition} begins at offset {offset}." for partition, offset in starts.items()]
        call.report({"partitions": places}, *said)


def _row(topic: Topic | DamagedTopic, *, is_typed: bool) -> list[str]:
    """Return the topic's row. ``is_typed``: with a cell for its schemas."""
    if isinstance(topic, DamagedTopic):
        return [topic.name, *([""] if is_typed else ()), "damaged", "", ""]
    subjects = ", ".join(str(topic.config[name]) for name in ("value.schema", "key.schema") if name in topic.config)
    records = sum(each.high_watermark - each.log_start_offset for each in topic.partitions)
    size_bytes = sum(each.size_bytes for each in topic.partitions)
    numbers = (f"{number:,}" for number in (topic.partition_count, records, size_bytes))
    return [topic.name, *([subjects] if is_typed else ()), *numbers]


def _show(topic: Topic, as_json: bool, schemas: Iterable[tuple[str, str]] = ()) -> None:
    if as_json:
        print_json(topic)
        return
    print_facts([*_facts(topic), *schemas])
    settings = table("setting", "value", "default")
    for name, value in {**{each: SETTINGS[each].default for each in SETTINGS}, **topic.config}.items():
        default = SETTINGS[name].default if name in SETTINGS else None
        shown = "" if default is None or value == default else in_words(name, default)
        settings.add_row(name, in_words(name, value), shown)
    partitions = table(numbers=["partition", "log start", "high watermark", "bytes"])
    for each in topic.partitions:
        numbers = (each.partition, each.log_start_offset, each.high_watermark, each.size_bytes)
        partitions.add_row(*(f"{number:,}" for number in numbers))
    tables = [settings, partitions]
    if topic.columns:
        columns = table("column", "type")
        for column in topic.columns:
            columns.add_row(column.name, column.type)
        tables.insert(0, columns)
    print_tables(*tables)


def _facts(topic: Topic) -> Iterator[tuple[str, str]]:
    """Yield what stands above the topic's tables."""
    yield "topic", topic.name
    yield "created", time_text(topic.created_at)
    yield "table", f"{topic.table_uri} (version {topic.table_version})"
    yield "commits", _commits(topic.commit)
    if topic.archive.segments:
        segments = counted(topic.archive.segments, "segment")
        yield "archive", f"{segments} below the log starts, {size_text(topic.archive.size_bytes)}"
    if topic.commit.flush_savings_ms is not None:
        yield "flushes", _flushes(topic.commit)
    for pin in topic.pins:
        ends = "" if pin.expires_at is None else f" until {time_text(pin.expires_at)}"
        yield "pin", f"{pin.name}: version {pin.version}{ends}"
    if topic.columns and topic.config.get("value.keep") == "false":
        yield "values", "not stored where the columns say them: readers get JSON documents made of the columns"


def _show_changes(before: Topic, topic: Topic, call: TableCall) -> None:
    """Show what the change changed, and warn where records of a key may be in two partitions from now on."""
    if call.as_json:
        print_json(topic)
    else:
        rows = table("setting", "before", "now")
        if topic.partition_count != before.partition_count:
            rows.add_row("partitions", f"{before.partition_count:,}", f"{topic.partition_count:,}")
        for name in sorted({*before.config, *topic.config}):
            values = [_value(name, each) for each in (before, topic)]
            if values[0] != values[1]:
                rows.add_row(name, *values)
        if rows.row_count:
            print_tables(rows)
        else:
            note(f"Topic {topic.name} has these settings already: nothing changed.")
    if topic.partition_count > before.partition_count and any(each.high_watermark for each in before.partitions):
        said = (
            "New records of a key may go to another partition than its earlier ones, so readers may see them out of order,"
            " and compaction keeps one record of the key in each."
        )
        if call.as_json:
            note_json({"warning": {"detail": said}})
        else:
            note(f"Warning: {said}")


def _value(name: str, topic: Topic) -> str:
    """Return a setting's value, or its default, as users read it."""
    value = topic.config.get(name, SETTINGS[name].default if name in SETTINGS else None)
    return "" if value is None else in_words(name, value)


def _commits(commit: TopicCommit) -> str:
    """Describe the destination of a topic's commits: since when, why, and how far the table lags behind."""
    where = "to the table directly" if commit.journal is None else f"through journal {commit.journal}"
    said = f"{where} since {time_text(commit.since)} ({commit.reason})" if commit.reason else where
    if not commit.undrained_records:
        return said
    behind = counted(commit.undrained_records, "record")
    return f"{said}; {behind} not in the table yet, since {time_text(commit.drained_until_ms)}"


def _flushes(commit: TopicCommit) -> str:
    """Describe when flushes begin, and the savings for early ones."""
    saved_ms = (commit.flush_savings_ms or 0) // 1000 * 1000
    savings = f"savings of the gateway that answered: {duration_text(saved_ms)}"
    if commit.savings_spent:
        return f"after flush.ms, since the savings for early flushes are spent until senders pause ({savings})"
    return f"early, whenever all senders wait ({savings})"


def _differences(topic: Topic, partitions: int, settings: Mapping[str, int | str]) -> str:
    """Describe how the topic differs from what the user asked for."""
    has = {"partitions": topic.partition_count, **topic.config}
    asked = {"partitions": partitions, **settings}
    found = [
        f"{name} is {has.get(name)}, not {value}" for name, value in asked.items() if str(has.get(name)) != str(value)
    ]
    if not found:
        return f"with further settings: 'tidelog topic describe {topic.name}' shows them"
    return f"and differs from the request: {'; '.join(found)}"


def _retention(retention: str | None, table_retention: str | None) -> dict[str, int | str]:
    """Return the settings of the options ``--retention`` and ``--table-retention``."""
    given = {"retention.ms": retention, "table.retention.ms": table_retention}
    return {
        name: -1 if text == "forever" else setting_value(name, text) for name, text in given.items() if text is not None
    }


def _subjects(value_schema: str | None, key_schema: str | None) -> dict[str, str]:
    """Return the settings that make a topic typed."""
    subjects = {"value.schema": value_schema, "key.schema": key_schema}
    return {name: subject for name, subject in subjects.items() if subject is not None}


def _place(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition(":")
    if not partition.isdecimal() or not (offset == "end" or offset.isdecimal()):
        raise ValueError(f"--before {text!r} is not PARTITION:OFFSET or PARTITION:end")
    return int(partition), END if offset == "end" else int(offset)
