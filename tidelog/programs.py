"""Start of Tidelog's other programs, so that no file of the working directory shadows a module.

``python -m`` puts the working directory first on the path: a ``gateway.py`` or ``regex.py`` there would run instead.
``PYTHONSAFEPATH`` prevents that. Child processes of the program (Spark's Python processes) inherit it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

SAFE_PATH: Final[Mapping[str, str]] = {"PYTHONSAFEPATH": "1"}
"""Environment variables for every Python process started here."""


def command(module: str, arguments: Sequence[str]) -> list[str]:
    """Return the command ``python -m module arguments`` for this Python, to be run with ``SAFE_PATH`` in its environment."""
    return [sys.executable, "-m", module, *arguments]


def become(module: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the module, so that signals and the exit code are the module's own.

    Ctrl-C is blocked until the module unblocks it as its first action: Python starts with a handler that shows a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        os.execve(sys.executable, command(module, arguments), {**os.environ, **SAFE_PATH})  # noqa: S606
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
