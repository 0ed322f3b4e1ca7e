"""The demo's own gateway, on a free port of this machine."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

import urllib3

from tidelog.demo.processes import ChildProcess

START_SECONDS_MAX: Final = 60
"""Time limit for the gateway's start: about two seconds on an idle machine."""

DRAIN_SECONDS: Final = 20
"""Time limit for the gateway's end after SIGTERM."""

_LISTENS = re.compile(r"listens on (http://\S+)")


class DemoGateway(ChildProcess):
    """Process ``python -m gateway`` on the store, on a port chosen by the system."""

    def __init__(self, store: str, log: Path) -> None:
        arguments = ["--store", store, "--host", "127.0.0.1", "--port", "0"]
        super().__init__("The gateway", "gateway", arguments, log, grace_seconds=DRAIN_SECONDS)

    def wait_until_ready(self) -> str:
        """Return the gateway's URL once ``GET /readyz`` succeeds. Raises ``ChildFailed``."""
        deadline = time.monotonic() + START_SECONDS_MAX
        with urllib3.PoolManager(retries=False, timeout=5) as http:
            while time.monotonic() < deadline:
                self.check()
                announced = _LISTENS.search(self.log.read_text(encoding="utf-8", errors="replace"))
                if announced and _is_ready(http, announced.group(1)):
                    return announced.group(1)
                time.sleep(0.05)
        raise self.failure(f"was not ready within {START_SECONDS_MAX} s")


def _is_ready(http: urllib3.PoolManager, url: str) -> bool:
    try:
        return http.request("GET", f"{url}/readyz").status == 200
    except urllib3.exceptions.HTTPError:
        return False
