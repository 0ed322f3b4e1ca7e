"""A file for a secret: from its first byte only its owner can read it, and it has its name when it is whole."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO


@contextlib.contextmanager
def secret_file(path: Path) -> Iterator[Callable[[str], None]]:
    """A function that writes ``path``. An earlier file of that name is replaced; without a call it stays as it is.

    The directory is written to before the block begins, so that no secret is asked for that can't be kept. Raises ``OSError``.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)

    def write(text: str) -> None:
        left = text.encode()
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
        temporary.replace(path)

    try:
        yield write
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)


def others_may_read(output: TextIO) -> bool:
    """Whether it goes to a file that others than its owner can read."""
    try:
        mode = os.fstat(output.fileno()).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & (stat.S_IRGRP | stat.S_IROTH))
