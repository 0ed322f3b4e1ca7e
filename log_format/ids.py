"""Unique ids: the only randomness that the format uses."""

from __future__ import annotations

from collections.abc import Callable

NewId = Callable[[], str]
"""Makes a new id of ``[A-Za-z0-9-]`` with each call. Programs hand in ``uuid4``, the simulation its seed."""
