"""``tidelog group …``: consumer groups and their committed offsets."""

from __future__ import annotations

import re
import time
from typing import Annotated, Any

import typer
from rich.table import Table

from tidelog.admin import Admin
from tidelog.cli.commands.lag import lag_table
from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.backlogs import backlogs, lag_cells, look_at_all
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.console import print_json
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.names import GroupArgument, complete_topics
from tidelog.cli.terminal.positions import parse_position, past_ms
from tidelog.cli.terminal.table_writers import print_facts, print_tables
from tidelog.cli.terminal.tables import shortened, table
from tidelog.cli.terminal.units import duration_text
from tidelog.errors import UnknownGroup
from tidelog.types.group import CommittedOffset, Group, GroupMember
from tidelog.types.record import TopicPartition

app = Commands(help="List, describe, reset, forget and delete consumer groups.")

_WORDS = {"earliest": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest"}
_SHIFT = re.compile(r"[+-][0-9]+")


@app.command("list")
def list_(call: TableCall) -> None:
    """List the consumer groups: members, topics, lag in records, and the age of the oldest uncommitted record.

    \b
    Examples:
      tidelog group list
      tidelog group list --json
    """
    with call.admin() as admin:
        call.show_list(
            {"groups": backlogs(look_at_all(admin, time.monotonic()), {})},
            table("group", "state", "topics", numbers=["members", "lag", "behind"]),
            lambda group: (group.group, group.state, shortened(group.topics), *lag_cells(group)),
            none="There are no consumer groups.",
        )


@app.command()
def describe(group: GroupArgument, call: TableCall) -> None:
    """Show a group: its members, their partitions, the committed offsets, and the lag.

    Of each member it shows how long ago it was last heard from and last committed. A member that is heard from, but has not
    committed for long while there is lag, is stuck.

    \b
    Examples:
      tidelog group describe billing
      tidelog group describe billing --json
    """
    with call.admin() as admin:
        described = admin.describe_group(group)
        lag = admin.group_lag(group)
        if call.as_json:
            offsets = [*admin.group_offsets(group).values()]
            print_json({"group": described, "offsets": offsets, "lag": lag})
            return
        print_tables(*_show(described), lag_table(lag))


@app.command()
def reset(
    group: GroupArgument,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="earliest, latest, an offset, +N or -N (N records forward or back), a duration before now (1h), a time "
            "(2025-01-31T08:00:00Z), or @ and milliseconds since the epoch.",
        ),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="All partitions of this topic; repeatable.", autocompletion=complete_topics),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", "-p", metavar="TOPIC:PARTITION", help="Only this partition; repeatable."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the new offsets without committing them.")] = False,
    call: AdminCall,
) -> None:
    """Move a group's committed offsets back or forward. The group must have no live members. A missing group is created.

    Without --topic and --partition: in all topics for which the group has committed offsets.

    \b
    Examples:
      tidelog group reset billing --to earliest
      tidelog group reset billing --to 2025-01-31T08:00:00Z --topic orders --dry-run
      tidelog group reset audit --to 1h --topic orders
      tidelog group reset billing --to -100 --partition orders:3 --json
    """
    with call.admin() as admin:
        if topic and partition:
            raise ValueError("--topic and --partition exclude each other")
        places = [_place(text) for text in partition or ()]
        topics = topic or ([] if places else sorted({place.topic for place in admin.group_offsets(group)}))
        if not topics and not places:
            raise ValueError(f"group {group!r} has no committed offsets: name its topics with --topic")
        try:
            found = _reset(admin, group, to, topics, places, preview=dry_run)
        except UnknownGroup:
            found = _begin(admin, group, to, topics, places, preview=dry_run)
        wanted = {place: each for place, each in found.items() if place.topic in topics or place in places}
        continues = "would continue" if dry_run else "continues"
        said = [
            f"{place.topic}/{place.partition} {continues} at offset {each.offset:,}."
            for place, each in sorted(wanted.items())
        ]
        call.report({"offsets": [*wanted.values()]}, *said)


@app.command()
def forget(
    group: GroupArgument,
    topic: Annotated[
        list[str], typer.Argument(help="The topics whose offsets are deleted.", autocompletion=complete_topics)
    ],
    *,
    yes: YesOption = False,
    call: AdminCall,
) -> None:
    """Delete a group's committed offsets for some topics. No live member may be subscribed to them. Asks for confirmation.

    \b
    Examples:
      tidelog group forget billing orders --yes
    """
    with call.admin() as admin:
        confirm(f"Delete the offsets of group {group} for {', '.join(topic)}?", yes=yes)
        left = admin.delete_group_offsets(group, topics=topic)
        call.report(
            {"offsets": [*left.values()]}, f"Group {group} has no committed offsets for {', '.join(topic)} any more."
        )


@app.command()
def delete(
    group: GroupArgument,
    *,
    yes: YesOption = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed if the group does not exist.")] = False,
    call: AdminCall,
) -> None:
    """Delete a group without live members, with its offsets. Asks for confirmation.

    \b
    Examples:
      tidelog group delete billing --yes
    """
    with call.admin() as admin:
        confirm(f"Delete group {group} and its offsets?", yes=yes)
        admin.delete_group(group, missing_ok=if_exists)
        call.report({"deleted": group}, f"Group {group} is deleted.")


def _reset(
    admin: Admin, group: str, to: str, topics: list[str], places: list[TopicPartition], *, preview: bool
) -> dict[TopicPartition, CommittedOffset]:
    where: dict[str, Any] = {"partitions": places} if places else {"topics": topics}
    where["preview"] = preview
    if to in _WORDS:
        return admin.reset_group(group, _WORDS[to], **where)
    if _SHIFT.fullmatch(to):
        return admin.reset_group(group, shift=int(to), **where)
    if to.isdecimal():
        return admin.reset_group(group, int(to), **where)
    try:
        time_ms = past_ms(to)
    except ValueError:
        raise ValueError(
            f"--to {to!r} is not earliest, latest, an offset, +N, -N, a duration (1h), a time or @milliseconds"
        ) from None
    return admin.reset_group(group, timestamp_ms=time_ms, **where)


def _begin(
    admin: Admin, group: str, to: str, topics: list[str], places: list[TopicPartition], *, preview: bool
) -> dict[TopicPartition, CommittedOffset]:
    """Set the first offsets of a missing group, as ``_reset``, which creates the group. Raises ``ValueError`` for a shift."""
    if _SHIFT.fullmatch(to):
        raise ValueError(f"group {group!r} has no committed offsets that {to} could move")
    where = parse_position(to, "--to")
    named = dict.fromkeys(topics) or {
        place.topic: [each.partition for each in places if each.topic == place.topic] for place in places
    }
    begins = {
        place: min(max(offset, found.log_start_offset), found.high_watermark)
        for topic, partitions in named.items()
        for number, found in admin.offsets(topic, partitions, timestamp_ms=where.timestamp_ms).items()
        for place, offset in [(TopicPartition(topic, number), where.offset_in(number, found))]
    }
    if preview:
        return {
            at: CommittedOffset(topic=at.topic, partition=at.partition, offset=offset) for at, offset in begins.items()
        }
    admin.commit_group_offsets(group, begins)
    return admin.group_offsets(group)


def _show(group: Group) -> list[Table]:
    """Write what the group is; return a table of its members, if it has any."""
    facts = [("group", group.group), ("state", group.state), ("generation", str(group.generation))]
    print_facts([*facts, ("assignor", str(group.assignor))] if group.members else facts)
    if group.members:
        members = table("member", "client", "partitions", numbers=["heard", "committed"])
        for member in group.members:
            since = (_since(member.heard_at), _since(member.committed_at))
            members.add_row(member.member_id, member.instance_id or member.client_id or "", _reads(member), *since)
        return [members]
    return []


def _since(at_ms: int | None) -> str:
    """Return how long ago that was."""
    return "-" if at_ms is None else duration_text(max(0, round(time.time() * 1000) - at_ms))


def _reads(member: GroupMember) -> str:
    topics: dict[str, list[int]] = {}
    for place in member.assignment:
        topics.setdefault(place.topic, []).append(place.partition)
    return "; ".join(f"{topic}: {', '.join(map(str, sorted(numbers)))}" for topic, numbers in sorted(topics.items()))


def _place(text: str) -> TopicPartition:
    topic, colon, partition = text.rpartition(":")
    if not colon or not topic or not partition.isdecimal():
        raise ValueError(f"--partition {text!r} is not TOPIC:PARTITION")
    return TopicPartition(topic, int(partition))
