"""The program ``tidelog``, also ``python -m tidelog``; it reports missing libraries of the command line.

Ctrl-C during startup ends the process immediately. This module arranges that before any slow import; importing it starts the
program, so no other module imports it.
"""

import _signal  # type: ignore[import-not-found]  # ``signal`` wraps it, and takes milliseconds to build enumerations

if _signal.getsignal(_signal.SIGINT) != _signal.SIG_IGN:  # ignored in a shell's background jobs
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command given by the process's arguments, and exit with its code."""
    missing = [name for name in ("rich", "typer") if find_spec(name) is None]
    if missing:
        extras = "cli,gateway" if sys.argv[1:2] == ["serve"] else "cli"
        sys.exit(f"The command line needs {' and '.join(missing)}: pip install 'tidelog[{extras}]'")
    from tidelog.cli.assembly import run  # noqa: PLC0415 - takes longest

    run()


if __name__ == "__main__":
    main()
