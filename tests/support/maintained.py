"""A round of maintenance in a process of its own, as users run it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def maintain(store: Path) -> None:
    """One round over a directory, without Spark; it must end well."""
    command = [sys.executable, "-m", "compaction", "--store", str(store), "--once", "--workers", "local"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
