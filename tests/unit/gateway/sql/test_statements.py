"""A statement has a process of its own in its turn, which is gone behind it, whatever it did."""

from __future__ import annotations

import asyncio
import sys

import pytest

from gateway.sql.statements import WAITING_MAX, StatementProcess, Statements
from gateway.sql.task import FRAME_BYTES_MAX
from log_format.errors import BackOff, ErrorCode, RequestRefused
from tests.support.children import children

SAYS = (
    "import sys, struct, time;"
    "say = lambda data: (sys.stdout.buffer.write(struct.pack('<I', len(data)) + data), sys.stdout.flush());"
)
NAMES = SAYS + 'say(b\'{"topics": ["t"]}\');'


def statements(program: str) -> Statements:
    return Statements([sys.executable, "-ISc", program], {})


async def asked(process: StatementProcess, *, after_naming: bool) -> None:
    """``after_naming``: it fails later."""
    await process.parse("x")
    assert after_naming
    await process.send_block("t", [bytes(1 << 20)])
    await process.read_answer("application/json")


@pytest.mark.parametrize(
    ("program", "after_naming", "said"),
    [
        ("pass", False, "was ended (status 0)"),
        ("import os; os.abort()", False, "was ended (status -6)"),
        (SAYS + 'say(b\'{"error": "no SELECT"}\')', False, "no SELECT"),
        (NAMES + "sys.exit(3)", True, "was ended (status 3)"),
        (NAMES + "sys.stdout.buffer.write(b'\\xff'); sys.stdin.buffer.read(100)", True, "was ended (status 0)"),
        (NAMES + 'sys.stdin.buffer.read(1 << 20); say(b\'{"error": "a cast"}\'); time.sleep(60)', True, "a cast"),
    ],
)
async def test_a_process_that_fails_is_a_refusal(program: str, after_naming: bool, said: str) -> None:
    """The statement is at fault, so it is not to be repeated: with the process's words, or how it ended. Nothing is left."""
    before = children()
    async with statements(program).process() as process:
        with pytest.raises(RequestRefused) as told:
            await asked(process, after_naming=after_naming)
    assert said in told.value.detail
    assert told.value.fields["errors"][0]["where"] == "/sql"
    assert children() == before


@pytest.mark.parametrize(
    "said",
    [
        f"sys.stdout.buffer.write(struct.pack('<I', {FRAME_BYTES_MAX + 1})); sys.stdout.flush();",
        "say(b'no JSON');",
        "say(b'{\"topics\": 1}');",
        "say(b'\\xff');",
    ],
)
async def test_what_a_process_says_is_bounded_and_checked(said: str) -> None:
    """A statement may have taken it over: what makes no sense is refused, and nothing is read of a frame that is too long."""
    async with statements(SAYS + said + "time.sleep(60)").process() as process:
        with pytest.raises(RequestRefused, match="no answer that can be sent"):
            await process.parse("x")


async def test_one_at_a_time() -> None:
    """The next one begins behind the end of the process before it. Too many that wait are refused, the others have their turn."""
    desk, before, most = statements(NAMES + "time.sleep(60)"), children(), 0

    async def ask() -> None:
        nonlocal most
        async with desk.process() as process:
            assert await process.parse("x") == ("t",)
            most = max(most, len(children() - before))

    asked = [asyncio.create_task(ask()) for _ in range(WAITING_MAX + 4)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    failed = [error for error in done if error is not None]
    assert [isinstance(error, BackOff) and error.code == ErrorCode.OVERLOADED for error in failed] == [True] * 3
    assert most == 1
    assert children() == before


async def test_a_caller_that_goes_away_ends_its_process() -> None:
    """While it runs, and while it waits for its turn; the next one has its turn at once."""
    desk, before = statements(NAMES + "time.sleep(60)"), children()
    began = asyncio.Event()

    async def ask() -> None:
        async with desk.process() as process:
            await process.parse("x")
            began.set()
            await process.read_answer("application/json")

    running, waiting = asyncio.create_task(ask()), asyncio.create_task(ask())
    await began.wait()
    for task in (waiting, running):
        task.cancel()
    await asyncio.wait((running, waiting))
    assert children() == before
    async with desk.process() as process:
        assert await process.parse("x") == ("t",)


async def test_a_process_that_cannot_be_started_is_tried_again_later() -> None:
    """503, and the turn is given back."""
    desk = Statements(["/nowhere/python"], {})
    for _ in range(2):
        with pytest.raises(BackOff):
            async with desk.process():
                pass
