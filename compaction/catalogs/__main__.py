"""``python -m compaction.catalogs sync|status``: the program behind ``tidelog catalog``."""

from __future__ import annotations

import signal

if __name__ == "__main__":
    # Nothing has begun yet, so Ctrl-C may end the process immediately, without a traceback from an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # tidelog/programs.py blocks it until here

import argparse
import json
import logging
import sys

from compaction.catalogs.catalog import CatalogError
from compaction.catalogs.options import add_options, open_catalog
from compaction.catalogs.sync import CatalogSync
from compaction.catalogs.topics import Topics
from compaction.report import JsonReporter, LogReporter, Reporter
from log_format.catalogs.plan import Act
from log_format.clock import SystemClock
from log_format.errors import StoreError, TidelogError
from log_format.stores import open_store

_STATES = {
    Act.CREATE: "missing",
    Act.ALTER: "outdated",
    Act.REPLACE: "of a former topic",
    Act.DROP: "of a deleted topic",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a sync, or show the state; return 0 if all topics are in the catalog, 1 if one is not, 2 for wrong options."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    report: Reporter = JsonReporter() if options.json else LogReporter()
    try:
        catalog = open_catalog(options)
        assert catalog is not None  # an option is required
        store = open_store(options.store, must_exist=True)
        sync = CatalogSync(Topics(store, SystemClock()), catalog, report, store_uri=store.uri)
        return _status(sync, as_json=options.json) if options.command == "status" else _run(sync, options, report)
    except (CatalogError, TidelogError, StoreError, ValueError) as problem:
        sys.stderr.write(f"{problem}\n")
        return 1


def _run(sync: CatalogSync, options: argparse.Namespace, report: Reporter) -> int:
    outcome = sync.run(is_dry_run=options.dry_run)
    report.event("dry run" if options.dry_run else "catalog", **outcome.as_dict())
    return 1 if outcome.problems else 0


def _status(sync: CatalogSync, *, as_json: bool) -> int:
    """Show a line for each table, and return 0 if all are as they should be."""
    plan, unread = sync.plan()
    rows = [{"table": name, "state": "current"} for name in plan.unchanged]
    rows += [{"table": one.name, "topic": one.topic, "state": _STATES[one.act]} for one in plan.actions]
    rows += [
        {"table": one.name, "topic": one.topic, "state": "not ours", "problem": one.reason} for one in plan.conflicts
    ]
    rows += [{"table": "", "topic": topic, "state": "unreadable", "problem": why} for topic, why in unread.items()]
    if as_json:
        sys.stdout.write(json.dumps({"catalog": sync.catalog.label, "tables": rows}) + "\n")
    else:
        sys.stdout.write(f"{sync.catalog.label}\n")
        for row in rows:
            detail = " ".join(row[name] for name in ("topic", "problem") if row.get(name))
            sys.stdout.write(f"{row['state']:18} {row['table']} {detail}".rstrip() + "\n")
    return 0 if len(rows) == len(plan.unchanged) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tidelog catalog", description="Topics as tables of a catalog.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("sync", "status"):
        command = commands.add_parser(name)
        command.add_argument("--store", required=True, help="a directory, file:///directory or s3://bucket/prefix")
        command.add_argument("--json", action="store_true", help="JSON on standard output")
        add_options(command, required=True)
        if name == "sync":
            command.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
