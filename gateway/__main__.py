"""``python -m gateway --store URI``: serve a log over HTTP until told to stop.

When ready it prints one line to standard output: its URL, its store, the operations listener's URL if it has one. A terminal
also gets what to do next. Log lines go to standard error, as JSON unless that is a terminal. Exit status: 0 after a complete
drain, 1 when the drain could not finish all work under way, 2 for wrong settings, 3 when it could not start.
"""

from __future__ import annotations

import gc
import signal

if __name__ == "__main__":
    gc.disable()  # What is imported stays: looking for garbage in it takes an eighth of the time.
    # Until it serves there is nothing to finish: Ctrl-C ends it immediately, without a traceback from an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # tidelog/programs.py blocks SIGINT until here.

    from log_format.without_pandas import hide_pandas

    hide_pandas()

import argparse
import asyncio
import contextlib
import logging
import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from typing import Final

from pydantic import BaseModel

from gateway.network.hosts import EVERY_ADDRESS, reachable
from gateway.process.machine import Machine
from gateway.process.memory_fit import fit_to_memory, warn_of_workers
from gateway.process.supervisor import Supervisor
from gateway.process.worker import VARIABLE, Worker
from gateway.process.worker_count import default_workers
from gateway.settings.settings import ENVIRONMENT_PREFIX, Settings, SettingsError
from gateway.telemetry import structured_log
from log_format.version import __version__

PROGRAM: Final = "tidelog serve"
"""Command that a user types. Users need not know this module's name."""

_log = logging.getLogger("gateway")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; return the exit status."""
    given = vars(_parser().parse_args(arguments))
    try:
        settings = Settings.read(os.environ, given)
    except SettingsError as error:
        return _refuse(error, 2)
    structured_log.configure(settings.log_level, settings.log_format)
    machine = Machine.current()
    count = settings.workers or default_workers(settings, machine)
    if count == 1:
        # The supervisor has already given this worker its share of the memory.
        return _serve(settings if VARIABLE in os.environ else fit_to_memory(settings, machine.memory_bytes))
    _collect_garbage()
    warn_of_workers(settings, count, machine.memory_bytes)
    _warn(settings)
    passed_on = sys.argv[1:] if arguments is None else arguments
    supervisor = Supervisor(settings, count, passed_on, partial(announce, settings.store))
    try:
        return asyncio.run(supervisor.run())
    finally:
        structured_log.WRITER.flush()


def _serve(settings: Settings) -> int:
    # A supervisor needs none of these modules, and they take a hundred megabytes.
    from gateway.app import create_app  # noqa: PLC0415
    from gateway.process.assembly import assemble  # noqa: PLC0415
    from gateway.process.server import GatewayServer, make_connection_mover, server_config  # noqa: PLC0415
    from gateway.stores.proven import UnsafeStore  # noqa: PLC0415

    _collect_garbage()
    try:
        gateway = assemble(settings)
    except SettingsError as error:
        return _refuse(error, 2)
    except UnsafeStore as error:
        return _refuse(error, 3)
    worker = Worker.from_environment(os.environ)
    if worker is None:
        _warn(settings)
    moving = make_connection_mover(gateway, worker)
    config = server_config(create_app(gateway), gateway, moving)
    server = GatewayServer(config, gateway, partial(announce, gateway.store_uri), worker=worker, moving=moving)
    try:
        server.run(None if worker is None else [worker.shared, worker.own])
    finally:
        structured_log.WRITER.flush()  # Also if it could not start, which ends the process.
    if not server.drained_whole:
        # Threads may still wait for the store, and an ordinary exit would wait for them.
        os._exit(1)
    return 0


def _collect_garbage() -> None:
    """Begin to collect garbage, but not among what was imported."""
    gc.freeze()
    gc.enable()


def _refuse(error: Exception, status: int) -> int:
    sys.stderr.write(f"{PROGRAM}: {error}\n")
    return status


def _warn(settings: Settings) -> None:
    """Warn at each start of settings that an operator may not have meant."""
    _warn_of_address(settings)
    if settings.auth == "off" and reachable(settings.host, settings.kafka_host, settings.registry_host):
        _log.warning("auth is off and insecure is true: every program that reaches %s may do all", settings.url)


def _warn_of_address(settings: Settings) -> None:
    """Warn when the advertised address leads each other gateway to itself."""
    if settings.kafka_host in EVERY_ADDRESS and settings.kafka_advertised is None:
        _log.warning(
            "Kafka's clients are told %s, which leads each of them to itself: say by --kafka-advertised HOST:PORT how this"
            " gateway is reached",
            settings.kafka_listen,
        )
    if settings.host in EVERY_ADDRESS and settings.advertised_url is None:
        _log.warning(
            "clients and other gateways are told %s://%s:%d, which leads each of them to itself: "
            "say by --advertised-url %s://HOST:PORT how this gateway is reached",
            settings.scheme,
            settings.host,
            settings.port,
            settings.scheme,
        )


def announce(store_uri: str, url: str, operations_url: str | None) -> None:
    """Write that the gateway is ready to standard output, where tests and programs wait for it."""
    more = "" if operations_url is None else f", operations on {operations_url}"
    with contextlib.suppress(OSError):
        sys.stdout.write(f"Tidelog {__version__} listens on {url} (store {store_uri}){more}\n")
        if sys.stdout.isatty():
            sys.stdout.write(_next_steps(url))
        sys.stdout.flush()


def _next_steps(url: str) -> str:
    """Return what to do next, for the person that started the gateway."""
    return (
        f"  In a browser:                 {url}/ shows topics, messages and groups, {url}/docs the API\n"
        f"  In another terminal:          export TIDELOG_URL={url}\n"
        "                                tidelog topic create orders --partitions 4\n"
        "                                echo hello | tidelog produce orders\n"
        "                                tidelog tail orders\n"
        "  Ctrl-C ends it, and finishes what is under way first.\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage="%(prog)s --store STORE [--SETTING VALUE …]",  # All settings would hide what an error says.
        description="Serve a Tidelog store over HTTP.",
        epilog=f"Each option may also be given as {ENVIRONMENT_PREFIX}<NAME> in the environment.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    parts = [part for part in Settings.__bases__ if issubclass(part, BaseModel)]
    elsewhere = {name: part for part in parts for name in part.model_fields}
    own = parser.add_argument_group("the gateway")
    groups = {part: parser.add_argument_group(_subject(part)) for part in parts}
    for name, field in Settings.model_fields.items():
        is_told = field.default is None or field.default_factory or field.is_required()
        default = "" if is_told else f" Default: {field.default}."
        text = f"{field.description}{default}".replace("%", "%%")
        group = groups[elsewhere[name]] if name in elsewhere else own
        group.add_argument("--" + name.replace("_", "-"), dest=name, metavar="VALUE", help=text)
    return parser


def _subject(part: type) -> str:
    """Return what a class of settings is about, as its docstring begins: ``Settings of TLS.``"""
    return re.sub(r"^Settings? of (the )?", "", (part.__doc__ or "").partition(".")[0])


if __name__ == "__main__":
    sys.exit(main())
