"""``python -m benchmarks pace``: clients that wait for each answer, beside a broker of Apache Kafka in the same run.

Each load runs at a gateway with default settings on each store, and at the broker, which runs beside (flush.ms is 250, and Kafka
does not fsync). Requests to the store are those of the gateway's metrics, heartbeats included; their price is S3's. A load whose
program is missing says so. Loads of many topics have no broker: they run with early flushes and without
(--flush-savings-max-ms 0).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from benchmarks.harness.client import ClientFailed
from benchmarks.harness.report import printed
from benchmarks.harness.stores import STORES
from benchmarks.pace import many_topics, one_by_one, programs
from benchmarks.pace.commit_floor import commit_floor
from benchmarks.pace.done import Done
from benchmarks.pace.places import Place, broker, gateway
from benchmarks.pace.rows import add_row, new_table
from tests.kafka_clients.tried.programs import Failed, Missing

Load = Callable[[Place, str, float], Iterator[Done]]
LOADS: Final[Mapping[str, Load]] = {
    "commit-floor": commit_floor,
    "http": one_by_one.http,
    "sdk": one_by_one.sdk,
    "librdkafka": one_by_one.librdkafka,
    "java": one_by_one.java_waits,
    "perf-test": programs.performance,
    "debezium": programs.debezium_changes,
    "faststream": one_by_one.fast_stream,
    "registry": programs.registry,
    "each-100-ms": one_by_one.each_100_ms,
    "each-2-s": one_by_one.each_2_s,
}
_EXAMPLES: Final = """examples:
  python -m benchmarks pace
  python -m benchmarks pace --only http sdk librdkafka --stores directory --seconds 5
  python -m benchmarks pace --only debezium registry --stores minio-slow --no-kafka
  python -m benchmarks pace --only 1000x1 200x20 --stores directory --json

loads:
"""


def main(arguments: Sequence[str]) -> int:
    """Measure the chosen loads. Return 1 if one failed; a load whose program is missing did not fail."""
    given = _parser().parse_args(arguments)
    rows: list[dict[str, Any]] = []
    with printed(as_json=given.json):
        if loads := [name for name in given.only if name in LOADS]:
            rows += _measured(loads, given)
        if cases := [name for name in given.only if name in many_topics.CASES]:
            rows += many_topics.measure(cases, given.stores, given.seconds, given.topics)
    if given.json:
        print(json.dumps(rows, indent=1))
    return int(any("failed" in row for row in rows))


def _measured(loads: Sequence[str], given: argparse.Namespace) -> list[dict[str, Any]]:
    table, rows = new_table(), []
    with ExitStack() as running:
        beside = running.enter_context(broker()) if given.kafka else None
        places = [running.enter_context(gateway(name)) for name in given.stores]
        for load in loads:
            theirs = _tried(load, beside, given.seconds)[0] if beside is not None else []
            for place in places:
                ours, why = _tried(load, place, given.seconds)
                for number, one in enumerate(ours):
                    rows.append(add_row(table, place, one, theirs[number] if number < len(theirs) else None))
                if why:
                    table.add(load, place.name, *why.values())
                    rows.append({"load": load, "store": place.name, **why})
    return rows


def _tried(load: str, place: Place, seconds: float) -> tuple[list[Done], dict[str, str]]:
    """Return what was measured, and why no more was."""
    print(f"... {load}, {place.name}", file=sys.stderr, flush=True)
    found: list[Done] = []
    try:
        found += LOADS[load](place, load, seconds)
    except Missing as missing:
        return found, {"not run": str(missing)}
    except Exception as error:  # noqa: BLE001 - of one load: the others are measured all the same
        words = str(error) if isinstance(error, Failed | ClientFailed) else f"{type(error).__name__}: {error}"
        print(f"{load}, {place.name} failed: {words}", flush=True)
        return found, {"failed": words[:300]}
    return found, {}


def _parser() -> argparse.ArgumentParser:
    known = [*LOADS, *many_topics.CASES]
    told = [f"  {name:<16}{(load.__doc__ or '').splitlines()[0]}" for name, load in LOADS.items()]
    told.append(
        f"  {', '.join(many_topics.CASES)}: topics x requests a second, as python -m benchmarks topics has them"
    )
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks pace",
        description=__doc__,
        epilog=_EXAMPLES + "\n".join(told),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="LOAD", help="default: all")
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES), help="default: all")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load (default 5)")
    parser.add_argument("--topics", type=int, help="loads of many topics: in place of their own number")
    parser.add_argument("--no-kafka", dest="kafka", action="store_false", help="without a broker beside")
    parser.add_argument("--json", action="store_true", help="rows on standard output, tables on standard error")
    return parser
