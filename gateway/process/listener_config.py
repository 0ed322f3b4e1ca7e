"""uvicorn's configuration, the same for every listener of a gateway."""

from __future__ import annotations

from typing import Any

import uvicorn
from starlette.types import ASGIApp

from gateway.settings.settings import Settings


def listener_config(app: ASGIApp, settings: Settings, **of_this_one: Any) -> uvicorn.Config:
    """Return uvicorn's configuration for one listener; ``of_this_one``: settings of this listener only."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=max(1, settings.header_idle_ms // 1000),
        **of_this_one,
    )
