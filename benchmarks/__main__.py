"""``python -m benchmarks [NAME …]``: measure and print; with ``--write`` also replace the results in benchmarks/README.md."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from benchmarks.harness.options import Options, add_options
from benchmarks.harness.pairs import commit_of
from benchmarks.harness.processes import ROOT
from benchmarks.harness.report import Table, printed, with_results
from log_format.version import __version__

README: Final = Path(__file__).with_name("README.md")
BENCHMARKS: Final = {
    "produce": ("produce.produce",),
    "ack": ("produce.acknowledgement",),
    "flush": ("produce.flush",),
    "commits": ("produce.commits",),
    "small": ("produce.small",),
    "delays": ("produce.delays",),
    "fetch": ("fetch.fetch",),
    "history": ("fetch.history",),
    "codec": ("gateways.codec",),
    "startup": ("gateways.startup",),
    "memory": ("gateways.memory",),
    "requests": ("gateways.requests",),
    "workers": ("gateways.workers",),
    "zones": ("gateways.zones",),
    "iceberg": ("gateways.iceberg",),
    "groups": ("groups.groups", "groups.swarm"),
    "swarm": ("groups.swarm",),
    "queues": ("queues.queues",),
    "sdk": ("sdk.sdk",),
    "kafka": ("kafka.listener",),
    "spark": ("spark.spark",),
    "security": ("security.requests", "security.hop", "security.access_state", "security.quotas"),
    "hop": ("security.hop",),
    "maintenance": ("maintenance.merging", "maintenance.long_history", "maintenance.keeping_up", "maintenance.memory"),
    "long-history": ("maintenance.long_history",),
    "maintenance-memory": ("maintenance.memory",),
    "archive": ("maintenance.archive",),
    "clone": ("maintenance.clone",),
    "catalog-sync": ("maintenance.catalog_sync",),
    "manifests": ("maintenance.manifests",),
    "registry": ("registry.registry",),
    "typed": ("typed.produce", "typed.spark"),
    "typed-spark": ("typed.spark",),
    "typed-rows": ("typed.visible",),
    "collect": ("collect.collect",),
}
"""The modules of each benchmark, whose ``measure(options)`` yields tables. One is imported when it is asked for."""
USUAL: Final = ("produce", "ack", "flush", "fetch", "startup", "memory", "groups", "queues", "requests", "sdk", "spark")
PROGRAMS: Final = {
    "topics": "topics.topics",
    "pace": "pace.pace",
    "collect-kills": "collect.kills",
    "erase": "maintenance.erasing",
    "one-copy": "typed.one_copy",
    "cluster": "maintenance.cluster",
}
"""Benchmarks with options of their own, and the modules whose ``main(arguments)`` runs them."""


def main(arguments: list[str]) -> int:
    """Run the chosen benchmarks."""
    # So that the processes that they started end with this one.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    if arguments and arguments[0] in PROGRAMS:
        program = importlib.import_module(f"benchmarks.{PROGRAMS[arguments[0]]}")
        return int(program.main(arguments[1:]))
    given = vars(_parser().parse_args(arguments))
    names, writes, as_json = given.pop("names"), given.pop("write"), given.pop("json")
    with printed(as_json=as_json):
        tables = list(_measured(names, Options(**given)))
    if as_json:
        print(json.dumps([{"benchmark": name, **table.as_json()} for name, table in tables], indent=1))
    if writes:
        about, asked = _about(), " ".join(arg for arg in arguments if arg.startswith("-") or arg not in BENCHMARKS)
        asked = asked.replace("--write", "").replace("--json", "").strip()
        made = [
            (table.title, table.markdown(f"python -m benchmarks {name} {asked}".strip(), about))
            for name, table in tables
        ]
        README.write_text(with_results(README.read_text(), made))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=f"{', '.join(PROGRAMS)} have options of their own: python -m benchmarks topics --help",
    )
    parser.add_argument(
        "names",
        nargs="*",
        choices=BENCHMARKS,
        default=USUAL,
        metavar="NAME",
        help=f"of {', '.join((*BENCHMARKS, *PROGRAMS))}; without: {', '.join(USUAL)}",
    )
    parser.add_argument("--json", action="store_true", help="the tables on standard output as JSON")
    parser.add_argument("--write", action="store_true", help="replace these results in benchmarks/README.md")
    add_options(parser)
    return parser


def _measured(names: list[str], options: Options) -> Iterator[tuple[str, Table]]:
    """Run benchmarks in the order of ``BENCHMARKS``, and give each table with its benchmark's name."""
    done = set()
    for name in (known for known in BENCHMARKS if known in names):
        for module in BENCHMARKS[name]:
            if module not in done:
                done.add(module)
                for table in importlib.import_module(f"benchmarks.{module}").measure(options):
                    yield name, table


def _about() -> str:
    return (
        f"Tidelog {__version__} at {commit_of(ROOT)}, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores "
        f"({platform.machine()}), {psutil.virtual_memory().total / 2**30:.0f} GiB, Python {platform.python_version()}; "
        "the load generator, the gateway and the store share the cores, and other work may run beside them."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
