"""A Spark driver as a process of its own, which is killed with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def killed_driver(
    command: Sequence[str], log: Path, *, planted: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """This Python with ``command``, this tree's packages, and ``planted`` (a directory with a fault) before all others.

    At the end of the block it and every process below it are killed, as ``kill -9`` does; how it ended is its return code.
    """
    path = [str(planted)] * (planted is not None) + [str(ROOT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
