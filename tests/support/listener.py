"""A server of one's own on 127.0.0.1 that takes one connection after another, in a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class Listener:
    """``answer`` serves a connection; what it raises as ``OSError`` ends that connection alone. ``port``: where it listens."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._answer(connection)

    def end(self) -> None:
        """Listen no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
