"""``python -m tests.attacks [ROW …]``: run them, and print what each cost others. Exit code 1 where one did what it must not.

An attack fails when nothing of it worked, ``/healthz`` waited at most 250 ms, and the gateway held at most 600 MiB. The machine's
own hiccups come and go: of up to three tries the best counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.attacks import by_clients, deployment, past_clients
from tests.attacks.target import Row, target
from tests.support.siege import TRIES_MAX, Cost, measure

ROWS = tuple(sorted((*by_clients.ROWS, *past_clients.ROWS, *deployment.ROWS), key=lambda row: row.number))


def main(arguments: Sequence[str]) -> int:
    """Run the rows that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, metavar="ROW", help="numbers of rows; without: all")
    chosen = parser.parse_args(arguments).rows
    return run([row for row in ROWS if not chosen or row.number in chosen])


def run(rows: Sequence[Row]) -> int:
    """The exit code."""
    worked = 0
    print("| row | attack | /healthz waited, ms | resident, MiB | |\n|---|---|---|---|---|")
    for row in rows:
        cost, what = _tried(row)
        worked += what != "fails"
        figures = "| |" if cost is None else f"| {cost.stall_ms:.0f} | {cost.peak_bytes >> 20} |"
        print(f"| {row.number} | {row.what} {figures} {what} |", flush=True)
    print(f"\n{len(rows)} attacks, {worked} worked")
    return 1 if worked else 0


def _tried(row: Row) -> tuple[Cost | None, str]:
    best: Cost | None = None
    with tempfile.TemporaryDirectory(prefix="tidelog-attack-") as name:
        try:
            with target(Path(name), row.settings) as attacked:
                gateway, attack = attacked.gateway, row.prepare(attacked)
                health_url = gateway.operations_url if row.is_seen_by_operators else gateway.url
                for _ in range(TRIES_MAX):
                    cost = measure(gateway, attack, health_url)
                    best = cost if best is None or cost.stall_ms < best.stall_ms else best
                    if best.is_borne():
                        return best, "fails"
        except AssertionError as did:
            return best, f"WORKED: {str(did)[:300]}"
    return best, "WORKED: others paid for it"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
