"""Detection of gateways that accept requests and answer none: frozen ones, whose kernel still accepts data, or dead machines.

1. When an answer does not begin within ``SILENCE_MS``, the gateway is probed by ``/healthz`` on a connection of its own. While
   the probe is answered the request waits on, and each further probe comes after twice the pause.
2. If the probe fails and another gateway answers the same probe, the request is cut. If no other gateway answers, waiting is
   the best choice.
3. Only repeatable requests are watched. The abandoned gateway may still execute the request when it resumes.

Behind a load balancer the probe may reach another gateway: there nothing is detected, and the balancer's own health checks
help.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from tidelog import limits
from tidelog.http.answer import AnswerLost, NeverSent
from tidelog.http.endpoints import Endpoint, connect

_PROBE: Final = "/healthz"


class Wait:
    """A request that waits for its answer to begin."""

    __slots__ = ("_watch", "began_s", "cut", "due_s", "endpoint", "is_cut", "pause_s")

    def __init__(self, watch: SilenceWatch, endpoint: Endpoint, cut: Callable[[], None], pause_s: float) -> None:
        self._watch = watch
        self.endpoint = endpoint
        self.cut = cut
        self.is_cut = False
        self.began_s = time.monotonic()
        self.pause_s = pause_s
        self.due_s = self.began_s + pause_s

    def end(self) -> None:
        """Stop watching: the answer has begun, or will not come. The request is not cut after this."""
        self._watch.forget(self)


class SilenceWatch:
    """Watch over one client's requests. ``others``: returns gateways that may be asked instead of one. Thread-safe.

    Its thread lives while requests are under way, and a little longer.
    """

    def __init__(
        self,
        others: Callable[[Endpoint], Sequence[Endpoint]],
        *,
        silence_ms: float = limits.SILENCE_MS,
        probe_ms: float = limits.SILENCE_PROBE_MS,
    ) -> None:
        self._others = others
        self._silence_s = silence_ms / 1000
        self._probe_ms = probe_ms
        self._waits: set[Wait] = set()
        self._changed = threading.Condition()
        self._wakes_s = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    def begin(self, endpoint: Endpoint, cut: Callable[[], None]) -> Wait:
        """Watch a request to ``endpoint`` until ``Wait.end``. ``cut`` must end it from another thread, without blocking."""
        wait = Wait(self, endpoint, cut, self._silence_s)
        with self._changed:
            if self._thread is None and not self._closed:
                thread = threading.Thread(target=self._run, name="tidelog-silence", daemon=True)
                thread.start()
                self._thread = thread
            self._waits.add(wait)
            if wait.due_s < self._wakes_s:
                self._changed.notify()
        return wait

    def forget(self, wait: Wait) -> None:
        """Stop watching the request."""
        with self._changed:
            self._waits.discard(wait)

    def close(self) -> None:
        """End the thread; a probe under way may take ``probe_ms`` more."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _run(self) -> None:
        while (due := self._due()) is not None:
            for endpoint in dict.fromkeys(wait.endpoint for wait in due):
                self._look(endpoint, [wait for wait in due if wait.endpoint is endpoint])

    def _due(self) -> list[Wait] | None:
        """Wait for due requests and return them; None if the thread is no longer needed."""
        with self._changed:
            while True:
                now_s = time.monotonic()
                due = [wait for wait in self._waits if wait.due_s <= now_s]
                if due and not self._closed:
                    return due
                idle_s = now_s + limits.SILENCE_IDLE_MS / 1000
                self._wakes_s = min((wait.due_s for wait in self._waits), default=idle_s)
                is_told = not self._closed and self._changed.wait(self._wakes_s - now_s)
                if self._closed or not (is_told or self._waits):
                    self._thread = None
                    return None

    def _look(self, endpoint: Endpoint, due: list[Wait]) -> None:
        asked_s = time.monotonic()
        is_alive = self._answers(endpoint)
        is_silent = not is_alive and any(self._answers(other) for other in self._others(endpoint))
        with self._changed:
            if is_silent:
                for wait in [one for one in self._waits if one.endpoint is endpoint and one.began_s < asked_s]:
                    self._waits.discard(wait)
                    wait.is_cut = True
                    wait.cut()
            else:
                for wait in due:
                    wait.pause_s *= 2 if is_alive else 1
                    wait.due_s = time.monotonic() + wait.pause_s

    def _answers(self, endpoint: Endpoint) -> bool:
        """Return whether the gateway gives any answer, including a refusal."""
        address = connect(endpoint.url, endpoint.credentials)
        try:
            address.exchange("GET", _PROBE, body=None, headers={}, timeout_ms=self._probe_ms)
        except (NeverSent, AnswerLost):
            return False
        finally:
            address.close()
        return True
