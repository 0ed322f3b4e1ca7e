"""What a fixture leaves to be awaited at the end of a test that is a coroutine (``tests/unit/conftest.py``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

AT_END: Final = pytest.StashKey[Callable[[], Awaitable[None]]]()
