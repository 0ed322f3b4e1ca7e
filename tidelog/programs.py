"""Our other programs, started so that no file of the working directory shadows one of our modules.

``python -m`` puts the working directory first on the path: a ``gateway.py`` or a ``regex.py`` there would run instead of ours.
``PYTHONSAFEPATH`` keeps it out. What the program starts in turn (Spark's Python processes) inherits that.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

SAFE_PATH: Final[Mapping[str, str]] = {"PYTHONSAFEPATH": "1"}
"""For the environment of every Python process that is started here."""


def command(module: str, arguments: Sequence[str]) -> list[str]:
    """``python -m module arguments``, by this Python; to be run with ``SAFE_PATH`` in its environment."""
    return [sys.executable, "-m", module, *arguments]


def become(module: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the module, so that signals and the exit code are the module's own.

    Ctrl-C waits until the module lets it through, as its first act: Python begins with a handler that shows a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        os.execve(sys.executable, command(module, arguments), {**os.environ, **SAFE_PATH})  # noqa: S606
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
