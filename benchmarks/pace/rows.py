"""The table of loads at gateways, and its rows for machines."""

from __future__ import annotations

from typing import Any

from benchmarks.harness.report import Table
from benchmarks.pace.done import Done
from benchmarks.pace.places import BROKER, Place


def new_table() -> Table:
    """Return the table without rows."""
    columns = ["load", "store", "records/s", "p50 ms", "p99 ms", f"{BROKER} records/s", "p50 ms", "p99 ms"]
    columns += [
        f"of {BROKER}'s rate",
        "CPU us",
        "PUTs",
        "segments",
        "GETs",
        "PUT/s",
        "$ an hour",
        "$ a million records",
    ]
    return Table("Clients that wait, default settings, beside Apache Kafka", columns)


def add_row(table: Table, place: Place, ours: Done, theirs: Done | None) -> dict[str, Any]:
    """Add what a load did at a gateway and at the broker, and return the same for machines."""
    costs = ours.costs()
    ratio = None if theirs is None else ours.rate / theirs.rate
    beside = ["-"] * 3 if theirs is None else _pace(theirs)
    puts_per_second = costs["puts"] / costs["counted_seconds"]
    table.add(
        ours.what,
        place.name,
        *_pace(ours),
        *beside,
        "-" if ratio is None else f"{ratio:.2g}",
        f"{costs['cpu_us_a_record']:,.2f}",
        *(f"{costs[name]:,}" for name in ("puts", "segments", "gets")),
        f"{puts_per_second:.1f}",
        f"{costs['dollars_an_hour']:.4f}",
        f"{costs['dollars_a_million_records']:.2f}",
    )
    return {
        "load": ours.what,
        "store": place.name,
        "tidelog": ours.as_json() | costs,
        "kafka": None if theirs is None else theirs.as_json(),
        "ratio": ratio,
    }


def _pace(done: Done) -> list[str]:
    latencies = (done.latency_ms(fraction) for fraction in (0.5, 0.99))
    return [f"{done.rate:,.1f}", *("-" if latency is None else f"{latency:,.1f}" for latency in latencies)]
