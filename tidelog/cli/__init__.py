"""The command line: one file per group of commands, put together in ``app``.

Commands speak to a gateway by the SDK alone. Two exceptions: ``verify`` and ``doctor`` read the store itself, and ``serve``,
``maintain``, ``pipeline`` and ``demo`` start the other programs as processes.
"""

import signal

__all__ = ["main"]


def main() -> None:
    """Run the command that the process was started with, and exit with its code."""
    # Nothing has begun: Ctrl-C ends it at once, without a traceback from some import.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tidelog.cli.app import run  # noqa: PLC0415 - takes a moment

    signal.signal(signal.SIGINT, before)
    run()
