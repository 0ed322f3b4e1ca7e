"""What a writer of ``system/gateways/`` can do to the gateways of a store: nothing but hide what it deletes."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gateway.cluster.membership import (
    BEATS_PER_LEASE,
    LIST_BEATS,
    LONELY_BEATS,
    HeartbeatSettings,
    Identity,
    Membership,
)
from gateway.cluster.peers import Peers
from gateway.quotas.limits import REQUESTS
from gateway.quotas.quotas import Quotas
from gateway.quotas.sharing import QuotaSharing, demand_name
from log_format.clock import Clock, SystemClock
from log_format.errors import StoreError
from log_format.store import ObjectInfo
from log_format.stores.memory import MemoryStore

BEAT_MS = 100
FORGED = 300
HEARTBEAT_BYTES_MAX = 4096


class WatchedStore(MemoryStore):
    """Notes the largest object that is read of ``system/gateways/``, and how often any is."""

    largest_bytes = 0
    read_count = 0
    list_count = 0

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self.list_count += prefix == "system/gateways/"
        return super().list(prefix, start_after=start_after)

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        return self._noted(key, super().get(key, bytes_max=bytes_max))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._noted(key, super().get_range(key, start, end))

    def _noted(self, key: str, data: bytes) -> bytes:
        if key.startswith("system/gateways/"):
            self.largest_bytes = max(self.largest_bytes, len(data))
            self.read_count += 1
        return data


class LeaseWithoutEnd(SystemClock):
    """No time passes, so that no lease ends, however slow the machine is."""

    def monotonic_ms(self) -> int:
        return 0


def forged(name: str, number: int = 1) -> bytes:
    """As an earlier release wrote it, and as any program can."""
    return json.dumps(
        {"id": name, "instance": "x", "beat": number, "url": "http://127.0.0.1:1", "started_at": 0, "version": "1",
         "owned_topics": 0, "issued_at": time.time_ns() // 1_000_000}
    ).encode()  # fmt: skip


@pytest.fixture
def join() -> Iterator[Callable[..., Membership]]:
    """Make a gateway's membership; their threads end with the test."""
    with ExitStack() as ended:

        def joined(
            store: MemoryStore,
            name: str,
            clock: Clock | None = None,
            zone: str | None = None,
            quotas: Quotas | None = None,
            **more: Any,
        ) -> Membership:
            clock = clock or SystemClock()
            membership = Membership(
                store,
                Peers(clock, zone),
                Identity(name, "http://not-yet-known:1", secrets.token_hex(8), 0),
                HeartbeatSettings(BEAT_MS, **more),
                owned_topic_count=lambda: 0,
                clock=clock,
                registry=CollectorRegistry(),
                quotas=quotas,
            )
            membership.start(f"http://{name}:1")
            ended.callback(membership._thread.shutdown)
            return membership

        yield joined


def urls(membership: Membership) -> dict[str, str]:
    return {name: peer.url for name, peer in membership._peers.candidates().items()}


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for happens in threads and in the store
        await asyncio.sleep(0.01)


def beat_of(store: MemoryStore, name: str) -> int:
    """How often the gateway has beaten."""
    with suppress(StoreError):
        return int(json.loads(MemoryStore.get(store, f"system/gateways/{name}.json"))["beat"])
    return 0


async def beats(store: MemoryStore, name: str, count: int) -> None:
    """Return when the gateway has written ``count`` more heartbeats."""
    last = beat_of(store, name) + count
    await until(lambda: beat_of(store, name) >= last)


async def test_forged_heartbeats_neither_count_nor_hide_anybody(join: Callable[..., Membership]) -> None:
    """Two gateways find each other, and no other, among 300 foreign objects.

    Their names sort before and behind those of the two gateways, and one has 8 MiB. The gateways read no more of any object
    than a heartbeat has, and an unchanged one only once.
    """
    store = WatchedStore("forged")
    names = [f"{letter}{number:03d}" for letter in "az" for number in range(FORGED // 2)]
    for name in names:
        store.put(f"system/gateways/{name}.json", forged(name))
    store.put("system/gateways/large.json", b" " * (8 << 20))
    one, other = join(store, "m-one"), join(store, "m-other")
    await until(lambda: bool(one._peers.candidates()) and bool(other._peers.candidates()))
    await beats(store, "m-one", 8)
    assert urls(one) == {"m-other": "http://m-other:1"}
    assert urls(other) == {"m-one": "http://m-one:1"}
    assert store.largest_bytes <= HEARTBEAT_BYTES_MAX + 1
    read_before = store.read_count
    await beats(store, "m-one", 3)
    assert store.read_count - read_before < 30
    await one.leave()
    await other.leave()


async def test_a_heartbeat_that_is_overwritten_is_not_lost_at_once(join: Callable[..., Membership]) -> None:
    """Junk under a live gateway's name, between two of its beats: it is neither believed nor taken for the gateway's leave."""
    store = WatchedStore("overwritten")
    one, other = join(store, "one", LeaseWithoutEnd()), join(store, "other")
    await until(lambda: bool(one._peers.candidates()))
    for number in range(20):
        store.put("system/gateways/other.json", forged("other", number) if number % 2 else b"junk")
        await asyncio.sleep(BEAT_MS / 1000 / 4)
        assert urls(one) == {"other": "http://other:1"}
    await one.leave()
    await other.leave()


async def test_litter_is_removed(join: Callable[..., Membership]) -> None:
    """What an older release's gateway left when it was killed goes after a while, and so does anything else of that name's shape.
    A gateway that still beats stays, and so does what has another shape."""
    store = WatchedStore("litter")
    store.put("system/gateways/killed.json", forged("killed"))
    store.put("system/gateways/large.json", b" " * 10_000)
    store.put("system/gateways/notes.txt", b"not ours")
    one, other = (join(store, name, leases_until_abandoned=1) for name in ("one", "other"))
    await until(lambda: bool(one._peers.candidates()))
    await until(lambda: len(list(store.list("system/gateways/"))) == 3)
    assert [info.key for info in store.list("system/gateways/")] == [
        "system/gateways/notes.txt", "system/gateways/one.json", "system/gateways/other.json",
    ]  # fmt: skip
    await one.leave()
    await other.leave()


async def test_a_key_of_their_own_keeps_out_readers_of_the_store(join: Callable[..., Membership]) -> None:
    """A gateway without the key file's key is one of another cluster, whatever it read in the store."""
    store = WatchedStore("keys")
    with_key = {"key_file": (b"k" * 32,)}
    one, other, stranger = join(store, "one", **with_key), join(store, "other", **with_key), join(store, "stranger")
    await until(lambda: bool(one._peers.candidates()) and bool(other._peers.candidates()))
    await beats(store, "stranger", 3)
    await beats(store, "one", 3)
    assert (list(one._peers.candidates()), list(other._peers.candidates()), list(stranger._peers.candidates())) == (
        ["other"],
        ["one"],
        [],
    )
    for each in (one, other, stranger):
        await each.leave()


async def test_gateways_hear_what_the_others_are_asked_for(join: Callable[..., Membership]) -> None:
    """The one that is asked for nothing leaves its part of a quota to the other, within a few beats."""
    store, clock = WatchedStore("demands"), SystemClock()
    limits = {REQUESTS: 1_000_000}

    def quotas() -> Quotas:
        return Quotas({"User:a": limits}.get, QuotaSharing(old_after_ms=60_000), clock=clock)

    busy, idle = quotas(), quotas()
    one, other = join(store, "one", quotas=busy), join(store, "other", quotas=idle)
    name = demand_name("User:a", REQUESTS)

    def has_all() -> bool:
        busy.spend("User:a", REQUESTS, 100_000)
        return busy._sharing.part(name, clock.monotonic_ms()) > 0.9

    await until(lambda: bool(one._peers.candidates()))
    assert not has_all()
    await until(has_all)
    await one.leave()
    await other.leave()


async def test_a_gateway_that_is_alone_beats_rarely_until_another_comes(join: Callable[..., Membership]) -> None:
    """One PUT and one LIST in three beats; a newcomer is found within a lease, and taken for alive all the time.

    Time is told by the newcomer's beats: both are as slow as the machine.
    """
    store = MemoryStore("lonely")
    one = join(store, "one")
    await beats(store, "one", LONELY_BEATS + 1)
    began = time.monotonic()
    await beats(store, "one", 4)
    assert time.monotonic() - began >= 2.8 * 3 * BEAT_MS / 1000
    other = join(store, "other")
    await until(lambda: bool(other._peers.candidates()) and bool(one._peers.candidates()))
    assert beat_of(store, "other") <= 2 * BEATS_PER_LEASE
    before = beat_of(store, "other")
    await beats(store, "one", 5)
    assert other._peers.candidates()
    assert beat_of(store, "other") - before <= 10
    await one.leave()
    await other.leave()


async def test_gateways_that_know_each_other_list_rarely(join: Callable[..., Membership]) -> None:
    """A listing costs as much as a heartbeat. A newcomer is found within three beats all the same, and each says its zone."""
    store = WatchedStore("quiet")
    one, other = join(store, "one", zone="z1"), join(store, "other", zone="z2")
    await until(lambda: bool(one._peers.candidates()) and bool(other._peers.candidates()))
    await other.leave()
    await until(lambda: not one._peers.candidates())
    third = join(store, "third", LeaseWithoutEnd(), zone="z3")
    await until(lambda: urls(one).keys() == {"third"})
    await beats(store, "one", LONELY_BEATS + 1)
    before = store.list_count
    await beats(store, "one", 3 * LIST_BEATS)
    assert store.list_count - before <= 2 * (3 + 2), "both gateways list at every third beat"
    fourth = join(store, "fourth", zone="z3")
    await beats(store, "one", LIST_BEATS + 2)
    assert {name: peer.zone for name, peer in one._peers.candidates().items()} == {"third": "z3", "fourth": "z3"}
    assert [(each.id, each.zone) for each in one.heartbeats()] == [("fourth", "z3"), ("one", "z1"), ("third", "z3")]
    for each in (one, third, fourth):
        await each.leave()
