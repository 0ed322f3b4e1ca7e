"""Write docs/cost.md: monthly costs on AWS, compared with Kafka on three brokers. ``python infra/cost.py``

``python infra/cost.py --topics 3000 --per-second 0.1 --drain-ms 600000`` only prints the cost of the PUTs of so many topics.

Requests per flush come from ``benchmarks/README.md``. Prices and assumptions are the constants below, all of which appear in
the document. Both sides get the same load, retention and readers. Operators' time is not counted.
"""
# ruff: noqa: INP001 - a program of its own

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from tidelog.cli.cost import prices

ROOT: Final = Path(__file__).resolve().parents[1]
TEMPLATE: Final = Path(__file__).parent / "cost.md.template"
OUTPUT: Final = ROOT / "docs" / "cost.md"

HOURS: Final = 730
SECONDS: Final = HOURS * 3600
GIB_PER_MIB: Final = 1 / 1024
RETENTION_DAYS: Final = 7
ZONES: Final = 3

PRICES: Final = {
    **prices.PRICES,
    "Fargate vCPU, hour": 0.04048,
    "Fargate GB, hour": 0.004445,
    "Load balancer, hour": 0.0225,
    "Load balancer capacity unit (1 GB an hour), hour": 0.008,
    "Traffic between zones, GB, both directions together": 0.02,
    "CloudWatch Logs, GB taken in": 0.50,
    "EBS gp3, GB-month": 0.08,
    "EBS gp3 above 125 MiB/s, MiB/s-month": 0.04,
    "m5.large, hour": 0.096,
    "m5.xlarge, hour": 0.192,
    "m5.2xlarge, hour": 0.384,
}
"""US dollars, us-east-1, on demand, without taxes and discounts."""

CHECKED: Final = prices.CHECKED
SEEN_IN: Final = {
    "S3": prices.SOURCE,
    "Fargate": "infracost `ecs_service_test`; a guide of March 2026 (wring.co/blog/aws-fargate-pricing-guide)",
    "Load balancer": "infracost `lb_test`",
    "Traffic": "infracost `data_transfer_test`: 0.01 in each direction",
    "CloudWatch": "infracost `cloudwatch_log_group_test`",
    "EBS": "infracost `ebs_volume_test`",
    "m5.large": "estimates that infracost made of others' plans",
    "m5.xlarge": "estimates that infracost made of others' plans",
    "m5.2xlarge": "twice m5.xlarge, as sizes of one family go",
}
"""Sources of the prices whose names begin with the key, as of ``CHECKED``. Infracost's own tests have its results from AWS's
price list: ``internal/providers/terraform/aws/testdata`` of its repository. AWS's own pages and price list were not reachable."""

FLUSH_MS: Final = 250
FLUSH_MIB: Final = 8
GATEWAY_MIB_PER_SECOND: Final = 25
"""Throughput per gateway: below half of the measured rate of one gateway and MinIO on two shared cores, JSON x 1,000, 1 KiB
(benchmarks/README.md)."""
GETS_PER_SEGMENT: Final = 4
"""Reads of a segment: three by Spark's stream (a commit, and a segment in two ranges), one by maintenance (the segment)."""
MERGED_MIB: Final = 128
REQUEST_KIB: Final = 100
LOG_LINE_BYTES: Final = 350
PUTS_PER_FLUSH: Final = 2
"""PUTs of a flush or drain: a segment and a commit."""
IDLE_PUTS_PER_SECOND: Final = 1.45
"""PUTs and listings of each of three idle gateways: a heartbeat every 3 s, a listing of heartbeats every 9 s, one of delayed
records every second. A single gateway: 0.33 (benchmarks/README.md)."""
ZONE_LOOKS_PER_SECOND: Final = {False: 2, True: 1}
"""Looks per second of a gateway whose readers wait for other zones' commits: for each topic with its own commits; for a journal
(shared)."""
ZONE_GETS_PER_FLUSH: Final = 3
"""Reads by each other zone's gateway of a commit and its object: measured with twelve topics (``python -m benchmarks zones``)."""
DRAIN_MS: Final = 240_000
"""Default of the topic setting ``drain.ms``."""
DRAIN_EARLY: Final = 0.75
DRAIN_SPARE_MS: Final = 20_000
"""Time before the end of ``drain.ms`` at which a gateway begins a drain, unless ``DRAIN_EARLY``, a share of ``drain.ms``, is
later."""
MANY_TOPICS: Final = (10, 100, 1_000, 10_000)
LONG_DRAIN_MS: Final = 3_600_000
BROKER_DISK_FREE: Final = 1.3
"""Disk size relative to the data: Kafka's disks cost the same full or empty; a third more than the data is little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Incoming MiB per second, over this many topics, and Kafka's broker type for that."""

    mib_per_second: int
    topics: int
    broker: str


LOADS: Final = (
    Load(mib_per_second=1, topics=10, broker="m5.large"),
    Load(mib_per_second=1, topics=1_000, broker="m5.large"),
    Load(mib_per_second=10, topics=10, broker="m5.xlarge"),
    Load(mib_per_second=10, topics=1_000, broker="m5.xlarge"),
    Load(mib_per_second=100, topics=10, broker="m5.2xlarge"),
    Load(mib_per_second=100, topics=1_000, broker="m5.2xlarge"),
)
BILL_FLUSHES_MS: Final = (250, 1_000)


def measured_flush() -> tuple[float, float]:
    """Return the requests per flush measured by the benchmark ``requests``: PUTs and listings, which cost the same; GETs and
    HEADs."""
    text = (ROOT / "benchmarks" / "README.md").read_text()
    section = text.split("### Requests to the store, MinIO\n")[1].split("###")[0]
    row = re.search(r"^\| JSON x 1,000[^|]*\|[^|]*\|((?: [\d,]+ \|){5,6})", section, re.MULTILINE)
    if row is None:
        raise ValueError("benchmarks/README.md has no row of requests to the store for JSON x 1,000")
    flushes, puts, gets, lists, heads, *_ = (int(cell.replace(",", "")) for cell in row.group(1).split("|")[:-1])
    return round((puts + lists) / flushes, 2), round((gets + heads) / flushes, 2)


def flushes_per_second(load: Load, flush_ms: int = FLUSH_MS, *, shared: bool = False) -> float:
    """Return the flushes of all topics, each by time or by bytes, whichever comes first; ``shared``: a journal's commits and
    its drains.

    Records of 1 KiB arrive one by one and evenly: a topic without a record has nothing to flush.
    """
    records = load.mib_per_second * 1024 / load.topics
    by_bytes = load.mib_per_second / FLUSH_MIB
    if not shared:
        return max(load.topics * min(1000 / flush_ms, records), by_bytes)
    drains = load.topics * min(records, 1000 / drain_after_ms(DRAIN_MS))
    return max(min(1000 / flush_ms, records * load.topics), by_bytes) + max(drains, by_bytes)


def tidelog(load: Load, flush_ms: int = FLUSH_MS, *, shared: bool = False, in_zones: bool = False) -> dict[str, float]:
    """Return dollars per month by purpose. ``in_zones``: clients know their zone, and reach gateways by their own addresses."""
    gib = load.mib_per_second * GIB_PER_MIB * SECONDS
    flushes = flushes_per_second(load, flush_ms, shared=shared) * SECONDS
    gateways = max(2, math.ceil(load.mib_per_second / GATEWAY_MIB_PER_SECOND) + 1)
    tasks = gateways + 1
    units = load.mib_per_second * GIB_PER_MIB * 3600 * 2
    puts_a_flush, gets_a_flush = measured_flush()
    idle = gateways * IDLE_PUTS_PER_SECOND * SECONDS
    puts = flushes * puts_a_flush + gib * 1024 / MERGED_MIB * 2 + idle
    # The gateway that receives a record for a journal stores it; other records are forwarded to the topic's gateway.
    ways = 2 if shared else 3
    looks = 0.0
    if in_zones:
        # Only records for topics with their own commits leave their zone, directly to the owner; readers' gateways read the
        # store.
        ways = 0 if shared else 1
        seen = 1 if shared else load.topics
        looks = (ZONES - 1) * (seen * ZONE_LOOKS_PER_SECOND[shared] * SECONDS + flushes * ZONE_GETS_PER_FLUSH)
        units = 0
    return {
        "storage": stored_gib(load) * PRICES["S3 Standard, GB-month"],
        "PUT, LIST": puts / 1000 * PRICES["S3 PUT, 1,000"],
        "GET, HEAD": (flushes * (gets_a_flush + GETS_PER_SEGMENT) + looks) / 1000 * PRICES["S3 GET, 1,000"],
        "compute": tasks * HOURS * (PRICES["Fargate vCPU, hour"] + 2 * PRICES["Fargate GB, hour"]),
        "load balancer": HOURS
        * (
            PRICES["Load balancer, hour"] + units * PRICES["Load balancer capacity unit (1 GB an hour), hour"]
        ),
        "between zones": gib * crossing() * ways * PRICES["Traffic between zones, GB, both directions together"],
    }  # fmt: skip


def kafka(load: Load) -> dict[str, float]:
    """Return dollars per month by purpose: three brokers, three copies, consumers that read from their own zone."""
    gib = load.mib_per_second * GIB_PER_MIB * SECONDS
    faster = max(0, load.mib_per_second * 2 - 125)
    return {
        "storage": 3
        * (
            stored_gib(load) * BROKER_DISK_FREE * PRICES["EBS gp3, GB-month"]
            + faster * PRICES["EBS gp3 above 125 MiB/s, MiB/s-month"]
        ),
        "compute": 3 * HOURS * PRICES[f"{load.broker}, hour"],
        "between zones": gib * (crossing() + 2) * PRICES["Traffic between zones, GB, both directions together"],
    }


def drain_after_ms(drain_ms: int) -> float:
    """Return how long a topic's records wait in a journal until they are drained to its table."""
    return max(DRAIN_EARLY * drain_ms, drain_ms - DRAIN_SPARE_MS)


def request_lines(mib_per_second: int) -> float:
    """Return dollars per month for logging each request as a line, in both directions."""
    gib = mib_per_second * 1024 / REQUEST_KIB * SECONDS * 2 * LOG_LINE_BYTES / 2**30
    return gib * PRICES["CloudWatch Logs, GB taken in"]


def own_puts(topics: int, per_second: float, flush_ms: int = FLUSH_MS) -> float:
    """Return PUTs per second of so many topics with their own commits, each with so many records per second, evenly."""
    return topics * min(per_second, 1000 / flush_ms) * PUTS_PER_FLUSH


def shared_puts(topics: int, per_second: float, flush_ms: int = FLUSH_MS, drain_ms: int = DRAIN_MS) -> float:
    """Return the same at one journal: its flushes, and a drain of each topic that has records."""
    flushes = min(topics * per_second, 1000 / flush_ms)
    drains = topics * min(per_second, 1000 / drain_after_ms(drain_ms))
    return (flushes + drains) * PUTS_PER_FLUSH


def puts_bill(puts_per_second: float) -> float:
    """Return dollars per month for these PUTs."""
    return puts_per_second * SECONDS / 1000 * PRICES["S3 PUT, 1,000"]


def stored_gib(load: Load) -> float:
    """Return the size of one copy of the retained data, uncompressed."""
    return load.mib_per_second * GIB_PER_MIB * RETENTION_DAYS * 86400


def crossing() -> float:
    """Return the share of traffic from another zone, with clients in all zones."""
    return (ZONES - 1) / ZONES


def document() -> str:
    """Return docs/cost.md: the text of ``cost.md.template`` around the tables."""
    return Template(TEMPLATE.read_text()).substitute(
        tables="\n".join(line for load in LOADS for line in _table(load)),
        bills="\n".join(_bill_row(load) for load in LOADS),
        topics="\n".join(_topics_row(topics) for topics in MANY_TOPICS),
        puts_per_flush=PUTS_PER_FLUSH,
        drain_s=DRAIN_MS // 1000,
        long_drain_s=LONG_DRAIN_MS // 1000,
        between_drains_s=round(drain_after_ms(DRAIN_MS) / 1000),
        puts_bill=f"{puts_bill(1):.2f}",
        prices="\n".join(f"| {name} | {price:g} | {_seen_in(name)} |" for name, price in PRICES.items()),
        checked=CHECKED,
        days=RETENTION_DAYS,
        zones=ZONES,
        puts_a_flush=measured_flush()[0],
        gets_a_flush=measured_flush()[1],
        idle=IDLE_PUTS_PER_SECOND,
        zone_gets=ZONE_GETS_PER_FLUSH,
        times_below=_times_below(),
        flush_ms=FLUSH_MS,
        flush_mib=FLUSH_MIB,
        merged_mib=MERGED_MIB,
        gets=GETS_PER_SEGMENT,
        gateway_mib=GATEWAY_MIB_PER_SECOND,
        request_kib=REQUEST_KIB,
        line_bytes=LOG_LINE_BYTES,
        lines_little=f"{request_lines(1):,.0f}",
        lines_much=f"{request_lines(100):,.0f}",
        free=round((BROKER_DISK_FREE - 1) * 100),
    )


def _times_below() -> str:
    """Return a sentence about the minimum and maximum factor by which the bill in zones is below Kafka's."""
    found = [
        sum(kafka(load).values()) / sum(tidelog(load, flush_ms, shared=True, in_zones=True).values())
        for load in LOADS
        if load.mib_per_second >= 10
        for flush_ms in BILL_FLUSHES_MS
    ]
    return f"From 10 MiB/s on the bill is {min(found):.1f} to {max(found):.1f} times below Kafka's."


def _seen_in(price: str) -> str:
    return next(where for begin, where in SEEN_IN.items() if re.match(rf"{re.escape(begin)}\b", price))


def _topics_row(topics: int) -> str:
    puts = (own_puts(topics, 1), shared_puts(topics, 1), shared_puts(topics, 1, drain_ms=LONG_DRAIN_MS))
    return f"| {topics:,} | " + " | ".join(f"{one:,.1f} | {puts_bill(one):,.0f}" for one in puts) + " |"


def _bill_row(load: Load) -> str:
    bills = [
        sum(tidelog(load, flush_ms, shared=shared, in_zones=in_zones).values())
        for shared, in_zones in ((False, False), (True, False), (True, True))
        for flush_ms in BILL_FLUSHES_MS
    ]
    theirs = sum(kafka(load).values())
    shown = [f"**{bill:,.0f}**" if bill < theirs else f"{bill:,.0f}" for bill in bills]
    return f"| {load.mib_per_second} MiB/s, {load.topics:,} topics | {' | '.join(shown)} | {theirs:,.0f} |"


def _table(load: Load) -> list[str]:
    own, shared, theirs = tidelog(load), tidelog(load, shared=True), kafka(load)
    near = tidelog(load, shared=True, in_zones=True)
    rows = [
        f"| {what} | {' | '.join(f'{bill.get(what, 0):,.0f}' for bill in (own, shared, near, theirs))} |"
        for what in dict.fromkeys([*own, *theirs])
    ]
    each, together = flushes_per_second(load), flushes_per_second(load, shared=True)
    sums = [f"**{sum(bill.values()):,.0f}**" for bill in (own, shared, near, theirs)]
    return [
        f"## {load.mib_per_second} MiB/s into {load.topics:,} topics",
        "",
        f"{each:,.1f} flushes a second; {together:,.1f} with a journal, its drains included.\nKafka on three {load.broker}.",
        "",
        "| | own | shared | shared, in zones | Kafka |",
        "|---|---|---|---|---|",
        *rows,
        f"| **together** | {' | '.join(sums)} |",
        "",
    ]


def _main() -> None:
    parser = argparse.ArgumentParser(
        description="Write docs/cost.md from the constants of this program; with --topics, print the price of many topics."
    )
    parser.add_argument("--topics", type=int, help="How many: only their PUTs are printed.")
    parser.add_argument("--per-second", type=float, default=1.0, help="Records a second of each of them.")
    parser.add_argument("--flush-ms", type=int, default=FLUSH_MS, help="Their flush.ms.")
    parser.add_argument("--drain-ms", type=int, default=DRAIN_MS, help="Their drain.ms.")
    given = parser.parse_args()
    if given.topics is None:
        OUTPUT.write_text(document())
        return
    load = (given.topics, given.per_second, given.flush_ms)
    for mode, puts in {"own": own_puts(*load), "shared": shared_puts(*load, given.drain_ms)}.items():
        print(f"{mode:6}  {puts:10,.1f} PUTs/s  {puts_bill(puts):10,.0f} $ a month")  # noqa: T201 - asked for


if __name__ == "__main__":
    _main()
