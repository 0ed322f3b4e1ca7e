"""Processes that a test's own process began."""

from __future__ import annotations

import contextlib

import psutil


def children() -> set[int]:
    """Of this process, living ones."""
    found = set()
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it ends meanwhile
            if each.status() != psutil.STATUS_ZOMBIE:
                found.add(each.pid)
    return found
