"""One gateway of several that share a port, and what its supervisor hands to it: sockets, and two pipes."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

VARIABLE: Final = "TIDELOG_WORKER"
"""Of the environment of a worker's process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """``shared`` is a socket of the port that clients know. ``own`` leads to this worker only: for other gateways, and for
    clients that learn addresses. ``ready``: the pipe on which it says that it listens. ``life``: a pipe that ends when the
    supervisor is gone. ``page_url``: where the supervisor has the metrics of all workers. ``ports``: of each worker, in their
    order, that of its ``own``. By ``inbox`` connections of other workers come here; ``outboxes`` lead to that of each.
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
    def of(cls, environment: Mapping[str, str]) -> Self | None:
        """Of the process's environment; None where it has no supervisor."""
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
        """Say that it listens, and where its operators look."""
        os.write(self.ready, json.dumps({"operations_url": operations_url}).encode())
        os.close(self.ready)


def environment_of(handed_over: Mapping[str, object]) -> dict[str, str]:
    """The variable for a worker's process: the members of ``Worker``, sockets as descriptors, which it inherits under their
    numbers."""
    return {VARIABLE: json.dumps(handed_over)}
