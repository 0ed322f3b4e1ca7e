"""``tidelog pipeline``: become the process that maintains typed tables of a topic."""

from __future__ import annotations

import importlib.util

import typer

from tidelog.cli.terminal.console import note
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.programs import become

NEEDED = ("pyspark", "delta", "pyarrow", "spark_pipeline")
"""Packages of the extra ``spark``; if one is missing, it is not installed."""


def pipeline(context: typer.Context) -> None:
    """Maintain a typed Delta table and aggregates of a JSON topic, each record once; invalid records go to a dead letter topic.

    Exit codes: 0 when it ended as requested, 1 when it failed, 2 for wrong settings.

    \b
    Examples:
      tidelog pipeline --config pipeline.toml
      tidelog pipeline --store ./log --topic flights --output ./lake --available-now --schema 'hour INT NOT NULL, carrier STRING'
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        note(f"A pipeline needs {', '.join(missing)}: pip install 'tidelog[spark]' (with s3 too: 'tidelog[spark,s3]')")
        raise typer.Exit(ExitCode.FAILED)
    become("spark_pipeline.jobs.pipeline", context.args)
