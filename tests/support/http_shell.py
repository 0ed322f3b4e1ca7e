"""What tests ask of a running HTTP shell, by its sockets and its metrics."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Protocol

import httpx


class Shell(Protocol):
    """A process that answers."""

    def get(self, path: str) -> httpx.Response:
        """Its answer."""
        ...


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends."""
    received = bytearray()
    while chunk := connection.recv(65536):
        received += chunk
    return bytes(received)


def problem_of(answer: bytes) -> tuple[int, str]:
    """The status and the error code of a refusal."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error_code"]


def eventually(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    """Whether the condition comes true in this time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def metric(shell: Shell, name: str) -> float:
    """The value of a metric without labels."""
    lines = shell.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def in_flight(shell: Shell) -> float:
    """Requests under way, this one included."""
    return metric(shell, "tidelog_http_requests_in_flight")
