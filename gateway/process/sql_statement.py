"""A statement's process: ``python -m gateway.process.sql_statement``. A gateway starts it for one statement, then kills it.

Once its libraries are loaded it can open no file and no socket, start no process, and write only to its standard output: the
system refuses it, whatever DuckDB tries (``restrict_process``). It has no credential: its environment is only what Python needs
(``statement_environment``). It ends at its limits of memory and CPU time, and with its gateway: immediately on Linux, by an alarm
elsewhere.

Like a reader of history it ignores SIGTERM and SIGINT, and has a lower priority than all other processes. It finds no pandas
(``log_format.without_pandas``).
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from gateway.codec.media_type import PARQUET
from gateway.process.priority import lower_priority
from gateway.sql.task import CPU_S_MAX, LENGTH, LIFE_S_MAX, StatementAnswer, frame
from log_format.without_pandas import hide_pandas

OUT_OF_MEMORY_SCORE: Final = 1000
_KEPT: Final = ("LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH")

_FRUGAL: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
_WORKING_BYTES: Final = 320 * 1024 * 1024
"""Address space for records and answer, in addition to the interpreter's and the libraries': 425 MiB, of which 165 are
resident."""


_KILL_WITH_PARENT: Final = 1
"""``PR_SET_PDEATHSIG``: prctl(2). The parent is the gateway's main thread, in which its event loop runs."""


def statement_command() -> list[str]:
    """Return the command: this Python with this program; modules are looked up where this process found them."""
    return [sys.executable, *(["-P"] if sys.flags.safe_path else []), "-m", "gateway.process.sql_statement"]


def statement_environment(own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a statement's process: a part of the gateway's own, and settings that keep libraries from
    reserving memory."""
    return {name: own[name] for name in _KEPT if name in own} | _FRUGAL


def main() -> None:
    """Answer one statement."""
    lower_priority(out_of_memory_score=OUT_OF_MEMORY_SCORE)
    _end_with_gateway()
    hide_pandas()
    import pyarrow as pa  # noqa: PLC0415 - slow imports come after the priority was lowered

    from gateway.sql.statement import Statement  # noqa: PLC0415

    pa.set_cpu_count(1)
    statement = Statement()
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    restrict_process()
    named = statement.parse(_frame(source).decode())
    _say(sink, named)
    if named.error is None:
        blocks: dict[str, list[pa.Table]] = {topic: [] for topic in named.topics}
        while name := _frame(source):
            with pa.ipc.open_stream(_frame(source)) as stream:
                blocks[name.decode()].append(stream.read_all())
        as_file = _frame(source).decode() == PARQUET
        error = statement.load(blocks)
        _say(sink, statement.run(as_file=as_file) if error is None else StatementAnswer(error=error))
    # The gateway has the answer, and kills this process: nothing is left to clean up.
    os._exit(0)


def _end_with_gateway() -> None:
    signal.alarm(LIFE_S_MAX)
    if sys.platform == "linux":
        # If the gateway has ended before this, the first read ends this process.
        ctypes.CDLL(None).prctl(_KILL_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def restrict_process() -> None:
    """Have the system refuse this process, from now on, what a statement does not need."""
    seconds = int(time.process_time()) + CPU_S_MAX
    for limit, most in (
        (resource.RLIMIT_AS, _address_bytes() + _WORKING_BYTES),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(limit, (most, most))


def _address_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _frame(source: BinaryIO) -> bytes:
    (length,) = LENGTH.unpack(_exactly(source, LENGTH.size))
    return _exactly(source, length)


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        os._exit(1)  # the gateway does not need this process any more
    return data


def _say(sink: BinaryIO, message: msgspec.Struct) -> None:
    sink.write(frame(msgspec.json.encode(message)))
    sink.flush()


if __name__ == "__main__":
    main()
