"""``python -m gateway --store URI``: serve a log over HTTP until told to stop.

Prints one line to standard output when it is ready: its URL, its store, the operations listener's URL where there is one. Logs
JSON lines to standard error. Exit status: 0 after a whole drain, 1 when something that was asked for could not be finished, 2 for
wrong settings, 3 when it could not start.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence

from gateway import structured_log
from gateway.app import create_app
from gateway.assembly import assemble
from gateway.proven_store import UnsafeStore
from gateway.server import GatewayServer, server_config
from gateway.settings import ENVIRONMENT_PREFIX, Settings, SettingsError
from gateway.shell import Shell
from log_format.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal; returns the exit status."""
    given = vars(_parser().parse_args(arguments))
    try:
        settings = Settings.read(os.environ, given)
        structured_log.configure(settings.log_level)
        shell = assemble(settings)
    except SettingsError as error:
        sys.stderr.write(f"python -m gateway: {error}\n")
        return 2
    except UnsafeStore as error:
        sys.stderr.write(f"python -m gateway: {error}\n")
        return 3
    server = GatewayServer(server_config(create_app(shell), settings), shell, _announce(shell))
    server.run()
    structured_log.WRITER.flush()
    if not server.drained_whole:
        # Threads may still wait for the store; ending in the ordinary way would wait for them.
        os._exit(1)
    return 0


def _announce(shell: Shell) -> Callable[[str], None]:
    def announce(url: str) -> None:
        operations = shell.stopping.operations_url
        more = "" if operations is None else f", operations on {operations}"
        with contextlib.suppress(OSError):
            sys.stdout.write(f"Tidelog {__version__} listens on {url} (store {shell.store_uri}){more}\n")
            sys.stdout.flush()

    return announce


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
