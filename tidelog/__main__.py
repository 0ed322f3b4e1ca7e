"""The program ``tidelog``, and ``python -m tidelog``: the command line, also where its libraries are not installed.

Ctrl-C in its first moments ends it at once. So this module sets that before it imports anything that takes a moment, and
importing it is beginning the program: nothing else imports it.
"""

import _signal  # type: ignore[import-not-found]  # what signal is made of; that one first makes enumerations, for milliseconds

if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:  # as a shell starts a job in the background
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command that the process was started with, and exit with its code."""
    missing = [name for name in ("rich", "typer") if find_spec(name) is None]
    if missing:
        sys.exit(f"The command line needs {' and '.join(missing)}: pip install 'tidelog[cli]'")
    from tidelog.cli.app import run  # noqa: PLC0415 - takes longest

    run()


if __name__ == "__main__":
    main()
