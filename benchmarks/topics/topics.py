"""``python -m benchmarks topics [CASE …]``: what a gateway does with many small topics.

With ``--tree`` the gateways of other commits of this repository are measured beside this one, in turn, in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.harness.processes import ROOT
from benchmarks.harness.report import printed
from benchmarks.harness.stores import STORES
from benchmarks.topics import drain, fan_out, loads, readers, several, spark, takeover
from benchmarks.topics.outcome import Options, Outcome, ratios, tables
from benchmarks.topics.picture import draw
from benchmarks.topics.site import DEFAULT_MODE, MODES, Run, opened

Measure = Callable[[str, Run, Options], Outcome]
CASES: Final[dict[str, Measure]] = {
    **dict.fromkeys(loads.LOADS, loads.measure),
    "fan-out": fan_out.measure,
    **dict.fromkeys(several.CASES, several.measure),
    "takeover": takeover.measure,
    "readers": readers.measure,
    "readers-unheard": readers.measure,
    "drain": drain.measure,
    "spark": spark.measure,
}


def main(arguments: Sequence[str]) -> int:
    """Run the chosen cases; exit status 0, whatever was measured."""
    given = _parser().parse_args(arguments)
    options = Options(
        seconds=given.seconds,
        warm_up_seconds=given.warm_up,
        topics=given.topics,
        drain_ms=given.drain_ms,
    )
    cases = list(given.cases)
    if "loads" in cases:
        place = cases.index("loads")
        cases[place : place + 1] = loads.LOADS
    outcomes = []

    def kept() -> Iterator[Outcome]:
        for outcome in _measured(cases, _runs(given), options):
            outcomes.append(outcome)
            yield outcome

    # With --json the tables go to the operator's terminal, out of the way of the program that reads the JSON.
    with printed(as_json=given.json):
        tables(kept())
    if given.json:
        print(json.dumps([outcome.as_json() for outcome in [*outcomes, *ratios(outcomes)]], indent=1))
    if given.picture is not None:
        draw(outcomes, given.picture)
    return 0


def _measured(cases: Sequence[str], runs: Sequence[Run], options: Options) -> Iterator[Outcome]:
    for case in cases:
        for run in runs:
            yield CASES[case](case, run, options)


def _runs(given: argparse.Namespace) -> list[Run]:
    """Return every tree with every store and mode, but for modes that the tree does not have."""
    made = []
    for tree in (*given.tree, ROOT):
        known = _modes(tree)
        for mode in given.mode:
            if mode not in known:
                print(f"{tree}: has no commit.mode {mode}, left out", file=sys.stderr)
                continue
            made += [Run(tree=tree.resolve(), store=store, mode=mode) for store in given.store]
    return made


def _modes(tree: Path) -> list[str]:
    with opened(Run(tree=tree.resolve(), store="directory", mode=DEFAULT_MODE)) as site:
        return [mode for mode in MODES if mode == DEFAULT_MODE or site.knows("commit.mode", mode)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks topics", description=__doc__)
    choices = ["loads", *CASES]
    parser.add_argument("cases", nargs="*", choices=choices, default=["loads"], metavar="CASE", help=", ".join(choices))
    parser.add_argument("--tree", action="append", type=Path, default=[], help="another work tree of this repository")
    parser.add_argument("--mode", nargs="+", choices=MODES, default=[DEFAULT_MODE], help="commit.mode of the topics")
    parser.add_argument("--store", nargs="+", choices=STORES, default=["directory"])
    parser.add_argument("--seconds", type=float, default=15.0, help="measured, of each load (default 15)")
    parser.add_argument("--warm-up", type=float, default=5.0, help="seconds of load before them (default 5)")
    parser.add_argument("--topics", type=int, help="instead of a case's own number")
    parser.add_argument("--drain-ms", type=int, default=10_000, help="of the topics in the case drain (default 10000)")
    parser.add_argument("--json", action="store_true", help="the figures on standard output, tables on standard error")
    parser.add_argument("--picture", type=Path, help="draw latency and $ a month by number of topics into this PNG")
    return parser
