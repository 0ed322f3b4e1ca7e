"""``tidelog serve``: become a gateway."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.terminal.console import note
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.programs import become

NEEDED = ("fastapi", "uvicorn", "pyarrow", "httptools")
"""Packages of the extra ``gateway``; if one is missing, it is not installed."""


class LogLevel(StrEnum):
    """Lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """Format of a log line."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


WorkersOption = Annotated[
    int,
    typer.Option(
        min=1,
        max=64,
        envvar="TIDELOG_WORKERS",
        help="Number of gateway processes behind the port, each using a core. SIGHUP replaces them one by one.",
    ),
]

KafkaOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        envvar="TIDELOG_KAFKA_LISTEN",
        help="Also listen on this address for Kafka's own clients. Needs the extra 'kafka'.",
    ),
]

RegistryOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        envvar="TIDELOG_REGISTRY",
        help="Also listen on this address for clients of the schema registry whose URL can't have a path.",
    ),
]


def serve(
    context: typer.Context,
    store: Annotated[
        str,
        typer.Option(
            envvar="TIDELOG_STORE", help="A directory, file:///directory, s3://bucket/prefix or memory://name."
        ),
    ],
    *,
    host: Annotated[
        str, typer.Option(envvar="TIDELOG_HOST", help="The address to listen on; 0.0.0.0: all of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port; 0: any free one. Default: that in TIDELOG_PORT, else 8080."),
    ] = None,
    advertised_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="TIDELOG_ADVERTISED_URL",
            help="http://HOST:PORT, by which clients and other gateways reach this one. Default: from --host and --port, "
            "which others can't reach if --host is 0.0.0.0.",
        ),
    ] = None,
    workers: WorkersOption = 1,
    kafka: KafkaOption = None,
    registry: RegistryOption = None,
    log_level: Annotated[
        LogLevel,
        typer.Option(envvar="TIDELOG_LOG_LEVEL", help="Lowest level that is logged. info: a line for each request."),
    ] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat,
        typer.Option(
            envvar="TIDELOG_LOG_FORMAT",
            help="Format of the log on standard error. auto: text on a terminal, else JSON.",
        ),
    ] = LogFormat.AUTO,
) -> None:
    """Serve a store over HTTP, until Ctrl-C or SIGTERM; requests under way finish first.

    Below are the options that are needed first, then all settings (TLS, memory, timeouts, threads). Exit codes: 0 after finishing
    all requests, 1 when some could not be finished, 2 for wrong settings or an unusable store, 3 when it could not start.

    \b
    Examples:
      tidelog serve --store ./log
      tidelog serve --store ./log --port 9000 --log-level warning
      tidelog serve --store ./log --workers 4
      tidelog serve --store ./log --kafka 127.0.0.1:9092
      tidelog serve --store ./log --tls-cert cert.pem --tls-key key.pem
      tidelog serve --store s3://bucket/prefix --host 0.0.0.0 --advertised-url http://10.0.0.7:8080 --auth on
    """
    missing = [name for name in (*NEEDED, "gateway") if importlib.util.find_spec(name) is None]
    if missing:
        note(
            f"The gateway needs {', '.join(missing)}: pip install 'tidelog[gateway]' (with s3 too: 'tidelog[gateway,s3]')"
        )
        raise typer.Exit(ExitCode.FAILED)
    arguments = ["--store", store, "--host", host]
    # Without the option the gateway reads the variable itself, and handles what Kubernetes sets there.
    arguments += [] if port is None else ["--port", str(port)]
    arguments += [] if advertised_url is None else ["--advertised-url", advertised_url]
    arguments += [] if kafka is None else ["--kafka-listen", kafka]
    arguments += [] if registry is None else ["--registry", registry]
    arguments += [] if workers == 1 else ["--workers", str(workers)]
    arguments += ["--log-level", log_level.value, "--log-format", log_format.value]
    become("gateway", [*arguments, *context.args])
