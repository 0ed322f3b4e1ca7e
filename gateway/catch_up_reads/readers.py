"""Reader processes, which run while they have work.

1. They are started by ``wake``, and stopped once none has had a task for ``idle_s``. An idle gateway has none.
2. In between, each is restarted when it ends, after a pause that grows while it keeps ending.
3. A reader ends when its control socket closes. So none outlives the gateway, however that ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time
import zlib
from collections.abc import Sequence
from typing import Final

from gateway.catch_up_reads.service import PARALLEL_TASKS_MAX, READY
from gateway.tasks.supervised import RestartPause, run_supervised

START_S_MAX: Final = 30
END_S_MAX: Final = 2
IDLE_S: Final = 60
"""Idle time after which readers stop. A client that returns within it finds its reader, and the records that were read ahead."""
IDLE_LOOKS: Final = 4
"""Checks for idleness within that time."""
SILENT_S_MAX: Final = 30
"""Silence after which a reader counts as frozen: longer than a store may take with all retries."""

_log = logging.getLogger("gateway.catch_up_reads")


class ReaderUnavailable(Exception):
    """The reader takes no tasks. Nothing was sent."""


class Reader:
    """A reader process that takes tasks."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self.task_count = 0
        self._process = process
        self._control = control
        self._heard_at = time.monotonic()

    def hand_over(self) -> socket.socket:
        """Return this side of a new task's socket; the reader gets the other side. Raise ``ReaderUnavailable``."""
        own, theirs = socket.socketpair()
        with theirs:
            try:
                own.setblocking(False)
                socket.send_fds(self._control, [b"t"], [theirs.fileno()])
            except OSError as error:
                own.close()
                raise ReaderUnavailable from error
        return own

    def note_answer(self) -> None:
        """Note that the reader answered."""
        self._heard_at = time.monotonic()

    def note_missed_head(self) -> None:
        """Note that a task got no head in time. If the reader has answered no task for long, kill it, so that it is restarted."""
        if time.monotonic() - self._heard_at > SILENT_S_MAX:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


class Readers:
    """``count`` processes of ``command``, which gets the descriptor of its control socket as its first argument, followed by
    ``arguments``. Used on the event loop only."""

    def __init__(self, count: int, command: Sequence[str], arguments: Sequence[str], *, idle_s: float = IDLE_S) -> None:
        self._count = count
        self._command = command
        self._arguments = arguments
        self._idle_s = idle_s
        self._live: dict[int, Reader] = {}
        self._used_at = 0.0
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    @property
    def live_count(self) -> int:
        """Number of readers that take tasks."""
        return len(self._live)

    def wake(self) -> None:
        """Have the readers run. Return immediately: they take tasks about a second later."""
        self._used_at = time.monotonic()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop the readers for good. Tasks in progress are cut short."""
        self._stopping.set()
        if self._running is not None:
            await asyncio.wait((self._running,))

    def choose(self, key: str) -> Reader | None:
        """Return the reader that keeps read-ahead for the key, or the least busy one if that reader is busy; None if there is
        no reader."""
        if not self._live:
            return None
        self._used_at = time.monotonic()
        usual = self._live.get(zlib.crc32(key.encode()) % self._count)
        if usual is not None and usual.task_count < PARALLEL_TASKS_MAX:
            return usual
        return min(self._live.values(), key=lambda reader: reader.task_count)

    async def _run(self) -> None:
        """Keep the readers running until they are idle; start them again if they are woken while they end."""
        while self._is_wanted:
            keepers = [_Keeper(number, self) for number in range(self._count)]
            keeping = [asyncio.create_task(run_supervised(keeper.round, "a reader of history")) for keeper in keepers]
            try:
                while self._is_wanted:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._idle_s / IDLE_LOOKS):
                            await self._stopping.wait()
                    if not self._live or any(reader.task_count for reader in self._live.values()):
                        self._used_at = time.monotonic()
            finally:
                self._live.clear()  # from here on no reader gets a task
                for task in keeping:
                    task.cancel()
                await asyncio.gather(*keeping, return_exceptions=True)

    @property
    def _is_wanted(self) -> bool:
        return not self._stopping.is_set() and time.monotonic() - self._used_at < self._idle_s

    async def serve(self, number: int) -> int:
        """Run one process to its end; return its exit status. Raise ``OSError`` if it can't be started."""
        control, theirs = socket.socketpair()
        with control:
            control.setblocking(False)
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    str(theirs.fileno()),
                    *self._arguments,
                    pass_fds=(theirs.fileno(),),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                )
            try:
                if await _says_ready(control):
                    self._live[number] = Reader(process, control)
                    return await process.wait()
                process.kill()
                return await process.wait()
            finally:
                self._live.pop(number, None)
                control.close()
                await _ended(process)


class _Keeper:
    def __init__(self, number: int, readers: Readers) -> None:
        self._number = number
        self._readers = readers
        self._pause = RestartPause()

    async def round(self) -> None:
        """Run one process, and wait for the pause after it."""
        try:
            what = f"ended with status {await self._readers.serve(self._number)}"
        except OSError as error:
            what = f"can't be started: {error}"
        pause = self._pause.next_seconds()
        _log.error("reader %d of history %s, and is started again in %g s", self._number, what, pause)
        await asyncio.sleep(pause)


async def _says_ready(control: socket.socket) -> bool:
    try:
        async with asyncio.timeout(START_S_MAX):
            return await asyncio.get_running_loop().sock_recv(control, 1) == READY
    except (TimeoutError, OSError):
        return False


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a process whose control socket is closed; kill it if it does not end."""
    try:
        async with asyncio.timeout(END_S_MAX):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def reader_command() -> list[str]:
    """Return the command: this Python with its reader program; modules are looked up where this process found them."""
    return [sys.executable, *(["-P"] if sys.flags.safe_path else []), "-m", "gateway.process.history_reader"]
