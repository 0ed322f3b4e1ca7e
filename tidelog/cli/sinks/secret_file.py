"""Files for secrets: readable only by the owner from the first byte, and named only when complete."""

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
    """Yield a function that writes ``path``, replacing an earlier file; if it is not called, that file is unchanged.

    The directory is written to before the block begins, so that no secret is requested that can't be stored. Raises
    ``OSError``.
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
    """Return whether the output goes to a file that others than its owner can read."""
    try:
        mode = os.fstat(output.fileno()).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & (stat.S_IRGRP | stat.S_IROTH))
