"""A schedule of faults from a seed: what is done to the processes, one thing after another, each undone before the next."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable

from tests.support.store_proxy import Mode
from tests.torture.tortured.history import History
from tests.torture.tortured.service import Service


class Misfortune:
    """``freeze_seconds``: how long a frozen gateway sleeps at most; longer than any lease it may believe to have."""

    def __init__(
        self, service: Service, history: History, seed: int, stopping: threading.Event, freeze_seconds: float
    ) -> None:
        self._service = service
        self._history = history
        self._rng = random.Random(seed)
        self._stopping = stopping
        self._freeze_seconds = freeze_seconds

    def run(self) -> None:
        """One fault after another until stopped; everything works again at the end."""
        deeds: list[Callable[[], None]] = [
            self._kill,
            self._kill,
            self._freeze,
            self._network,
            self._network,
            self._store_down,
        ]
        # Each at least once, whatever the seed.
        order = self._rng.sample(deeds, len(deeds))
        while not self._stopping.is_set():
            (order.pop() if order else self._rng.choice(deeds))()
            self._stopping.wait(self._rng.uniform(0.5, 3.0))

    def _kill(self) -> None:
        gateway = self._rng.choice(self._service.gateways)
        self._history.fault("a gateway killed")
        gateway.kill()
        self._stopping.wait(self._rng.uniform(0, 3))
        gateway.start(wait=False)

    def _freeze(self) -> None:
        gateway = self._rng.choice(self._service.gateways)
        self._history.fault("a gateway frozen")
        gateway.signal(signal.SIGSTOP)
        self._stopping.wait(self._rng.uniform(self._freeze_seconds / 2, self._freeze_seconds))
        gateway.signal(signal.SIGCONT)

    def _network(self) -> None:
        proxy = self._rng.choice(self._service.proxies)
        mode = self._rng.choice((Mode.DELAY, Mode.CUT, Mode.SWALLOW))
        self._history.fault(f"a gateway's way to the store: {mode.value}")
        proxy.set(mode)
        self._stopping.wait(self._rng.uniform(1, 8))
        proxy.set(Mode.PASS)

    def _store_down(self) -> None:
        if self._rng.random() < 0.5:
            self._history.fault("the store frozen")
            self._service.minio.signal(signal.SIGSTOP)
            self._stopping.wait(self._rng.uniform(1, 6))
            self._service.minio.signal(signal.SIGCONT)
        else:
            self._history.fault("the store killed")
            self._service.minio.kill()
            self._stopping.wait(self._rng.uniform(0, 3))
            self._service.minio.start()
