"""``tidelog cluster``: the live gateways, their store and limits."""

from __future__ import annotations

from log_format.words import counted
from tidelog.cli.terminal.admin_call import TableCall
from tidelog.cli.terminal.console import print_json
from tidelog.cli.terminal.table_writers import print_facts, print_tables
from tidelog.cli.terminal.tables import table, time_text
from tidelog.types.topic import FailingWrites, Journals, Maintenance


def cluster(call: TableCall) -> None:
    """Show the gateways, their store, version and limits.

    \b
    Examples:
      tidelog cluster
      tidelog cluster --json
    """
    with call.admin() as admin:
        found = admin.cluster(maintenance=True)
        if call.as_json:
            print_json(found)
            return
        print_facts(
            [
                ("store", found.store or "not shown without the right to Describe the cluster"),
                ("version", found.version),
                ("journals", _journals_text(found.journals)),
                ("maintenance", "not known" if found.maintenance is None else maintenance_text(found.maintenance)),
                *(() if found.failing_writes is None else [("writes", failing_text(found.failing_writes))]),
            ]
        )
        gateways = table("gateway", "address", "zone", "started", numbers=["topics"])
        for each in found.gateways:
            owned = each.owned_topics if isinstance(each.owned_topics, int) else len(each.owned_topics)
            gateways.add_row(each.id, each.url, each.zone or "", time_text(each.started_at), f"{owned:,}")
        limits = table("limit", numbers=["value"])
        for name, value in found.limits.items():
            limits.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
        print_tables(gateways, limits)


def failing_text(failing: FailingWrites) -> str:
    """Describe that the gateway that answered can't write, and why."""
    return f"fail since {time_text(failing.since)}: {failing.detail}. What it holds can be read"


def maintenance_text(maintenance: Maintenance) -> str:
    """Describe when maintenance gave a sign of life last, and whether its next one is overdue."""
    if maintenance.seen_at is None:
        return "has not run here yet: start tidelog maintain" if maintenance.state == "never" else "not known yet"
    said = f"last seen at {time_text(maintenance.seen_at)}"
    if maintenance.failed_topics:
        said += f"; its last round failed for {counted(maintenance.failed_topics, 'topic')}"
    return f"overdue: {said}. Is tidelog maintain running?" if maintenance.state == "overdue" else said


def _journals_text(journals: Journals) -> str:
    """Describe how many journals are in use, by how many topics, and why there can't be more."""
    said = f"{journals.in_use:,} in use, with {counted(journals.topics, 'topic')}" if journals.in_use else "none in use"
    return said if journals.held_back is None else f"{said}; no further topic can use one: {journals.held_back}"
