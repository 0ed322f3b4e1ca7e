"""``python -m tests.support.slow_gateway``: a gateway on a directory whose writes take ``PUT_SECONDS`` while a file is there.

The file's path is in the environment variable ``SLOW_WHILE``. The arguments are those of ``python -m gateway``.
"""

from __future__ import annotations

if __name__ == "__main__":
    from log_format.without_pandas import hide_pandas

    hide_pandas()

import os
import sys
import time
from pathlib import Path
from typing import Final

from gateway.__main__ import main
from log_format.stores.local import LocalStore

COMMAND: Final = (sys.executable, "-m", "tests.support.slow_gateway")
PUT_SECONDS: Final = 2.5
SWITCH: Final = "SLOW_WHILE"


def slow_down(switch: Path) -> None:
    """From now on puts of this process wait while the file is there."""
    for name in ("put", "put_if_absent"):
        put = getattr(LocalStore, name)

        def slow(store: LocalStore, key: str, data: bytes, put: object = put) -> None:
            if switch.exists():
                time.sleep(PUT_SECONDS)
            put(store, key, data)  # type: ignore[operator]

        setattr(LocalStore, name, slow)


if __name__ == "__main__":
    slow_down(Path(os.environ[SWITCH]))
    sys.exit(main())
