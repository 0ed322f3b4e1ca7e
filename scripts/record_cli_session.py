# ruff: noqa: INP001, S603
"""Record a session of the command line in a terminal (tmux), and put it into docs/cli.md between its two marks.

``.venv/bin/python scripts/record_cli_session.py``. Needs tmux and the gateway's packages. It starts a gateway on a temporary
directory. Commands and output are taken from the terminal's screen, as a person would see them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from record_first_hour import put

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "cli.md"
STEP_SECONDS_MAX = 30
PROMPT = "$ "

STEPS: tuple[tuple[str, str | None], ...] = (
    ("tidelog serve --store ./log --port 8099 --log-level warning > /dev/null &", None),
    ("export TIDELOG_URL=http://127.0.0.1:8099", None),
    ("until tidelog cluster > /dev/null 2>&1; do sleep 0.2; done", None),
    ("tidelog topic create orders --partitions 2", None),
    ("printf 'user,amount\\nuser-7,3\\nuser-8,5\\nuser-7,4\\n' > orders.csv", None),
    ("tidelog produce orders orders.csv --key-field user", None),
    ("tidelog consume orders --key-separator ' '", None),
    ("tidelog consume orders --from 0:1,1:0 --json", None),
    ("tidelog cat orders 0 1 --format text", None),
    ("printf 'user,amount\\nuser-9,1\\nbroken\\n' | tidelog produce orders --format csv --key-field user", None),
    ("echo 'exit code' $?", None),
    ("tidelog tail orders --lines 1", "user-9"),
    ("tidelog consume orders --group billing --key-separator ' '", None),
    ("tidelog group reset billing --to -1", None),
    ("tidelog lag billing", None),
    ("tidelog group list", None),
    ("tidelog topic list", None),
    ("tidelog verify orders --store ./log", None),
    ("tidelog topic describe nope", None),
    ("kill %1; wait", None),
)
"""Commands to type; for one that does not end, also the output after which Ctrl-C is pressed."""


class Terminal:
    """Shell in tmux, on a tmux server of its own."""

    def __init__(self, directory: Path) -> None:
        self._tmux = ("tmux", "-L", f"tidelog-{os.getpid()}", "-f", os.devnull)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        settings = {"PATH": path, "PS1": PROMPT, "TIDELOG_CONFIG": os.devnull, "HOME": str(directory)}
        assignments = [f"{name}={value}" for name, value in settings.items()]
        shell = shlex.join(["env", *assignments, "bash", "--norc", "--noprofile"])
        size = ("-x", "130", "-y", "400")
        self._run("new-session", "-d", *size, "-c", str(directory), shell)
        self._until(lambda: self._prompts() > 0)

    def type(self, command: str, ends_after: str | None) -> None:
        """Type the command and wait for the next prompt; press Ctrl-C when ``ends_after`` is shown once more."""
        prompts, shown = self._prompts(), self.screen().count(ends_after or "\n")
        self._run("send-keys", "-l", command)
        self._run("send-keys", "Enter")
        if ends_after is not None:
            self._until(lambda: self.screen().count(ends_after) > shown)
            self._run("send-keys", "C-c")
        self._until(lambda: self._prompts() > prompts and self.screen().endswith("\n" + PROMPT.strip()))

    def screen(self) -> str:
        """Return the screen's text, without blank lines at the end."""
        return self._run("capture-pane", "-p").rstrip("\n")

    def close(self) -> None:
        """End the shell and its tmux server."""
        self._run("kill-server")

    def _prompts(self) -> int:
        return sum(1 for line in self.screen().splitlines() if line.startswith(PROMPT.strip()))

    def _until(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + STEP_SECONDS_MAX
        while not there():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the terminal shows:\n{self.screen()}")
            time.sleep(0.1)

    def _run(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], check=True, capture_output=True, text=True).stdout


def main() -> None:
    """Record the session, and write it into the document."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        terminal = Terminal(Path(directory))
        try:
            for command, ends_after in STEPS:
                terminal.type(command, ends_after)
            screen = terminal.screen().replace(directory, "~")
        except TimeoutError as error:
            raise SystemExit(str(error)) from None
        finally:
            terminal.close()
    screen = screen.removesuffix(PROMPT.strip()).rstrip()
    screen = "\n".join(line.rstrip() for line in screen.splitlines())
    put(screen, DOCUMENT)


if __name__ == "__main__":
    main()
