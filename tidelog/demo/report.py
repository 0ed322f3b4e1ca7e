"""Output of a run for the user."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from log_format.words import counted
from tidelog.demo.maintenance import Upkeep
from tidelog.demo.result import ReaderResult, Result
from tidelog.demo.spark_job import Group

CARRIERS_SHOWN: Final = 8
"""Carriers in the table; the others are in the picture."""

_TIMES_OF_DAY: Final = (("to 8 h", 0), ("9-12", 9), ("13-16", 13), ("17-20", 17), ("21 on", 21))


def report(console: Console, result: Result) -> None:
    """Print the query's result, throughput and lag, and whether all ways agree."""
    console.print(_delays(result))
    console.print(_ways(result))
    produced = result.acknowledged
    assert produced.seconds is not None
    megabytes = result.value_bytes / 1e6
    pace = f"paced at {result.records_per_second_asked:,}/s" if result.records_per_second_asked else "not paced"
    console.print(
        f"In over HTTP: {counted(produced.summary.count, 'record')}, {megabytes:.0f} MB in {produced.seconds:.1f} s: "
        f"{produced.summary.count / produced.seconds:,.0f} records/s, {megabytes / produced.seconds:.1f} MB/s ({pace})"
    )
    if result.lag is not None:
        console.print(
            f"Latency from acknowledgement to Spark's updated result: p50 {result.lag.p50_ms:,.0f} ms, "
            f"p99 {result.lag.p99_ms:,.0f} ms, max {result.lag.max_ms:,.0f} ms "
            f"({result.micro_batches} micro-batches)"
        )
    console.print(_upkeep(result.upkeep))
    if result.picture is not None:
        console.print(f"Picture: {result.picture}", soft_wrap=True)
    console.print(f"The whole run: {result.seconds:.0f} s")
    if result.agree:
        console.print(
            "[bold green]All readers agree[/]: every acknowledged record is there exactly once, byte for byte."
        )
    else:
        console.print("[bold red]The readers disagree.[/] " + "; ".join(disagreements(result)) + ".")


def disagreements(result: Result) -> list[str]:
    """Return what is wrong, way by way; empty if nothing is."""
    wanted = result.acknowledged.summary
    wrong = []
    for way in result.ways:
        if way.summary.count != wanted.count:
            wrong.append(f"{way.name} returned {way.summary.count:,} records; {wanted.count:,} were acknowledged")
        elif way.summary != wanted:
            wrong.append(f"{way.name} returned as many records as were acknowledged, but not the same ones")
    if not result.delays_agree:
        wrong.append("Spark's mean delays are not those of the source")
    return wrong


def _upkeep(upkeep: Upkeep) -> str:
    failed = f", [bold red]{upkeep.failed_topics} of them without success[/]" if upkeep.failed_topics else ""
    merged = "there was too little to merge"
    if upkeep.segments_in:
        size = f"{upkeep.bytes_in / 1e6:.1f} MB"
        merged = f"{upkeep.segments_in} small segments became {upkeep.segments_out} ({size}), while readers and writers continued"
    return f"Concurrent maintenance, {upkeep.rounds} rounds{failed}: {merged}"


def _ways(result: Result) -> Table:
    table = Table(title="Every record, by each reader", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for heading in ("", "records", "sum of CRC-32", "exclusive or", "seconds", ""):
        table.add_column(heading, justify="right" if heading else "left")
    acknowledged = result.acknowledged
    table.add_row(*_cells(acknowledged), "")
    for way in result.ways:
        same = way.summary == acknowledged.summary
        table.add_row(*_cells(way), "[green]agrees[/]" if same else "[bold red]differs[/]")
    return table


def _cells(way: ReaderResult) -> list[str]:
    summary = way.summary
    seconds = "" if way.seconds is None else f"{way.seconds:.1f}"
    return [way.name, f"{summary.count:,}", f"{summary.checksum_sum:016x}", f"{summary.checksum_xor:08x}", seconds]


def _delays(result: Result) -> Table:
    table = Table(
        title="Mean departure delay in minutes by hour of day, from Spark",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=0,
    )
    table.add_column("carrier")
    for heading in ("flights", *(name for name, _ in _TIMES_OF_DAY), "day"):
        table.add_column(heading, justify="right", no_wrap=True)
    by_carrier: dict[str, list[Group]] = {}
    for group in result.groups:
        by_carrier.setdefault(group.carrier, []).append(group)
    carriers = sorted(by_carrier, key=lambda carrier: -sum(group.flights for group in by_carrier[carrier]))
    for carrier in carriers[:CARRIERS_SHOWN]:
        name = result.carrier_names.get(carrier, carrier).removesuffix(" Inc.")
        table.add_row(f"{name} ({carrier})", *_row(by_carrier[carrier]))
    others = [group for carrier in carriers[CARRIERS_SHOWN:] for group in by_carrier[carrier]]
    if others:
        table.add_row(f"{len(carriers) - CARRIERS_SHOWN} more", *_row(others), end_section=True)
    table.add_row("all", *_row(result.groups), style="bold")
    return table


def _row(groups: Sequence[Group]) -> list[str]:
    starts = [start for _, start in _TIMES_OF_DAY] + [24]
    spans = [_mean(group for group in groups if start <= group.hour < end) for start, end in pairwise(starts)]
    return [f"{sum(group.flights for group in groups):,}", *spans, _mean(groups)]


def _mean(groups: Iterable[Group]) -> str:
    minutes, departed = 0.0, 0
    for group in groups:
        if group.mean_delay_minutes is not None:
            minutes += group.mean_delay_minutes * group.departed
            departed += group.departed
    return f"{minutes / departed:.1f}" if departed else ""


def what_to_try_next(console: Console, result: Result) -> None:
    """Print a few commands to try next."""
    store, topic = shlex.quote(result.store), result.topic
    url = "http://127.0.0.1:8080"
    send = f"from tidelog import Producer; print(Producer('{url}').send('{topic}', 'hello', key='me').result())"
    console.print("\n[bold]What to try next[/]")
    for what, command in (
        ("Serve this store", f"tidelog serve --store {store}"),
        ("then read with curl", f"curl '{url}/v1/topics/{topic}/partitions/0/records?offset=0&max_records=3'"),
        ("or send with the SDK", f'python -c "{send}"'),
        ("Prove what is stored", f"tidelog verify {topic} --store {store}"),
        ("Ask with Spark SQL", f"python examples/spark_sql.py {store} {topic}"),
    ):
        console.print(f"  {what}:", style="dim", highlight=False)
        console.print(f"    {command}", soft_wrap=True, highlight=False, markup=False)
