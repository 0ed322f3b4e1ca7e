"""``tidelog serve``: become a gateway."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Annotated

import typer

from tidelog.cli.console import note
from tidelog.cli.exit_code import ExitCode

NEEDED = ("fastapi", "uvicorn", "pyarrow", "structlog")
"""Of the extra ``gateway``; any of them missing means that it is not installed."""


def serve(
    context: typer.Context,
    store: Annotated[
        str,
        typer.Option(
            envvar="TIDELOG_STORE", help="A directory, file:///directory, s3://bucket/prefix or memory://name."
        ),
    ],
    host: Annotated[str, typer.Option(envvar="TIDELOG_HOST", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port; 0: any free one. Default: that in TIDELOG_PORT, else 8080."),
    ] = None,
) -> None:
    """Serve a store over HTTP, until Ctrl-C or SIGTERM, which finish what is under way first.

    Further options go to the gateway as they are; 'python -m gateway --help' lists them. The exit code is the gateway's:
    0 after finishing everything, 1 when something could not be finished, 2 for wrong settings, 3 when it could not start.

    \b
    Examples:
      tidelog serve --store ./log
      tidelog serve --store s3://bucket/prefix --host 0.0.0.0 --log-level debug
    """
    missing = [name for name in (*NEEDED, "gateway") if importlib.util.find_spec(name) is None]
    if missing:
        note(
            f"The gateway needs {', '.join(missing)}: pip install 'tidelog[gateway]' (with s3 too: 'tidelog[gateway,s3]')"
        )
        raise typer.Exit(ExitCode.FAILED)
    arguments = [sys.executable, "-m", "gateway", "--store", store, "--host", host]
    # Without the option the gateway reads the variable itself: it knows what Kubernetes puts there.
    arguments += [] if port is None else ["--port", str(port)]
    arguments += context.args
    # In place of this process, so that signals and the exit code are the gateway's own.
    os.execv(sys.executable, arguments)  # noqa: S606
