"""A relay in front of each gateway, whose address the other gateways are told: it counts what they send each other.

It runs in a process of its own. Clients do not pass through it. ``cut`` keeps gateways from reaching each other.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import uvloop

from benchmarks.harness.cpu import cpu_seconds
from benchmarks.harness.processes import free_port
from benchmarks.harness.pump import pump

POLL_SECONDS: Final = 0.05


class Relay:
    """``ports[i]`` leads to ``targets[i]``."""

    def __init__(self, ports: Sequence[int], pid: int, counted: Any, is_cut: Any) -> None:
        self.ports = ports
        self._pid = pid
        self._counted = counted
        self._is_cut = is_cut

    @property
    def bytes(self) -> int:
        """Bytes passed on so far, in both directions, heads included."""
        return int(self._counted.value)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the relay so far."""
        return cpu_seconds(self._pid)

    def cut(self) -> None:
        """Close all connections, and take no more."""
        self._is_cut.value = 1


@contextmanager
def relay(targets: Sequence[int]) -> Iterator[Relay]:
    """Run a relay."""
    context = multiprocessing.get_context("spawn")
    counted, is_cut = context.Value("Q", 0, lock=False), context.Value("b", 0, lock=False)
    ports = [free_port() for _ in targets]
    process = context.Process(target=_process, args=(ports, targets, counted, is_cut))
    process.start()
    assert process.pid is not None
    try:
        yield Relay(ports, process.pid, counted, is_cut)
    finally:
        process.terminate()
        process.join()


def _process(ports: Sequence[int], targets: Sequence[int], counted: Any, is_cut: Any) -> None:
    uvloop.run(_serve(ports, targets, counted, is_cut))


async def _serve(ports: Sequence[int], targets: Sequence[int], counted: Any, is_cut: Any) -> None:
    writers: set[asyncio.StreamWriter] = set()

    async def count(piece: bytes) -> None:
        counted.value += len(piece)

    async def serve(target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if is_cut.value:
                return
            onward_reader, onward = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            return
        else:
            writers.update((writer, onward))
            await asyncio.gather(pump(reader, onward, count), pump(onward_reader, writer, count))
            writers.difference_update((writer, onward))
        finally:
            writer.close()

    servers = [
        await asyncio.start_server(lambda reader, writer, to=target: serve(to, reader, writer), "127.0.0.1", port)
        for port, target in zip(ports, targets, strict=True)
    ]
    while servers:
        await asyncio.sleep(POLL_SECONDS)
        if is_cut.value:
            for writer in tuple(writers):
                writer.transport.abort()
