"""``tidelog maintain``: become the process that maintains a store's topics."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.commands.catalog import NamedCatalog
from tidelog.cli.terminal.console import note
from tidelog.cli.terminal.durations import in_seconds
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.programs import become


class Workers(StrEnum):
    """Engine that rewrites segments."""

    SPARK = "spark"
    LOCAL = "local"


NEEDED = {
    Workers.SPARK: ("pyspark", "pyarrow", "numpy", "compaction"),
    Workers.LOCAL: ("pyarrow", "numpy", "compaction"),
}
"""Packages of the extras ``spark`` and ``arrow``; if one is missing, the extra is not installed."""
METRICS_NEEDED = "prometheus_client"


def maintain(
    store: Annotated[
        str, typer.Option(envvar="TIDELOG_STORE", help="A directory, file:///directory or s3://bucket/prefix.")
    ],
    *,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; repeatable.", metavar="NAME")] = None,
    once: Annotated[bool, typer.Option("--once", help="Run one round, then exit. The default.")] = False,
    every: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=in_seconds(least=1),
            help="Run a round at this interval (60s, 5m), until Ctrl-C or SIGTERM.",
        ),
    ] = None,
    timer: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=in_seconds(least=1),
            help="A timer starts --once at this interval (1h): gateways raise an alarm when it does not.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report what would be done, and change nothing.")] = False,
    workers: Annotated[
        Workers, typer.Option(help="What rewrites segments: Spark's executors, or this process alone.")
    ] = Workers.SPARK,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each step.")] = False,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve metrics for Prometheus on this port; needs --every.")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address on which metrics are served.", metavar="ADDRESS")
    ] = "127.0.0.1",
    named: NamedCatalog,
) -> None:
    """Maintain the topics of a store: merge small segments, apply retention, compact keys, delete what no reader needs.

    Runs concurrently with gateways, readers and other runs. It may be stopped at any time: the next round continues its work.
    Every deletion is reported with its reason before it is done. Exit code 1 when a topic failed.
    With --unity, --glue or --hive it also keeps the topics' tables in that catalog up to date, as tidelog catalog sync.

    \b
    Examples:
      tidelog maintain --store ./log --every 60s --metrics-port 9102
      tidelog maintain --store s3://bucket/prefix --once --timer 1h
      tidelog maintain --store s3://bucket/prefix --once --dry-run
    """
    if once and every is not None:
        note("--once and --every exclude each other.")
        raise typer.Exit(ExitCode.USAGE)
    if timer is not None and every is not None:
        note(
            "--timer is for single rounds that a timer starts, and --every runs rounds by itself: leave one of them out."
        )
        raise typer.Exit(ExitCode.USAGE)
    if metrics_port is not None and every is None:
        note("--metrics-port needs --every: a single round ends before Prometheus could ask.")
        raise typer.Exit(ExitCode.USAGE)
    _exit_without_packages(workers, has_metrics=metrics_port is not None)
    arguments = ["--store", store, "--workers", workers.value]
    arguments += [argument for name in topic or () for argument in ("--topic", name)]
    arguments += ["--every", f"{round(every)}s"] if every is not None else ["--once"]
    arguments += ["--timer", f"{round(timer)}s"] if timer is not None else []
    arguments += ["--dry-run"] if dry_run else []
    arguments += ["--json"] if as_json else []
    if metrics_port is not None:
        arguments += ["--metrics-port", str(metrics_port), "--metrics-host", metrics_host]
    become("compaction", [*arguments, *named.arguments(required=False)])


def _exit_without_packages(workers: Workers, *, has_metrics: bool) -> None:
    """Say what to install, and exit, if a package is missing."""
    needed = (*NEEDED[workers], *([METRICS_NEEDED] if has_metrics else []))
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        # Without Spark a smaller extra is enough; ``collect`` includes Prometheus' client.
        without_spark = "collect" if has_metrics else "arrow"
        extra = "spark" if workers is Workers.SPARK else without_spark
        without = ", or --workers local, which needs no Spark" if workers is Workers.SPARK else ""
        note(
            f"Maintenance needs {', '.join(missing)}: pip install 'tidelog[{extra}]' (with s3 too: 'tidelog[{extra},s3]')"
            f"{without}"
        )
        raise typer.Exit(ExitCode.FAILED)
