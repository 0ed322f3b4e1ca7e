"""How routes get at the engine."""

from __future__ import annotations

from starlette.requests import Request

from gateway.log_engine import LogEngine
from gateway.shell import shell_of


def engine_of(request: Request) -> LogEngine:
    """The engine of the gateway that serves the request."""
    engine = shell_of(request).engine
    assert isinstance(engine, LogEngine)
    return engine
