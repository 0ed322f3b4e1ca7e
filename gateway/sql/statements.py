"""Statements, run one after another, each in a process of its own.

1. A statement runs alone from the start of its process to its end. Up to ``WAITING_MAX`` others wait, for ``QUEUE_WAIT_MS_MAX``.
2. Whatever happens to a statement, its process is then killed, by its id, and waited for.
3. The output of the process is bounded, checked, and given to its caller only. Naming a topic gives no right to it.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import msgspec

from gateway.problem import overloaded, refused
from gateway.sql.task import CPU_S_MAX, FRAME_BYTES_MAX, LENGTH, ParsedStatement, StatementAnswer
from log_format.errors import DECODE_ERRORS, BackOff, RequestRefused

QUEUE_WAIT_MS_MAX: Final = 30_000
WAITING_MAX: Final = 16
START_MS_MAX: Final = 30_000
"""Longest time until the process has named the statement's topics: it takes a second of CPU time, which others may use, too."""
SEND_MS_MAX: Final = 10_000
"""Longest time until the process has received a block of records."""
ANSWER_MS_MAX: Final = 20_000
"""Longest time from the last record to the answer: on a busy machine the process gets little CPU time."""

_PARSED_DECODER: Final = msgspec.json.Decoder(ParsedStatement)
_ANSWER_DECODER: Final = msgspec.json.Decoder(StatementAnswer)
T = TypeVar("T")
_log = logging.getLogger("gateway.sql")


class Statements:
    """Runner of statements. ``command`` is started with ``environment`` for each statement."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._turn = asyncio.Lock()
        self._waiting_count = 0

    @asynccontextmanager
    async def process(self) -> AsyncGenerator[StatementProcess, None]:
        """Start a process for one statement, once the statements before it are done. Raise ``BackOff``."""
        await self._wait()
        try:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    env=self._environment,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                )
            except OSError as error:
                _log.warning("the process of a statement can't be started: %s", error)
                raise BackOff("The gateway can't start a process for the statement now.") from error
            try:
                yield StatementProcess(process)
            finally:
                await asyncio.shield(asyncio.ensure_future(_end_process(process)))
        finally:
            self._turn.release()

    async def _wait(self) -> None:
        if self._waiting_count >= WAITING_MAX:
            raise overloaded("Too many statements are waiting.")
        self._waiting_count += 1
        try:
            async with asyncio.timeout(QUEUE_WAIT_MS_MAX / 1000):
                await self._turn.acquire()
        except TimeoutError:
            raise overloaded("Other statements took too long: this one was not started.") from None
        finally:
            self._waiting_count -= 1


class StatementProcess:
    """The process of one statement, from ``Statements.process``. Call ``parse``, then ``send_block`` for each block of
    records, then ``read_answer``."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._sink, self._source = process.stdin, process.stdout

    async def parse(self, sql: str) -> tuple[str, ...]:
        """Send the statement, and return the topics that it names. Raise ``RequestRefused`` if it can't be answered,
        ``BackOff``."""
        try:
            async with asyncio.timeout(START_MS_MAX / 1000):
                await self._send(sql.encode())
                named = _decode(_PARSED_DECODER, await self._frame())
        except TimeoutError:
            raise BackOff("The process for the statement does not start in time.") from None
        if named.error is not None:
            raise _refuse(named.error)
        return named.topics

    async def send_block(self, topic: str, block: Sequence[bytes | memoryview]) -> None:
        """Send records of a topic, as the parts of an Arrow stream. Raise as ``parse`` does."""
        try:
            async with asyncio.timeout(SEND_MS_MAX / 1000):
                await self._send(topic.encode())
                await self._send(*block)
        except TimeoutError:
            raise BackOff("The process for the statement does not take its records in time.") from None

    async def read_answer(self, media_type: str) -> StatementAnswer:
        """Return the answer, for JSON or as a Parquet file. Raise as ``parse`` does."""
        try:
            async with asyncio.timeout(ANSWER_MS_MAX / 1000):
                await self._send(b"")
                await self._send(media_type.encode())
                found = _decode(_ANSWER_DECODER, await self._frame())
        except TimeoutError:
            raise _refuse(f"It takes longer than {ANSWER_MS_MAX // 1000} s.") from None
        if found.error is not None:
            raise _refuse(found.error)
        return found

    async def _send(self, *parts: bytes | memoryview) -> None:
        """Send one frame."""
        try:
            for part in (LENGTH.pack(sum(map(len, parts))), *parts):
                self._sink.write(part)
                await self._sink.drain()
        except OSError:
            raise await self._died() from None

    async def _frame(self) -> bytes:
        try:
            (length,) = LENGTH.unpack(await self._source.readexactly(LENGTH.size))
            if length > FRAME_BYTES_MAX:
                raise _refuse_output(f"{length} bytes")
            return await self._source.readexactly(length)
        except (asyncio.IncompleteReadError, OSError):
            raise await self._died() from None

    async def _died(self) -> RequestRefused:
        status = await self._process.wait()
        _log.warning("the process of a statement ended with status %d", status)
        return _refuse(f"It exceeded its memory limit or {CPU_S_MAX} s of CPU time, and was ended (status {status}).")


def _refuse(why: str) -> RequestRefused:
    return refused(f"The statement is not answered. {why}", [("/sql", why)])


def _decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except DECODE_ERRORS as error:
        raise _refuse_output(str(error)) from error


def _refuse_output(what: str) -> RequestRefused:
    """Log and refuse output that no proper process writes: a statement may have taken it over."""
    _log.error("the process of a statement says what it never should: %s", what)
    return _refuse("It has no answer that can be sent.")


async def _end_process(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()
