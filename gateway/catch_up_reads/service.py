"""The service of a reader process: an answer to each task, for which its gateway hands over a socket.

A thread serves one task after another. It blocks while its gateway accepts no more of the answer, so a slow client holds one
thread and no memory beyond its records. When the gateway closes the socket, the task ends.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gateway.catch_up_reads.client_socket import DIRECT, PASSED_ON, DirectBodyWriter
from gateway.catch_up_reads.old_records import OldRecords, body
from gateway.catch_up_reads.task import FRAME_BYTES_MAX, LENGTH, TASKS, Damage, Head, Task, frame
from gateway.stores.counted import StoreRequests
from log_format.errors import CorruptData, StoreUnavailable

PARALLEL_TASKS_MAX: Final = 3
"""Concurrent tasks of one process: two for clients of one address, as all behind a proxy are, so that one decodes while the
other waits for the store or for its client. One is reserved for others."""
READY: Final = b"r"
"""Message of a reader on the control socket once it takes tasks."""

_log = logging.getLogger("gateway.catch_up_reads")


class Service:
    """The service of one reader. ``after_task`` is called after each task, in its thread."""

    def __init__(self, records: OldRecords, requests: StoreRequests, after_task: Callable[[], None]) -> None:
        self._records = records
        self._requests = requests
        self._after_task = after_task
        self._executor = ThreadPoolExecutor(PARALLEL_TASKS_MAX, thread_name_prefix="task")

    def run(self, control: socket.socket) -> None:
        """Serve each socket that arrives on ``control``, until its other end is closed."""
        control.sendall(READY)
        while True:
            said, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not said:
                return
            for descriptor in descriptors:
                self._executor.submit(self._serve, socket.socket(fileno=descriptor))

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                task = TASKS.decode(_frame(client))
                if not _is_gone(client):
                    self._answer(client, task)
            except OSError:
                return  # the gateway does not need the answer any more
            except Exception as defect:  # noqa: BLE001 - top level of a task: otherwise unseen in its thread
                _log.error("a task of a reader failed", exc_info=defect)
        self._after_task()

    def _answer(self, client: socket.socket, task: Task) -> None:
        head, pieces = self._made(task)
        client.sendall(frame(head))
        if not head.record_count:
            return
        how, descriptors, _, _ = socket.recv_fds(client, 1, 1)
        if how == DIRECT:
            with socket.socket(fileno=descriptors[0]) as asker:
                DirectBodyWriter(asker, client).write(pieces)
            return
        if how != PASSED_ON:
            raise OSError("the gateway closed the socket")
        for piece in pieces:
            client.sendall(LENGTH.pack(len(piece)))
            client.sendall(piece)
        client.sendall(LENGTH.pack(0))

    def _made(self, task: Task) -> tuple[Head, Iterator[bytes | memoryview]]:
        start = task.runs[0].start_offset
        try:
            found = self._records.read(task)
        except CorruptData as problem:
            damage = Damage(problem.detail, str(problem.fields.get("segment", "")))
            return Head(start, damage=damage, asked=self._requests.taken()), iter(())
        except StoreUnavailable as problem:
            return Head(start, trouble=problem.detail, asked=self._requests.taken()), iter(())
        if not found.record_count:
            return Head(start, asked=self._requests.taken()), iter(())
        # With its first piece, so that records that can't be encoded fail before the head.
        encoding, pieces = body(task, found)
        asked = self._requests.taken()
        head = Head(found.next_offset, found.record_count, found.size_bytes, encoding, asked=asked)
        return head, pieces


def _frame(client: socket.socket) -> bytes:
    (length,) = LENGTH.unpack(_exactly(client, LENGTH.size))
    if length > FRAME_BYTES_MAX:
        raise OSError(f"a task of {length} bytes")
    return _exactly(client, length)


def _exactly(client: socket.socket, size: int) -> bytes:
    data = client.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise OSError("the gateway closed the socket")
    return data


def _is_gone(client: socket.socket) -> bool:
    try:
        return not client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
