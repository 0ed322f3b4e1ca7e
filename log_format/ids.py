"""Ids that no one else will ever make: the only randomness that the format uses."""

from __future__ import annotations

from collections.abc import Callable

NewId = Callable[[], str]
"""Makes ids of ``[A-Za-z0-9-]``, each a new one. Programs hand in ``uuid4``, the simulation its seed."""
