"""``python -m compaction``: maintenance as a process; ``spark-submit compaction/__main__.py`` runs the same on a cluster."""

from __future__ import annotations

import signal

if __name__ == "__main__":
    # Nothing has begun yet, so Ctrl-C may end the process immediately, without a traceback from an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # tidelog/programs.py blocks it until here

import argparse
import logging
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Final

from rich.console import Console
from rich.progress import Progress, TaskID

from compaction.catalogs.options import add_options, open_catalog
from compaction.catalogs.sync import CatalogSync
from compaction.catalogs.topics import Topics
from compaction.catalogs.watch import CatalogWatch
from compaction.job import Job
from compaction.report import STEP, JsonReporter, LogReporter, Reporter, Totals
from compaction.sign_of_life import SignOfLife
from compaction.workers import LocalWorkers, Workers
from log_format.clock import Clock, SystemClock
from log_format.errors import StoreError, TidelogError
from log_format.store import ObjectStore
from log_format.stores import open_store

COLLECT_EVERY_MS: Final = 600_000
"""Least time between two collections: listings cost requests, and what they find has waited for hours already."""

NAP_MS: Final = 200
"""Longest time for which a swallowed signal goes unnoticed between two rounds."""

_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})(s|m|h)")
_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000}


def main(arguments: list[str] | None = None) -> int:
    """Run maintenance; return 0 if every topic was maintained, 1 if one was not, 2 for wrong options."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.metrics_port is not None and options.every is None:
        parser.error("--metrics-port needs --every: a single round ends before it can be scraped")
    if options.timer is not None and options.every is not None:
        parser.error(
            "--timer is for single rounds that a timer starts, and --every runs rounds by itself: leave one of them out"
        )
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("py4j").setLevel(logging.ERROR)

    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        # Exit immediately: unfinished work is either committed or collected later.
        del frame
        signals.append(number)
        raise SystemExit(_exit_code(signals, options))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    workers: Workers | None = None
    try:
        # With --every the process may start before its gateway has created the store.
        store = open_store(options.store, must_exist=options.every is None)
        workers = _workers(options.workers, options.store)
        with _reporting(options) as reporter:
            sign = _sign_of_life(reporter, store, options)
            report = RoundReporter(sign or reporter, lambda: _end_at_signal(signals, options))
            job = Job(
                store=store,
                workers=workers,
                clock=SystemClock(),
                report=report,
                only=options.topic,
                is_dry_run=options.dry_run,
                erases_only=options.erase_only,
            )
            return _run(job, report, options, signals, _catalog_watch(store, report, options))
    except (TidelogError, StoreError, ValueError) as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    finally:
        stop_workers = getattr(workers, "stop", None)
        if stop_workers is not None:
            stop_workers()


def _reporting(options: argparse.Namespace) -> AbstractContextManager[Reporter]:
    """Return the reporter for these options. Raises ``ValueError`` if metrics can't be served."""
    report: Reporter = JsonReporter() if options.json else LogReporter()
    if options.metrics_port is None:
        return nullcontext(report)
    try:
        from compaction.metrics import serve  # noqa: PLC0415 - only metrics need prometheus_client
    except ModuleNotFoundError as error:
        raise ValueError("--metrics-port needs prometheus-client: pip install 'tidelog[collect]'") from error
    return serve(report, SystemClock(), host=options.metrics_host, port=options.metrics_port)


def _sign_of_life(report: Reporter, store: ObjectStore, options: argparse.Namespace) -> SignOfLife | None:
    """Return what gives signs of life; None unless everything is maintained."""
    if options.topic or options.dry_run or options.erase_only:
        return None
    is_single = options.every is None
    return SignOfLife(
        report, store, SystemClock(), every_ms=options.timer if is_single else options.every, is_single=is_single
    )


class RoundReporter:
    """A reporter that forwards events to another one, and shows how far the round and each topic's backfill are.

    ``at_step``: called at each step of a round; may end the program.
    """

    def __init__(self, report: Reporter, at_step: Callable[[], None]) -> None:
        self._report = report
        self._at_step = at_step
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def event(self, event: str, **fields: str | float) -> None:
        """Forward and show the event."""
        self._report.event(event, **fields)
        if event == STEP:
            self._at_step()
            if fields:
                self._show("topics", left=float(fields["total"]) - float(fields["done"]))
        elif event == "backfill":
            self._show(f"backfill of {fields['topic']}", left=float(fields["bytes_left"]))

    def begin(self, progress: Progress | None) -> None:
        """Show the events that follow by ``progress``; None: show none."""
        self._progress = progress
        self._tasks.clear()

    def _show(self, what: str, *, left: float) -> None:
        """Show the bar of ``what``, whose length is what was ``left`` when it was shown first."""
        if self._progress is None:
            return
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=left)
        task = self._tasks[what]
        total = next(one.total for one in self._progress.tasks if one.id == task) or left
        self._progress.update(task, completed=total - left)


def _catalog_watch(store: ObjectStore, report: Reporter, options: argparse.Namespace) -> CatalogWatch | None:
    """Return what keeps the tables of the catalog that the options name up to date, or None."""
    catalog = open_catalog(options)
    if catalog is None:
        return None
    clock = SystemClock()
    sync = CatalogSync(Topics(store, clock), catalog, report, store_uri=store.uri)
    return CatalogWatch(sync, clock, report, is_dry_run=options.dry_run)


def _run(
    job: Job, report: RoundReporter, options: argparse.Namespace, signals: list[int], watch: CatalogWatch | None = None
) -> int:
    """Run rounds until ``signals`` has a signal, whose exception may be swallowed if the signal comes within a finalizer.

    While a topic's backfill is unfinished, the next round begins immediately, also after a single one.
    """
    clock = job.clock
    collected_ms: int | None = None
    failed = False
    if watch is not None:
        # A single round syncs once; otherwise a thread does so, since a round may take long.
        (watch.step if options.every is None else watch.start)()
        failed = watch.failed
    while True:
        started_ms = clock.monotonic_ms()
        collect = collected_ms is None or started_ms - collected_ms >= COLLECT_EVERY_MS
        try:
            totals = _round(job, report, options, collect=collect)
        except (TidelogError, StoreError) as problem:
            if options.every is None:
                raise
            totals = Totals(failed_topics=1)
            report.event("failed", problem=str(problem))
        collected_ms = started_ms if collect else collected_ms
        report.event("round", ms=clock.monotonic_ms() - started_ms, **totals.as_dict())
        failed = failed or bool(totals.failed_topics)
        goes_on = totals.unfinished_backfills > 0 and totals.rewrites > 0
        if options.every is None and not goes_on:
            return 1 if failed else 0
        if not _sleep_until(clock, started_ms + (0 if goes_on else options.every or 0), signals):
            return _exit_code(signals, options)


def _sleep_until(clock: Clock, until_ms: int, signals: list[int]) -> bool:
    """Sleep until ``until_ms`` (monotonic clock); return False as soon as ``signals`` has a signal."""
    while not signals:
        left_ms = until_ms - clock.monotonic_ms()
        if left_ms <= 0:
            return True
        clock.sleep_ms(min(left_ms, NAP_MS))
    return False


def _end_at_signal(signals: list[int], options: argparse.Namespace) -> None:
    if signals:
        raise SystemExit(_exit_code(signals, options))


def _exit_code(signals: list[int], options: argparse.Namespace) -> int:
    """Return the exit code after a signal. For a process that runs until it is stopped, the signal is a normal end."""
    return 0 if options.every is not None else 128 + signals[0]


def _round(job: Job, report: RoundReporter, options: argparse.Namespace, *, collect: bool) -> Totals:
    show = not options.json and sys.stderr.isatty()
    bar = Progress(console=Console(stderr=True), transient=True) if show else nullcontext()
    with bar as progress:
        report.begin(progress)
        return job.run_round(collect=collect)


def _workers(name: str, store_uri: str) -> Workers:
    if name == "local":
        return LocalWorkers(open_store(store_uri))
    from compaction.spark_workers import SparkWorkers  # noqa: PLC0415 - only Spark needs it

    return SparkWorkers(store_uri)


def _milliseconds(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 60s, 5m or 1h")
    return int(match.group(1)) * _MS[match.group(2)]


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tidelog maintain", description="Maintain the topics of a store.")
    parser.add_argument("--store", required=True, help="a directory, file:///directory or s3://bucket/prefix")
    parser.add_argument("--topic", action="append", default=[], help="only this topic; may be given several times")
    often = parser.add_mutually_exclusive_group()
    often.add_argument("--once", action="store_true", help="one round, then exit (the default)")
    often.add_argument(
        "--every", type=_milliseconds, metavar="60s", help="a round at this interval, until SIGTERM or Ctrl-C"
    )
    parser.add_argument(
        "--timer",
        type=_milliseconds,
        metavar="1h",
        help="a timer starts single rounds at this interval: gateways raise an alarm when it does not",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--erase-only", action="store_true", help="only carry out requests to erase")
    parser.add_argument("--json", action="store_true", help="one JSON object a line on standard output")
    parser.add_argument(
        "--workers",
        choices=("spark", "local"),
        default="spark",
        help="where segments are rewritten: Spark, or this process",
    )
    parser.add_argument(
        "--metrics-port", type=_port, metavar="9102", help="serve metrics for Prometheus there; with --every"
    )
    parser.add_argument(
        "--metrics-host", default="127.0.0.1", metavar="ADDRESS", help="where metrics are served (default 127.0.0.1)"
    )
    add_options(parser, required=False)
    return parser


if __name__ == "__main__":
    sys.exit(main())
