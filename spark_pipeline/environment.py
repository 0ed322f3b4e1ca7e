"""Temporary changes of this process's environment, for what it starts or opens meanwhile.

1. Afterwards the environment is restored, whatever raises.
2. One change at a time. Other threads see it, too; use this only for what can't be passed in another way.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

_lock: Final = threading.Lock()


@contextmanager
def set_variables(more: Mapping[str, str]) -> Iterator[None]:
    """Set the variables ``more`` inside the block."""
    with _lock:
        before = {name: os.environ.get(name) for name in more}
        os.environ.update(more)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
