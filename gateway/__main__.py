"""``python -m gateway --store URI``: serve a log over HTTP until told to stop.

When ready it prints one line to standard output: its URL, its store, the operations listener's URL if it has one. A terminal also
gets what to do next. Log lines go to standard error, as JSON unless that is a terminal. Exit status: 0 after a complete drain, 1
when something that was asked for could not be finished, 2 for wrong settings, 3 when it could not start.
"""

from __future__ import annotations

import signal

if __name__ == "__main__":
    # Until it serves there is nothing to finish: Ctrl-C ends it at once, without a traceback from an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from gateway import structured_log
from gateway.app import create_app
from gateway.process.assembly import assemble
from gateway.process.server import GatewayServer, server_config
from gateway.proven_store import UnsafeStore
from gateway.settings import ENVIRONMENT_PREFIX, Settings, SettingsError
from log_format.version import __version__

EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on

_log = logging.getLogger("gateway")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; returns the exit status."""
    given = vars(_parser().parse_args(arguments))
    try:
        settings = Settings.read(os.environ, given)
        structured_log.configure(settings.log_level, settings.log_format)
        gateway = assemble(settings)
    except SettingsError as error:
        sys.stderr.write(f"python -m gateway: {error}\n")
        return 2
    except UnsafeStore as error:
        sys.stderr.write(f"python -m gateway: {error}\n")
        return 3
    _warn_of_address(settings)
    server = GatewayServer(server_config(create_app(gateway), gateway), gateway, partial(_announce, gateway.store_uri))
    server.run()
    structured_log.WRITER.flush()
    if not server.drained_whole:
        # Threads may still wait for the store, and an ordinary exit would wait for them.
        os._exit(1)
    return 0


def _warn_of_address(settings: Settings) -> None:
    """Warn when the advertised address leads each other gateway to itself."""
    if settings.host in EVERY_ADDRESS and settings.advertised_url is None:
        _log.warning(
            "clients and other gateways are told %s://%s:%d, which leads each of them to itself: "
            "say by --advertised-url %s://HOST:PORT how this gateway is reached",
            settings.scheme,
            settings.host,
            settings.port,
            settings.scheme,
        )


def _announce(store_uri: str, url: str, operations_url: str | None) -> None:
    more = "" if operations_url is None else f", operations on {operations_url}"
    with contextlib.suppress(OSError):
        sys.stdout.write(f"Tidelog {__version__} listens on {url} (store {store_uri}){more}\n")
        if sys.stdout.isatty():
            sys.stdout.write(_next_steps(url))
        sys.stdout.flush()


def _next_steps(url: str) -> str:
    """What to do next, for the person that started it."""
    return (
        f"  The API, to try in a browser: {url}/docs\n"
        f"  In another terminal:          export TIDELOG_URL={url}\n"
        "                                tidelog topic create orders --partitions 4\n"
        "                                echo hello | tidelog produce orders\n"
        "                                tidelog tail orders\n"
        "  Ctrl-C ends it, and finishes what is under way first.\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gateway",
        description="Serve a Tidelog store over HTTP.",
        epilog=f"Each option may also be given as {ENVIRONMENT_PREFIX}<NAME> in the environment.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    for name, field in Settings.model_fields.items():
        default = "" if field.default_factory or field.is_required() else f" Default: {field.default}."
        text = f"{field.description}{default}".replace("%", "%%")
        parser.add_argument("--" + name.replace("_", "-"), dest=name, metavar="VALUE", help=text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
