"""``tidelog cost``: monthly cost on S3 of a topic or of all topics, from the gateways' counts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from log_format.topic.config import SETTINGS
from tidelog.admin import Admin
from tidelog.calls.metrics import metrics_page
from tidelog.cli.cost.clones import clones_table, clones_told
from tidelog.cli.cost.estimate import Counts, Estimate, FlushBound, counts_of, estimated, flush_bound, of_topic
from tidelog.cli.cost.prices import CHECKED, PRICES, SOURCE
from tidelog.cli.cost.versions import KeptVersions, Rates, kept_versions, versions_told
from tidelog.cli.terminal.admin_call import TableCall
from tidelog.cli.terminal.console import CommandFailed, output, print_json
from tidelog.cli.terminal.durations import in_seconds, span_ms
from tidelog.cli.terminal.table_writers import print_tables
from tidelog.cli.terminal.tables import table
from tidelog.cli.terminal.units import in_words
from tidelog.deadline import Deadline
from tidelog.http.transport import Transport
from tidelog.types.topic import CloneOfTopic, Topic


def cost(
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic; not with --all.")] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="All topics, and the gateways' own requests.")] = False,
    seconds: Annotated[
        float,
        typer.Option("--seconds", metavar="DURATION", parser=in_seconds(least=1), help="How long to count requests."),
    ] = 10.0,
    commit_retention: Annotated[
        str | None,
        typer.Option(
            "--commit-retention",
            metavar="DURATION",
            help="Also estimate what the topic's versions take with this commit.retention.ms: 12h, 7d.",
        ),
    ] = None,
    call: TableCall,
) -> None:
    """Estimate the monthly bill for S3 from the running gateways' counts: requests by kind, and the bytes stored now.

    Not included are machines and traffic (see docs/cost.md), and requests that Spark, maintenance and clients send to the store
    themselves.

    \b
    Examples:
      tidelog cost orders
      tidelog cost orders --commit-retention 24h
      tidelog cost --all --seconds 5
      tidelog cost --all --seconds 5 --json
    """
    with call.admin() as admin:
        if (topic is None) is not all_:
            raise CommandFailed("give either a topic or --all")
        kept_ms = None if commit_retention is None else _promised_ms(commit_retention, topic)
        urls = [gateway.url for gateway in admin.cluster().gateways]
        before = _topics(admin, topic)
        requests, passed_s = _counted(urls, call.token_file, call.timeout * 1000, seconds)
        after = _topics(admin, topic)
        stored_bytes = sum(part.size_bytes for one in after for part in one.partitions)
        archive_bytes = sum(one.archive.size_bytes for one in after)
        stored_bytes += archive_bytes
        if topic is None:
            found = estimated(requests, passed_s, stored_bytes)
        else:
            commits = after[0].table_version - before[0].table_version
            found = of_topic(requests, commits, passed_s, stored_bytes)
        bound = flush_bound(after, len(urls))
        found = replace(found, archive_bytes=archive_bytes, pinned_bytes=_pinned_bytes(admin, after))
        if topic is not None:
            rates = Rates.between(before[0], after[0], passed_s)
            wanted = [None] if kept_ms is None else [None, kept_ms]
            versions = [kept_versions(after[0].config, rates, each) for each in wanted]
        else:
            versions = []
        clones = () if topic is None else admin.list_clones(topic)
        shares_journal = topic is not None and after[0].commit.journal is not None
        _show(found, bound, versions, clones, as_json=call.as_json, shares_journal=shares_journal)


def _promised_ms(text: str, topic: str | None) -> int:
    """Return ``--commit-retention`` in ms. Raises ``CommandFailed`` for what the setting can't be."""
    if topic is None:
        raise CommandFailed("--commit-retention is a setting of one topic: name the topic instead of --all")
    try:
        kept_ms = span_ms(text, "--commit-retention")
    except ValueError as problem:
        raise CommandFailed(str(problem)) from None
    try:
        SETTINGS["commit.retention.ms"].parse(kept_ms)
    except ValueError as problem:
        raise CommandFailed(f"--commit-retention {text}: commit.retention.ms {problem}") from None
    return kept_ms


def _topics(admin: Admin, topic: str | None) -> Sequence[Topic]:
    return admin.list_topics() if topic is None else [admin.describe_topic(topic)]


def _pinned_bytes(admin: Admin, topics: Sequence[Topic]) -> int:
    """Return the stored bytes that only pins hold back, by the topics whose pins can be read."""
    return sum(admin.list_pins(topic.name).held_back_bytes or 0 for topic in topics if topic.pins)


def _counted(urls: Sequence[str], token_file: Path | None, timeout_ms: float, seconds: float) -> tuple[Counts, float]:
    """Return the requests that all gateways sent, and the seconds in which they did."""
    with ExitStack() as opened:
        transports = [
            opened.enter_context(
                closing(Transport(url, request_timeout_ms=timeout_ms, accept_encoding="zstd", token_file=token_file))
            )
            for url in urls
        ]

        def counts() -> Counts:
            total = Counts()
            for transport in transports:
                total += counts_of(metrics_page(transport, Deadline(timeout_ms)))
            return total

        before, began = counts(), time.monotonic()
        time.sleep(seconds)
        after, ended = counts(), time.monotonic()
    return after - before, ended - began


def _show(
    found: Estimate,
    bound: FlushBound | None,
    versions: Sequence[KeptVersions],
    clones: Sequence[CloneOfTopic],
    *,
    as_json: bool,
    shares_journal: bool,
) -> None:
    if as_json:
        print_json(_told(found, bound, versions, clones) | {"shares_journal": shares_journal})
        return
    rows = table("request", "purpose", numbers=["per second", "$ per month"])
    for row in found.rows:
        rows.add_row(row.kind, row.of, f"{row.per_second:,.2f}", f"{row.dollars:,.2f}")
    rows.add_row("storage, now", f"{found.stored_bytes / 10**9:,.2f} GB", "", f"{found.storage_dollars:,.2f}")
    if found.archive_bytes:
        rows.add_row(
            "  of which the archive", f"{found.archive_bytes / 10**9:,.2f} GB", "", f"{found.archive_dollars:,.2f}"
        )
    if found.pinned_bytes:
        size = f"{found.pinned_bytes / 10**9:,.2f} GB"
        rows.add_row("storage, only for pins", size, "", f"{found.pins_dollars:,.2f}")
    rows.add_row("total", "", "", f"{found.dollars:,.2f}")
    console = output()
    more = [_versions_table(versions)] if len(versions) > 1 else []
    print_tables(rows, *more, *([clones_table(clones)] if clones else []))
    if shares_journal:
        console.print(
            "\nThe topic's records go to a shared journal, whose requests only --all includes. "
            "The table above has the topic's drains only."
        )
    if bound is not None:
        console.print(
            f"\nEarly flushes stay within the average that flush.ms allows: {bound.per_second:,.2f} flushes per second,"
            f" ${bound.dollars:,.2f} per month for their two PUTs. Savings, a day's at most, may be spent on top once."
            " Flushes at flush.bytes are not limited by flush.ms.",
            markup=False,
        )
    if len(versions) > 1:
        _explain_versions(versions)
    if clones:
        console.print(
            "\nClones are topics of their own, not in the total. An object store stores all of a clone's files; a directory"
            " only those that the source's table has not.",
            markup=False,
        )
    console.print(f"\nS3 Standard in us-east-1, prices of {CHECKED} ({SOURCE}).", markup=False)


def _told(
    found: Estimate, bound: FlushBound | None, versions: Sequence[KeptVersions], clones: Sequence[CloneOfTopic]
) -> dict[str, object]:
    return {
        "seconds": round(found.seconds, 1),
        "requests": [
            {
                "kind": row.kind,
                "of": row.of,
                "per_second": round(row.per_second, 4),
                "dollars": round(row.dollars, 2),
            }
            for row in found.rows
        ],
        "stored_bytes": found.stored_bytes,
        "archive_bytes": found.archive_bytes,
        "pinned_bytes": found.pinned_bytes,
        "requests_dollars": round(found.requests_dollars, 2),
        "storage_dollars": round(found.storage_dollars, 2),
        "archive_dollars": round(found.archive_dollars, 2),
        "dollars": round(found.dollars, 2),
        "versions": versions_told(versions),
        "clones": clones_told(clones),
        "flushes_per_second_max": None if bound is None else round(bound.per_second, 4),
        "flushes_dollars_max": None if bound is None else round(bound.dollars, 2),
        "prices": PRICES,
        "prices_checked": CHECKED,
    }


def _versions_table(versions: Sequence[KeptVersions]) -> Table:
    names = ["commits", "removed files", "GB at most", "$ per month", "listings per query"]
    rows = table("versions kept, commit.retention.ms", numbers=names)
    for one, when in zip(versions, ("now", "then"), strict=True):
        rows.add_row(
            f"{when}: {in_words('commit.retention.ms', one.kept_ms)}",
            f"{one.commits:,}",
            f"{one.removed_files:,}",
            f"{one.size_bytes / 10**9:,.2f}",
            f"{one.dollars:,.2f}",
            f"{one.listings:,}",
        )
    return rows


def _explain_versions(versions: Sequence[KeptVersions]) -> None:
    console = output()
    console.print(
        "\nVersions kept: at the rate counted above, once all of them are there; not in the total. "
        "Delta's own readers list every commit, twice"
        " for a first query, and load the names of all removed files.",
        markup=False,
    )
    if versions[-1].needed_files_ms:
        console.print(
            f"deleted.file.retention.ms has to be raised, too, to {versions[-1].needed_files_ms} or more: versions are not"
            " kept longer than files.",
            markup=False,
        )
