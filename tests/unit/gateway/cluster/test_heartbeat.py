"""What counts as a heartbeat: plain values, signed by a gateway of the same cluster, of late."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from msgspec.structs import replace as replace_struct

from gateway.cluster.heartbeat import (
    CLOCK_ERROR_MS_MAX,
    HEARTBEAT_BYTES_MAX,
    Heartbeat,
    decode_heartbeat,
    encode_heartbeat,
    heartbeat_key,
)
from gateway.cluster.keys import HEARTBEAT, ClusterKeys, cluster_keys
from gateway.quotas.sharing import DEMANDS_MAX, WHOLE, demand_name
from log_format.cluster.identity import Cluster

NOW_MS = 1_700_000_000_000
CLUSTER = Cluster("c", b"secret")
KEYS = cluster_keys(CLUSTER, None)
OLD, NEW = b"o" * 32, b"n" * 32


def beat(*, url: str = "http://h:1") -> Heartbeat:
    return Heartbeat(id="a", instance="i", beat=1, url=url, started_at=0, version="1", owned_topics=0, issued_at=NOW_MS)


def read(data: bytes, *, name: str = "a", keys: ClusterKeys = KEYS, now_ms: int = NOW_MS) -> Heartbeat | None:
    return decode_heartbeat(heartbeat_key(name), data, keys, now_ms)


@pytest.mark.parametrize(
    "url",
    [
        "http://h:1/path",
        "http://user@h",
        "http://h:1?x",
        "http://h#x",
        "file:///etc",
        "ftp://h",
        "http://h:1\r\nx: y",
        "http://",
        "http://h:123456",
        "http://[::1",
    ],
)
def test_a_heartbeat_can_name_nothing_but_a_host_and_a_port(url: str) -> None:
    """A writer of the store can't make a gateway ask for anything else."""
    assert read(encode_heartbeat(beat(url=url), KEYS)) is None


@pytest.mark.parametrize("url", ["http://h", "https://h.example:8443", "http://[::1]:80/", "http://10.0.0.1:80"])
def test_heartbeats_round_trip(url: str) -> None:
    """What a gateway writes every other reads."""
    heartbeat = beat(url=url)
    assert read(encode_heartbeat(heartbeat, KEYS)) == heartbeat


def test_a_release_before_journals_does_not_take_them() -> None:
    """Its heartbeat has no such member; one that has members of a later release is read all the same."""
    told = json.loads(encode_heartbeat(replace_struct(beat(), journals=True), KEYS))
    assert told["journals"] is True
    for members, journals in (({}, True), ({"journals": None}, False), ({"later": [1]}, True)):
        known = {name: value for name, value in {**told, **members}.items() if value is not None and name != "mac"}
        data = json.dumps(known, separators=(",", ":")).encode()
        signed = data[:-1] + b',"mac":"' + KEYS.sign(HEARTBEAT, data).encode() + b'"}'
        heartbeat = read(signed)
        assert heartbeat is not None
        assert heartbeat.journals is journals


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"id":"a"}', b" " * 5_000])
def test_what_is_no_heartbeat_is_passed_over(data: bytes) -> None:
    """Nor is one that lies under another's name."""
    assert read(data) is None
    assert read(encode_heartbeat(beat(), KEYS), name="b") is None


def test_what_is_not_signed_is_passed_over() -> None:
    """Without a MAC, with that of another key, of another cluster, of other bytes."""
    signed = encode_heartbeat(beat(), KEYS)
    members = json.loads(signed)
    unsigned = json.dumps({name: value for name, value in members.items() if name != "mac"})
    assert read(signed) is not None
    forged = [
        unsigned.encode(),
        json.dumps(members | {"mac": "0" * 64}, separators=(",", ":")).encode(),
        signed.replace(b"http://h:1", b"http://h:2"),
        signed + b" ",
        encode_heartbeat(beat(), cluster_keys(CLUSTER, (NEW,))),
        encode_heartbeat(beat(), cluster_keys(Cluster("other", b"secret"), None)),
    ]
    assert [read(data) for data in forged] == [None] * len(forged)


def test_members_of_a_later_release_are_no_forgery() -> None:
    """What a later release adds is signed with the rest, and ignored."""
    later = b'{"added":1,' + encode_heartbeat(beat(), KEYS)[1:-74] + b"}"
    assert read(later[:-1] + b',"mac":"' + KEYS.sign(HEARTBEAT, later).encode() + b'"}') == beat()


def test_a_recorded_heartbeat_is_soon_worth_nothing() -> None:
    """Put there again after a quarter of an hour, or by a gateway whose clock is further off than S3 allows."""
    data = encode_heartbeat(beat(), KEYS)
    for off_ms, is_one in [(CLOCK_ERROR_MS_MAX, True), (CLOCK_ERROR_MS_MAX + 1, False)]:
        assert [read(data, now_ms=NOW_MS + sign * off_ms) is not None for sign in (1, -1)] == [is_one] * 2


def test_keys_change_without_a_gap() -> None:
    """Old, both with either one first, new: each neighbour in this row of steps reads the other's heartbeats."""
    steps = [replace(KEYS, keys=keys) for keys in [(OLD,), (OLD, NEW), (NEW, OLD), (NEW,)]]
    for one, other in pairwise(steps):
        assert (
            read(encode_heartbeat(beat(), one), keys=other) == read(encode_heartbeat(beat(), other), keys=one) == beat()
        )
    assert read(encode_heartbeat(beat(), steps[0]), keys=steps[-1]) is None


def test_the_largest_demands_fit_and_a_release_without_them_has_none() -> None:
    """However long the URL is; a peer that says nothing of quotas is asked for nothing."""
    demands = {demand_name(f"User:{number}", "requests_per_s"): WHOLE for number in range(DEMANDS_MAX)}
    full = replace_struct(beat(url="http://" + "h" * 253 + ":65535"), demands=demands, version="1" * 64)
    assert len(encode_heartbeat(full, KEYS)) <= HEARTBEAT_BYTES_MAX
    assert read(encode_heartbeat(full, KEYS)) == full
    told = json.loads(encode_heartbeat(beat(), KEYS))
    del told["demands"], told["mac"]
    data = json.dumps(told).encode()
    signed = data[:-1] + b',"mac":"' + KEYS.sign(HEARTBEAT, data).encode() + b'"}'
    older = read(signed)
    assert older is not None
    assert older.demands == {}


@pytest.mark.parametrize(
    "demands", [{"x": 1}, {"0" * 16: -1}, {"0" * 16: WHOLE + 1}, {f"{n:016x}": 1 for n in range(65)}]
)
def test_demands_out_of_bounds_are_no_heartbeat(demands: dict[str, int]) -> None:
    """A peer can't claim more than a quota, nor fill another's memory."""
    assert read(encode_heartbeat(replace_struct(beat(), demands=demands), KEYS)) is None
