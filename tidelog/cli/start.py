"""The program's first step, which imports nothing but what it needs to begin quietly."""

import signal


def main() -> None:
    """Run the command that the process was started with, and exit with its code."""
    # Nothing has begun: Ctrl-C ends it at once, without a traceback from some import.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tidelog.cli.app import run  # noqa: PLC0415 - takes a moment

    signal.signal(signal.SIGINT, before)
    run()
