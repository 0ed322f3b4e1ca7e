"""One of several gateways that share a port, and what its supervisor hands over to it: sockets, and two pipes."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

VARIABLE: Final = "TIDELOG_WORKER"
"""Environment variable of a worker's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker's own view of its place.

    ``shared``: socket of the port that clients know. ``own``: socket that leads to this worker only, for other gateways and for
    clients that learn addresses. ``ready``: pipe on which the worker reports that it listens. ``life``: pipe that ends when the
    supervisor has ended. ``page_url``: the supervisor's page with the metrics of all workers. ``ports``: port of each worker's
    ``own``, in order of their numbers. ``inbox``: socket on which other workers' connections arrive; ``outboxes``: sockets to
    each worker's inbox.
    """

    number: int
    shared: socket.socket
    own: socket.socket
    ready: int
    life: int
    page_url: str
    ports: tuple[int, ...]
    inbox: socket.socket
    outboxes: tuple[socket.socket, ...]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """Read the process's environment; return None if the process has no supervisor."""
        text = environment.get(VARIABLE)
        if text is None:
            return None
        given = json.loads(text)
        return cls(
            number=given["number"],
            shared=socket.socket(fileno=given["shared"]),
            own=socket.socket(fileno=given["own"]),
            ready=given["ready"],
            life=given["life"],
            page_url=given["page_url"],
            ports=tuple(given["ports"]),
            inbox=socket.socket(fileno=given["inbox"]),
            outboxes=tuple(socket.socket(fileno=number) for number in given["outboxes"]),
        )

    def tell_ready(self, operations_url: str | None) -> None:
        """Report that the worker listens, and its operators' URL."""
        os.write(self.ready, json.dumps({"operations_url": operations_url}).encode())
        os.close(self.ready)


def environment_for(handed_over: Mapping[str, object]) -> dict[str, str]:
    """Return the environment variable for a worker's process: the members of ``Worker``, with sockets as descriptors, which
    the process inherits under their numbers."""
    return {VARIABLE: json.dumps(handed_over)}
