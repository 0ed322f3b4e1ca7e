"""A PostgreSQL of our own with logical decoding, on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.kafka_clients.tried.programs import Missing, Running, run, until
from tests.support.server_process import free_port


class Postgres:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self.port = port

    def do(self, *statements: str) -> str:
        """Run the statements, each in a transaction of its own, and return what is printed. Raises ``Failed``."""
        given = "".join(f"{statement};\n" for statement in statements)
        return run([*self._client(), "-v", "ON_ERROR_STOP=1"], given=given)

    def doing(self, statements: Sequence[str], log: Path) -> Running:
        """The statements, under way."""
        script = log.with_suffix(".sql")
        script.write_text("".join(f"{statement};\n" for statement in statements))
        return Running([*self._client(), "-v", "ON_ERROR_STOP=1", "-f", str(script)], log)

    def is_up(self) -> bool:
        """Whether it answers."""
        return "1" in run([*self._client(), "-c", "select 1"], may_fail=True).split()

    def _client(self) -> list[str]:
        return ["psql", "-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]


@contextlib.contextmanager
def postgres(directory: Path) -> Iterator[Postgres]:
    """One that is gone with the block, data and all."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        raise Missing("no PostgreSQL: sudo apt-get install postgresql")
    # PostgreSQL refuses to run as root.
    us = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    data = Path(tempfile.mkdtemp(prefix="kafka-clients-postgres-"))
    try:
        if us:
            shutil.chown(data, "postgres", "postgres")
        run([*us, str(programs[-1] / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres"])
        given = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": data,
            "wal_level": "logical",
            "fsync": "off",
        }
        settings = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        made = Postgres(free_port())
        command = [*us, str(programs[-1] / "postgres"), "-D", str(data), "-p", str(made.port), *settings]
        with Running(command, directory / "postgres.log") as running:
            until(made.is_up, "PostgreSQL", running)
            yield made
    finally:
        shutil.rmtree(data)
