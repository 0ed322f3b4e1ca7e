"""Clients in processes of their own, so that their CPU is not counted as the gateway's: a scenario once, or orders in turn."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

import uvloop

END_SECONDS_MAX: Final = 180

Scenario = Callable[..., Coroutine[Any, Any, dict[str, Any]]]
"""``scenario(channel, where, **arguments)``: it may send marks through the channel, and returns plain values."""


def _process(channel: Any, scenario: Scenario, where: Any, arguments: dict[str, Any]) -> None:
    before = time.process_time()
    result = uvloop.run(scenario(channel, where, **arguments))
    channel.send(result | {"client_cpu_seconds": time.process_time() - before})


class Running:
    """A scenario that runs. ``where``: a gateway's port, or what else tells where the load goes."""

    def __init__(self, scenario: Scenario, where: Any, **arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_process, args=(theirs, scenario, where, arguments))
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


def _standing(channel: Any, act: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    channel.send(None)
    with contextlib.suppress(EOFError):
        while True:
            channel.send(act(*arguments, channel.recv()))


class Standing:
    """A process that calls ``act(*arguments, order)`` for each order. It is there when this is made, and costs no start later."""

    def __init__(self, act: Callable[..., Any], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._channel, theirs = context.Pipe()
        context.Process(target=_standing, args=(theirs, act, arguments), daemon=True).start()
        theirs.close()
        self._channel.recv()

    def begin(self, order: Any) -> None:
        """Give an order, and return at once."""
        self._channel.send(order)

    def result(self) -> Any:
        """Return what the last order gave. Raises ``EOFError`` if it failed."""
        return self._channel.recv()

    def close(self) -> None:
        """End the process."""
        self._channel.close()
