"""Several ``workers``: that many gateways, each in its own process, share one port. This process itself serves no clients.

1. Each worker has its own listening socket on the shared port (``SO_REUSEPORT``): the kernel distributes connections over them.
   The sockets stay open here, so a connection that comes while a worker is being replaced waits for its successor.
2. A worker that ends is restarted, after a pause that grows while it keeps ending. If any worker fails to start at the beginning,
   all of them end.
3. SIGHUP replaces the workers one after another. The new worker listens before the old one hands over: the old one accepts no
   more connections, answers the requests of its open ones, closes each after its answer, and ends.
4. SIGTERM and SIGINT drain all workers. A second signal kills them. Workers notice when this process has ended, and drain.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeGuard

from gateway.process.supervisor_listener import SupervisorListener
from gateway.process.worker import environment_for
from gateway.process.worker_count import worker_arguments
from gateway.settings.settings import Settings
from gateway.tasks.supervised import RestartPause

_BACKLOG: Final = 1024

_log = logging.getLogger("gateway.process.supervisor")


@dataclass(slots=True)
class _WorkerSlot:
    """One worker's place: its sockets stay open while its processes are replaced."""

    number: int
    shared: socket.socket
    own: socket.socket
    inbox: socket.socket
    """Socket on which other workers hand over connections; ``outbox`` is its other end."""
    outbox: socket.socket
    process: asyncio.subprocess.Process | None = None
    starting: asyncio.subprocess.Process | None = None
    """Process that does not listen yet."""
    operations_url: str | None = None
    pause: RestartPause = field(default_factory=RestartPause)


class CannotStart(Exception):
    """A worker failed to start; ``status`` is its exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"a worker ended with status {status} before it listened")
        self.status = status


class Supervisor:
    """Supervisor of ``count`` workers. ``arguments``: this process's own, also passed to the workers. ``announce`` gets the
    URL once all workers listen, and that of the operators' page."""

    def __init__(
        self, settings: Settings, count: int, arguments: Sequence[str], announce: Callable[[str, str | None], None]
    ) -> None:
        self._settings = settings
        self._count = count
        self._command = [sys.executable, "-m", "gateway", *arguments]
        self._announce = announce
        self._places: list[_WorkerSlot] = []
        self._life_read, self._life_write = os.pipe()
        self._page_url = ""
        self._stopping = asyncio.Event()
        self._signals = 0
        self._replacing: asyncio.Task[None] | None = None
        self._status = 0

    async def run(self) -> int:
        """Serve until a signal; return the exit status: the worst of the workers'."""
        try:
            sockets = _listeners(self._settings, self._count)
        except OSError as error:
            _log.error("the port can't be had: %s. --port names another, 0 any that is free", error.strerror)
            return 3
        self._places = [_WorkerSlot(number, *pair, *_pair()) for number, pair in enumerate(sockets)]
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        with SupervisorListener("127.0.0.1", 0, self._operations_urls) as page:
            self._page_url = f"{page.url}/metrics"
            return await self._run()

    async def _run(self) -> int:
        started = await asyncio.gather(*map(self._start, self._places), return_exceptions=True)
        refusals = [error for error in started if isinstance(error, BaseException)]
        if refusals:
            await self._end_all()
            return max(error.status if isinstance(error, CannotStart) else 3 for error in refusals)
        port = self._settings.operations_port
        with SupervisorListener(self._settings.ops_host, port, self._operations_urls) as page:
            self._announce(_url(self._settings, self._places[0].shared), page.url)
            watching = [asyncio.create_task(self._watch(place)) for place in self._places]
            await self._stopping.wait()
            for task in (*watching, *([self._replacing] if self._replacing else ())):
                task.cancel()
            await self._end_all()
        return self._status

    async def _start(self, place: _WorkerSlot) -> None:
        """Start a new process in the place, and wait until it listens. Raise ``CannotStart``."""
        ready_read, ready_write = os.pipe()
        outboxes = [other.outbox.fileno() for other in self._places]
        inherited = {
            "shared": place.shared.fileno(),
            "own": place.own.fileno(),
            "ready": ready_write,
            "life": self._life_read,
            "inbox": place.inbox.fileno(),
        }
        ports = [other.own.getsockname()[1] for other in self._places]
        told = {"number": place.number, "page_url": self._page_url, "ports": ports, "outboxes": outboxes}
        process = await asyncio.create_subprocess_exec(
            *self._command,
            *worker_arguments(self._settings, self._count, place.number),
            env=os.environ | environment_for(inherited | told),
            pass_fds=(*inherited.values(), *outboxes),
            # A terminal's Ctrl-C is for this process, which then signals the workers.
            start_new_session=True,
        )
        place.starting = process
        os.close(ready_write)
        answer = await asyncio.to_thread(_read_all, ready_read)
        place.starting = None
        if not answer:
            raise CannotStart(await process.wait() or 1)
        place.process, place.operations_url = process, json.loads(answer)["operations_url"]

    async def _watch(self, place: _WorkerSlot) -> None:
        """Restart the worker whenever it ends by itself."""
        while True:
            process = place.process
            assert process is not None
            status = await process.wait()
            if place.process is not process:
                continue  # the process was replaced
            pause = place.pause.next_seconds()
            _log.error("worker %d ended with status %d, and is started again in %g s", place.number, status, pause)
            await asyncio.sleep(pause)
            with contextlib.suppress(CannotStart):
                await self._start(place)

    async def _replace_all(self) -> None:
        for place in self._places:
            before = place.process
            try:
                await self._start(place)
            except CannotStart as error:
                _log.error("worker %d is not replaced: %s", place.number, error)
                return
            if before is not None and before.returncode is None:
                before.send_signal(signal.SIGUSR1)
                await before.wait()
            _log.info("worker %d is replaced", place.number)

    async def _end_all(self) -> None:
        """Drain all workers, and wait for them. The exit status of a worker that does not listen yet is ignored."""
        living = [place.process for place in self._places if _lives(place.process)]
        starting = [place.starting for place in self._places if _lives(place.starting)]
        for process in (*living, *starting):
            process.terminate()
        for process in living:
            self._status = max(self._status, abs(await process.wait()))
        for process in starting:
            await process.wait()

    def _operations_urls(self) -> Mapping[int, str]:
        return {place.number: place.operations_url for place in self._places if place.operations_url is not None}

    def _on_signal(self) -> None:
        self._signals += 1
        self._stopping.set()
        if self._signals > 1:
            for place in self._places:
                for process in (place.process, place.starting):
                    if _lives(process):
                        process.kill()

    def _on_hangup(self) -> None:
        if self._replacing is None or self._replacing.done():
            _log.info("replacing the workers")
            self._replacing = asyncio.get_running_loop().create_task(self._replace_all())


def _lives(process: asyncio.subprocess.Process | None) -> TypeGuard[asyncio.subprocess.Process]:
    return process is not None and process.returncode is None


def _listeners(settings: Settings, count: int) -> list[tuple[socket.socket, socket.socket]]:
    """Return for each worker a socket of the shared port and one of its own. Raise ``OSError``."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    port = settings.port
    if port:
        # SO_REUSEPORT would let another program of the same user share the port by mistake: check that it is free.
        with socket.socket(family, socket.SOCK_STREAM) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind((settings.host, port))
    pairs = []
    for number in range(count):
        shared = socket.socket(family, socket.SOCK_STREAM)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind((settings.host, port))
        port = shared.getsockname()[1]
        own = socket.socket(family, socket.SOCK_STREAM)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind((settings.host, 0 if settings.worker_ports is None else settings.worker_ports + number))
        pairs.append((shared, own))
    for shared, _ in pairs:
        shared.listen(_BACKLOG)
    return pairs


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets: the first receives what the second sends, in whole messages, and neither blocks."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for one in pair:
        one.setblocking(False)
    return pair


def _url(settings: Settings, bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"{settings.scheme}://[{host}]:{port}" if ":" in host else f"{settings.scheme}://{host}:{port}"


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read()
