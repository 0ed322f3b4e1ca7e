"""Output files that appear only when they are complete: written under a temporary name and then renamed.

With ``append`` a file grows by whole lines instead; a partial line left by a killed process is detected and refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from tidelog.cli.terminal.console import CommandFailed


class OutputFile:
    """Writer of ``path``. ``close`` makes the content durable under that name; ``discard`` removes a new file."""

    def __init__(self, path: Path, *, append: bool, may_grow: bool = True) -> None:
        """Open the file. Raises ``CommandFailed`` when it exists and is not to be appended to, or ends within a line.

        ``may_grow``: whether the format allows appending.
        """
        self._path = path
        self._append = append
        if not append and path.exists():
            advice = (
                "add to it with --append"
                if may_grow
                else "name another file, since a Parquet file can't be appended to"
            )
            raise CommandFailed(f"{path} exists already: {advice}")
        self._written = path if append else path.with_name(f".{path.name}.{os.getpid()}.part")
        if not path.parent.is_dir():
            raise CommandFailed(f"{path}: there is no directory {path.parent}")
        self.file: BinaryIO = self._written.open("ab+" if append else "xb")
        if append and self.file.seek(0, os.SEEK_END) > 0:
            self.file.seek(-1, os.SEEK_END)
            if self.file.read(1) != b"\n":
                self.file.close()
                raise CommandFailed(
                    f"{path} does not end with a line break: complete or remove its last line before appending"
                )

    def close(self) -> None:
        """Make everything durable, under the file's final name."""
        if not self.file.closed:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
        if not self._append:
            self._written.rename(self._path)

    def discard(self) -> None:
        """Remove a new file. Appended lines stay."""
        self.file.close()
        if not self._append:
            self._written.unlink(missing_ok=True)
