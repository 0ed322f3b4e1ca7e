"""``tidelog topic scheduled …``: undelivered delayed records."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from log_format.words import counted
from tidelog.bodies.json_record import put_bytes
from tidelog.cli.terminal.admin_call import AdminCall, TableCall
from tidelog.cli.terminal.confirmation import YesOption, confirm
from tidelog.cli.terminal.console import note, print_json
from tidelog.cli.terminal.help_text import Commands
from tidelog.cli.terminal.names import TopicArgument
from tidelog.cli.terminal.table_writers import print_tables
from tidelog.cli.terminal.tables import table, time_text

app = Commands(help="List and cancel delayed records.")


@app.command("list")
def list_(
    topic: TopicArgument,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of records shown.")] = 100,
    call: TableCall,
) -> None:
    """List a topic's delayed records that are not delivered yet.

    \b
    Examples:
      tidelog topic scheduled list orders
      tidelog topic scheduled list orders --limit 1000 --json
    """
    with call.admin() as admin:
        found = list(islice(admin.list_scheduled(topic), limit + 1))
        shown = found[:limit]
        if call.as_json:
            entries = []
            for each in shown:
                entry = {"id": each.id, "deliver_at": each.deliver_at_ms}
                put_bytes(entry, "key", each.key)
                entries.append(entry)
            print_json({"scheduled": entries})
            return
        if not shown:
            note(f"Topic {topic} has no delayed records.")
            return
        waiting = table("id", "deliver at", "key")
        for each in shown:
            due = time_text(each.deliver_at_ms, "milliseconds")
            waiting.add_row(each.id, due, "" if each.key is None else each.key.decode(errors="backslashreplace"))
        print_tables(waiting)
        if len(found) > limit:
            note(f"There are more: --limit {10 * limit} shows more of them.")


@app.command()
def cancel(
    topic: TopicArgument,
    ids: Annotated[
        list[str], typer.Argument(metavar="ID…", help="Ids, as the list and the answers to send show them.")
    ],
    *,
    yes: YesOption = False,
    call: AdminCall,
) -> None:
    """Cancel delayed records, so that they are never delivered. Stops at the first one that can't be cancelled.

    Asks for confirmation.

    \b
    Examples:
      tidelog topic scheduled cancel orders 0f1d2c3b-4a59-4687-9786-a5b4c3d2e1f0-0000000007 --yes
    """
    with call.admin() as admin:
        confirm(f"Cancel {counted(len(ids), 'delayed record')} of topic {topic}?", yes=yes)
        for each in ids:
            admin.cancel_scheduled(topic, each)
        call.report({"cancelled": ids}, f"{counted(len(ids), 'delayed record')} of {topic} cancelled.")
