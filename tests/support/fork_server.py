"""``python -m tests.support.fork_server DESCRIPTOR``: gateways by fork from a process that has imported all that they import.

An import takes a second of a processor, a fork some milliseconds. Each request that comes by the socket ``DESCRIPTOR`` has the
program's name, arguments and environment, and three descriptors: for standard output, standard error, and a pipe that is told the
process's id and, in the end, its status. It ends when the socket's other end is closed.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

from log_format.without_pandas import hide_pandas

NUMBER = struct.Struct("i")
REQUEST_BYTES_MAX = 1 << 18


def _import_gateway() -> None:
    """Everything that a gateway on a directory imports before it listens. None of it starts a thread."""
    hide_pandas()
    import gateway.__main__
    import gateway.app
    import gateway.process.assembly
    import gateway.process.server  # noqa: F401

    gc.collect()
    gc.freeze()


def _import_for(request: dict[str, Any]) -> None:
    """What a gateway with these arguments imports beside that, once for all such."""
    if "--kafka-listen" in request["arguments"]:
        import gateway.kafka.listening.listener  # noqa: F401
    if any(argument.startswith("s3://") for argument in request["arguments"]):
        _read_descriptions()


@cache
def _read_descriptions() -> None:
    """Those of S3 that botocore keeps: each gateway would read them for 0.2 seconds. No client of these sends a request."""
    from log_format.stores.s3_client import new_client

    new_client(None, 1, 1, 1, None, endpoint_url="http://127.0.0.1:1")


def _next_gateway(requests: socket.socket) -> Callable[[], int]:
    """Returns in each process that becomes a gateway: what it runs."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 3)
        if not message:
            os._exit(0)
        request = json.loads(message)
        _import_for(request)
        if os.fork() == 0:
            requests.close()
            _tell_when_it_ends(descriptors.pop())
            return _prepared(request, *descriptors)
        for each in descriptors:
            os.close(each)
        _reap()


def _tell_when_it_ends(told: int) -> None:
    """Returns in a process of its own; the one that called waits for that, as only a parent learns a status."""
    child = os.fork()
    if child == 0:
        os.close(told)
        return
    os.write(told, NUMBER.pack(child))
    _, status = os.waitpid(child, 0)
    os.write(told, NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _prepared(request: dict[str, Any], output: int, errors: int) -> Callable[[], int]:
    for given, usual in ((output, 1), (errors, 2)):
        os.dup2(given, usual)
        os.close(given)
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.argv[1:] = request["arguments"]
    return _serves_a_stub if request["program"] == "stub" else _serves


def _serves() -> int:
    from gateway.__main__ import main

    return main()


def _serves_a_stub() -> int:
    """As a program with ``-W error``, but for what was imported before."""
    warnings.simplefilter("error")
    from tests.support.stub_gateway import main

    return main()


def _reap() -> None:
    """Those that waited are done with; the last ones stay until the next request."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_gateway()
    sys.exit(_next_gateway(socket.socket(fileno=int(sys.argv[1])))())
