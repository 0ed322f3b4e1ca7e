"""A scenario of clients in a process of its own, so that their CPU is not counted as the gateway's."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import uvloop

END_SECONDS_MAX: Final = 180

Scenario = Callable[..., Coroutine[Any, Any, dict[str, Any]]]
"""``scenario(channel, port, **arguments)``: it may send marks through the channel, and returns plain values."""


def _process(channel: Any, scenario: Scenario, port: Any, arguments: dict[str, Any]) -> None:
    before = time.process_time()
    result = uvloop.run(scenario(channel, port, **arguments))
    channel.send(result | {"client_cpu_seconds": time.process_time() - before})


class Running:
    """A scenario that runs. ``port``: of the gateway, or ports of several."""

    def __init__(self, scenario: Scenario, port: Any, **arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_process, args=(theirs, scenario, port, arguments))
        self._process.start()
        theirs.close()

    def mark(self) -> dict[str, Any]:
        """Return the next mark. Raises ``EOFError`` when the scenario failed."""
        found: dict[str, Any] = self._ours.recv()
        return found

    def result(self) -> dict[str, Any]:
        """Return the scenario's result, sent last, with ``client_cpu_seconds``."""
        try:
            return self.mark()
        finally:
            self.join()

    def join(self) -> None:
        """Wait for the end of the process after its result."""
        self._process.join(END_SECONDS_MAX)
