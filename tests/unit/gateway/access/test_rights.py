"""What callers may do, as a gateway answers it: by the newest state, never by an old one."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.access.caller import Caller
from gateway.access.rights import OPEN, RENEWED_MS, STALE_MS, Rights, Unauthorized
from gateway.access.token import new_token, parse_token, read_bootstrap_token
from gateway.access.watch import AccessWatch
from gateway.engine.waiters import WaiterSlots
from log_format.access.acls import Acl
from log_format.access.changes import AddAcls, DeleteAcls, PutRole
from log_format.access.row import RoleRow
from log_format.errors import BackOff, ErrorCode, StoreUnavailable
from tests.support.clocks import ManualClock
from tests.support.engine import Gateway, make_gateway
from tests.support.faulty_store import FaultyStore

ALICE = Caller("User:alice", ("Group:w",))
READ = Acl("User:alice", "Read", "topic", "t")


def secured(store: FaultyStore | None = None, clock: ManualClock | None = None, **bounds: Any) -> Gateway:
    return make_gateway(store, clock=clock, super_users=("User:root",), **bounds)


def down(_operation: str, key: str) -> None:
    raise StoreUnavailable(key, "down", may_have_happened=False)


def test_without_enforcement_all_is_allowed() -> None:
    """And no caller is a super user there."""
    assert OPEN.allows(Caller("User:anonymous"), "Alter", "cluster", "cluster")
    assert not OPEN.is_super_user(Caller("User:bootstrap"))


async def test_answers_follow_the_newest_change() -> None:
    """What was remembered is dropped with the change, so that none is served by it."""
    gateway = secured()
    table, rights = gateway.engine.access_table, gateway.engine.rights
    await table.fresh()
    for _ in range(3):
        assert not rights.allows(ALICE, "Read", "topic", "t")
    revision = rights.revision
    await table.decide(AddAcls(acls=(READ,)))
    assert rights.revision > revision
    for _ in range(3):
        assert rights.allows(ALICE, "Read", "topic", "t")
    await table.decide(AddAcls(acls=(READ._replace(permission="deny", principal="Role:r"),)))
    assert rights.allows(ALICE, "Read", "topic", "t")
    await table.decide(PutRole(row=RoleRow(role="r", members=("Group:w",))))
    with pytest.raises(Unauthorized) as refused:
        rights.require(ALICE, "Read", "topic", "t")
    assert refused.value.fields == {"operation": "Read", "resource_type": "topic", "resource": "t"}
    await table.decide(DeleteAcls(matches=lambda acl: acl.permission == "deny"))
    assert rights.allows(ALICE, "Read", "topic", "t")


async def test_a_change_wakes_what_waits_for_it() -> None:
    """What was let in earlier is judged again by it."""
    gateway = secured()
    table, rights = gateway.engine.access_table, gateway.engine.rights
    await table.fresh()
    waiting = asyncio.create_task(rights.wait_changed(rights.revision))
    await asyncio.sleep(0)
    assert not waiting.done()
    await table.decide(AddAcls(acls=(READ,)))
    await asyncio.wait_for(waiting, 5)
    await asyncio.wait_for(rights.wait_changed(-5), 5)


async def test_an_old_state_lets_nobody_in() -> None:
    """Neither before the first look nor a minute after the last, super users included; what was remembered does not count."""
    clock, store = ManualClock(), FaultyStore()
    gateway = secured(store, clock)
    table, rights = gateway.engine.access_table, gateway.engine.rights
    clock.pass_ms(1)
    for caller in (ALICE, Caller("User:root")):
        with pytest.raises(BackOff) as refused:
            rights.allows(caller, "Read", "topic", "t")
        assert refused.value.code is ErrorCode.UNAVAILABLE
    await table.decide(AddAcls(acls=(READ,)))
    await table.fresh()
    assert rights.allows(ALICE, "Read", "topic", "t")
    clock.pass_ms(STALE_MS)
    assert rights.allows(ALICE, "Read", "topic", "t")
    clock.pass_ms(1)
    for caller in (ALICE, Caller("User:root")):
        with pytest.raises(BackOff):
            rights.allows(caller, "Read", "topic", "t")
    store.before = down
    with pytest.raises(BackOff):
        await table.fresh()
    with pytest.raises(BackOff):
        rights.check_age()
    store.before = lambda _operation, _key: None
    await table.fresh()
    assert rights.allows(ALICE, "Read", "topic", "t")


async def test_the_watch_goes_on_after_an_outage_and_keeps_the_table_small() -> None:
    """It sees what others change, and rewrites many small files as one."""
    store = FaultyStore()
    one, other = secured(store, table_files_min=5), secured(FaultyStore(store.objects))
    watch = AccessWatch(one.engine.access_table, WaiterSlots(1), pause_ms=5)
    await watch.start()
    try:
        store.before = down
        await asyncio.sleep(0.05)
        store.before = lambda _operation, _key: None
        for index in range(6):
            await other.engine.access_table.decide(AddAcls(acls=(READ._replace(resource=f"t{index}"),)))
        rights = one.engine.rights

        def has_all() -> bool:
            state = one.engine.access_table.state
            return len(state.acls.entries) == 6 and len(state.files) < 5

        for _ in range(1_000):
            if has_all():
                break
            await asyncio.sleep(0.01)
        assert has_all()
        assert rights.allows(ALICE, "Read", "topic", "t5")
    finally:
        watch.stop()


async def test_more_than_the_budget_is_refused_and_less_never() -> None:
    """Bytes are counted; deleting works at the bound."""
    gateway = secured(access_bytes_max=20_000)
    table = gateway.engine.access_table
    acls = [READ._replace(resource=f"t{index:03d}") for index in range(100)]
    with pytest.raises(BackOff) as refused:
        await table.decide(AddAcls(acls=tuple(acls)))
    assert refused.value.code is ErrorCode.OVERLOADED
    assert "access_bytes_max" in refused.value.detail
    await table.decide(AddAcls(acls=tuple(acls[:50])))
    with pytest.raises(BackOff):
        await table.decide(AddAcls(acls=tuple(acls[50:])))
    await table.decide(DeleteAcls(matches=lambda _acl: True))
    await table.decide(AddAcls(acls=tuple(acls[50:])))


async def test_what_is_remembered_is_bounded() -> None:
    """Callers and resources are as many as clients like."""
    gateway = secured()
    await gateway.engine.access_table.fresh()
    rights = Rights(gateway.engine.access_table, remembered_max=10)
    for index in range(100):
        assert not rights.allows(Caller(f"User:{index}"), "Read", "topic", "t")
    assert rights.remembered_count <= 20


SECRET = "s" * 43


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640])
def test_a_bootstrap_token_is_read(tmp_path: Path, mode: int) -> None:
    """From a file that its owner, or its group, may read."""
    path = tmp_path / "token"
    made = new_token("bootstrap")
    path.write_text(f"{made.text}\n")
    path.chmod(mode)
    assert read_bootstrap_token(str(path)).sha256 == made.sha256


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (f"tl_bootstrap_{SECRET}", 0o644, "chmod 600"),
        (f"tl_bootstrap_{SECRET}", 0o604, "chmod 600"),
        (f"tl_bootstrap_{SECRET}", 0o660, "chmod 600"),
        (f"tl_abcdefgh_{SECRET}", 0o600, "tl_bootstrap_"),
        (f"tl_bootstrap_{SECRET[:-1]}", 0o600, "tl_bootstrap_"),
        (f"tl_bootstrap_{SECRET}" * 2, 0o600, "tl_bootstrap_"),
        ("", 0o600, "tl_bootstrap_"),
    ],
)
def test_a_file_that_is_no_bootstrap_token_or_is_not_secret_is_refused(
    tmp_path: Path, text: str, mode: int, said: str
) -> None:
    """The gateway does not start, and does not say what stood there."""
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(ValueError, match=said) as refused:
        read_bootstrap_token(str(path))
    assert len(text) < 40 or text[20:40] not in str(refused.value)
    with pytest.raises(ValueError, match="can't be read"):
        read_bootstrap_token(str(tmp_path / "none"))


def test_tokens_are_made_and_parsed() -> None:
    """Each another, with 256 bits; any other text is none."""
    made = [new_token() for _ in range(100)]
    assert len({one.text for one in made}) == len({one.id for one in made}) == 100
    for one in made:
        parsed = parse_token(one.text.encode())
        assert parsed == (one.id, one.sha256)
        assert one.sha256 not in one.text
    good = made[0].text
    for text in (
        good[:-1],
        good + "a",
        good + "\n",
        " " + good,
        good.replace("tl_", "TL_"),
        "tl_short_" + "a" * 43,
        "tl__" + "a" * 43,
    ):
        assert parse_token(text.encode()) is None


async def test_a_gateway_that_stood_still_looks_before_it_judges() -> None:
    """Its state is older than a change may take to hold everywhere. A store that fails is waited for once."""
    clock, store = ManualClock(), FaultyStore()
    one = secured(store, clock)
    other = secured(FaultyStore(store.objects), clock)
    table, rights = one.engine.access_table, one.engine.rights
    clock.pass_ms(1)
    await other.engine.access_table.decide(AddAcls(acls=(READ,)))
    await table.fresh()
    assert rights.allows(ALICE, "Read", "topic", "t")
    await other.engine.access_table.decide(DeleteAcls(matches=lambda acl: acl == READ))
    clock.pass_ms(RENEWED_MS)
    await rights.refresh_if_old()
    assert rights.allows(ALICE, "Read", "topic", "t"), "the watch looks so often by itself"
    clock.pass_ms(1)
    await rights.refresh_if_old()
    assert not rights.allows(ALICE, "Read", "topic", "t")
    clock.pass_ms(RENEWED_MS + 1)
    tried: list[str] = []

    def fails(operation: str, key: str) -> None:
        tried.append(operation)
        down(operation, key)

    store.before = fails
    await rights.refresh_if_old()
    count = len(tried)
    assert count
    await rights.refresh_if_old()
    assert len(tried) == count, "each request would wait for a store that fails"
    assert not rights.allows(ALICE, "Read", "topic", "t")
    store.before = lambda _operation, _key: None
    await table.fresh()
    clock.pass_ms(RENEWED_MS + 1)
    await other.engine.access_table.decide(AddAcls(acls=(READ,)))
    await rights.refresh_if_old()
    assert rights.allows(ALICE, "Read", "topic", "t")


async def test_what_an_old_state_lacks_refuses_no_one_for_good() -> None:
    """The right may have been given since: 503 while that can't be known, and the refusal once it is."""
    clock, store = ManualClock(), FaultyStore()
    gateway = secured(store, clock)
    table, rights = gateway.engine.access_table, gateway.engine.rights
    clock.pass_ms(1)
    await table.decide(AddAcls(acls=(READ,)))
    await table.fresh()
    with pytest.raises(Unauthorized):
        rights.require(ALICE, "Write", "topic", "t")
    store.before = down
    clock.pass_ms(RENEWED_MS + 1)
    await rights.refresh_if_old()
    with pytest.raises(BackOff):
        rights.require(ALICE, "Write", "topic", "t")
    rights.require(ALICE, "Read", "topic", "t")
    store.before = lambda _operation, _key: None
    await table.fresh()
    with pytest.raises(Unauthorized):
        rights.require(ALICE, "Write", "topic", "t")


async def test_a_gateway_that_stood_still_amid_its_look_looks_once_more() -> None:
    """The first look began before it stood still, and fails or brings what was then. Neither is what is."""
    for fails in (True, False):
        clock, store = ManualClock(), FaultyStore()
        one, other = secured(store, clock), secured(FaultyStore(store.objects), clock)
        rights = one.engine.rights
        clock.pass_ms(1)
        await one.engine.access_table.fresh()
        clock.pass_ms(RENEWED_MS + 1)
        stood_still: list[bool] = []

        def stands_still(
            operation: str,
            key: str,
            stood_still: list[bool] = stood_still,
            clock: ManualClock = clock,
            fails: bool = fails,
        ) -> None:
            if not stood_still:
                stood_still.append(True)
                clock.pass_ms(60_000)
                if fails:
                    down(operation, key)

        await other.engine.access_table.decide(AddAcls(acls=(READ,)))
        store.before = stands_still
        await rights.refresh_if_old()
        assert rights.is_recent
        assert rights.allows(ALICE, "Read", "topic", "t")


async def test_no_look_waits_while_the_table_is_rewritten() -> None:
    """A rewrite may take as long as the store likes; changes that others make are seen meanwhile."""
    store, goes_on = FaultyStore(), threading.Event()
    one, other = secured(store, table_files_min=5), secured(FaultyStore(store.objects))
    began = threading.Event()

    def holds_up(operation: str, _key: str) -> None:
        if operation.startswith("put"):
            began.set()
            goes_on.wait(30)

    store.before = holds_up
    for index in range(6):
        await other.engine.access_table.decide(AddAcls(acls=(READ._replace(resource=f"t{index}"),)))
    watch = AccessWatch(one.engine.access_table, WaiterSlots(1), pause_ms=5)
    await watch.start()
    try:
        assert await asyncio.to_thread(began.wait, 30)
        await other.engine.access_table.decide(AddAcls(acls=(READ,)))
        async with asyncio.timeout(10):
            while not one.engine.rights.allows(ALICE, "Read", "topic", "t"):  # noqa: ASYNC110 - nothing tells of looks
                await asyncio.sleep(0.01)
    finally:
        goes_on.set()
        watch.stop()
