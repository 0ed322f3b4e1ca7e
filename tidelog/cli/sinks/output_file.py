"""Files that are whole or not there: written under another name beside their own, and renamed when all is in them.

With ``append`` a file grows by whole lines instead; a half line that a killed process left is found and refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from tidelog.cli.terminal.console import CommandFailed


class OutputFile:
    """Writes bytes for ``path``. ``close`` makes them durable under that name; ``discard`` leaves nothing of a new file."""

    def __init__(self, path: Path, *, append: bool, may_grow: bool = True) -> None:
        """Raises ``CommandFailed`` when the file is there and not to be appended to, or ends within a line.

        ``may_grow``: lines could be appended to it.
        """
        self._path = path
        self._append = append
        if not append and path.exists():
            advice = (
                "--append adds to it" if may_grow else "name another file, or move it away: Parquet can't be added to"
            )
            raise CommandFailed(f"{path} is there already: {advice}")
        self._written = path if append else path.with_name(f".{path.name}.{os.getpid()}.part")
        self.file: BinaryIO = self._written.open("ab+" if append else "xb")
        if append and self.file.seek(0, os.SEEK_END) > 0:
            self.file.seek(-1, os.SEEK_END)
            if self.file.read(1) != b"\n":
                self.file.close()
                raise CommandFailed(f"{path} does not end with a line break: its last line is not whole")

    def close(self) -> None:
        """Put everything on the disk, under the file's own name."""
        if not self.file.closed:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
        if not self._append:
            self._written.rename(self._path)

    def discard(self) -> None:
        """Remove a new file. What was appended stays."""
        self.file.close()
        if not self._append:
            self._written.unlink(missing_ok=True)
