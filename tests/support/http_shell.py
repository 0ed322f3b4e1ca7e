"""What tests ask of a running HTTP shell, by its sockets and its metrics."""

from __future__ import annotations

import json
import socket
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


def metric(shell: Shell, name: str) -> float:
    """The value of a metric without labels."""
    lines = shell.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def in_flight(shell: Shell) -> float:
    """Requests under way, this one included."""
    return metric(shell, "tidelog_http_requests_in_flight")
