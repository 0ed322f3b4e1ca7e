"""What one gateway proves to another, and what is refused: forged, replayed, redirected, altered, expired hops."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.access.caller import Caller
from gateway.access.rights import OPEN
from gateway.cluster.keys import ClusterKeys
from gateway.cluster.peers import Peer, Peers
from gateway.forwarding.arrival import CALLER_ENDED, ArrivalMiddleware, hop_of, is_refusal
from gateway.forwarding.hop import HEADER, HOP_MS, WINDOW, Hop, HopRefused, Hops, SealedRequest
from gateway.problem import problem_bytes
from log_format.errors import RequestRefused
from tests.support.clocks import ManualClock

KEYS = ClusterKeys("cluster", (b"n" * 32, b"o" * 32), is_from_file=True)
RECEIVER = Peer("b", "http://b:1", "b1")
REQUEST = SealedRequest(
    method="POST",
    target=b"/v1/topics/t/records?acks=all",
    request_id="r",
    headers=[(b"content-type", b"application/json"), (b"tidelog-producer-sequence", b"7")],
)
BODY = b'{"records":[]}'
ALICE = Caller("User:älice", ("Group:a",), "token", "t1", 5)


def hops(instance: str, clock: ManualClock | None = None, keys: ClusterKeys | None = KEYS, **more: Any) -> Hops:
    peers = Peers(clock or ManualClock())
    peers.keys = keys
    return Hops(peers, clock or ManualClock(), instance=instance, **more)


def sent(sender: Hops, peer: Peer = RECEIVER, **more: Any) -> bytes:
    """The header that goes along with ``REQUEST``."""
    head = sender.head(peer, REQUEST, BODY, **more)
    assert head is not None
    return dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])[HEADER]


def test_a_hop_says_for_whom() -> None:
    """The receiver learns the principal, and how often the request was passed on."""
    hop = hops("b1").check([sent(hops("a1"), passed=1, caller=ALICE)], REQUEST)
    assert (hop.sender, hop.passed, hop.caller) == ("a1", 1, ALICE)


def test_keys_change_without_a_gap() -> None:
    """Both keys of the file are accepted; the hop names the one that signed it."""
    former = ClusterKeys("cluster", (b"o" * 32,), is_from_file=True)
    assert hops("b1").check([sent(hops("a1", keys=former))], REQUEST).key == former.signing_id != KEYS.signing_id


@pytest.mark.parametrize(
    "altered",
    [
        replace(REQUEST, method="PUT"),
        replace(REQUEST, target=b"/v1/topics/u/records?acks=all"),
        replace(REQUEST, target=b"/v1/topics/t/records"),
        replace(REQUEST, request_id="other"),
        replace(REQUEST, headers=REQUEST.headers[:1]),
        replace(REQUEST, headers=[REQUEST.headers[0], (b"tidelog-producer-sequence", b"8")]),
        replace(REQUEST, headers=[*REQUEST.headers, (b"tidelog-transaction", b"x")]),
    ],
)
def test_an_altered_request_is_refused(altered: SealedRequest) -> None:
    """Method, target, request id and every header that crosses belong to the hop."""
    with pytest.raises(HopRefused, match="not made for this request"):
        hops("b1").check([sent(hops("a1"))], altered)


def with_payload(header: bytes, **members: Any) -> bytes:
    text, _, mac = header.partition(b".")
    payload = json.loads(b64decode(text)) | members
    return b64encode(json.dumps(payload).encode()) + b"." + mac


FORGERIES: dict[str, Callable[[bytes], list[bytes]]] = {
    "nothing": lambda _: [b""],
    "no MAC": lambda header: [header.partition(b".")[0]],
    "an empty MAC": lambda header: [header.partition(b".")[0] + b"."],
    "no text": lambda header: [b"\xff" + header],
    "a MAC of bytes": lambda header: [header[:-1] + b"\xff"],
    "another MAC": lambda header: [header[:-1] + (b"0" if header[-1:] != b"0" else b"1")],
    "another principal": lambda header: [
        with_payload(header, caller={"principal": "User:root", "authentication": "token"})
    ],
    "a later expiry": lambda header: [with_payload(header, expires_at=2**50)],
    "another body": lambda header: [with_payload(header, body="0" * 64)],
    "another key": lambda header: [with_payload(header, key="00000000")],
    "twice": lambda header: [header, header],
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_hop_is_refused(forgery: Callable[[bytes], list[bytes]]) -> None:
    """Nothing of it can be changed, and none made, without the key."""
    with pytest.raises(HopRefused):
        hops("b1").check(forgery(sent(hops("a1"))), REQUEST)


@pytest.mark.parametrize("keys", [ClusterKeys("cluster", (b"x" * 32,)), ClusterKeys("other", KEYS.keys)])
def test_another_clusters_hop_is_refused(keys: ClusterKeys) -> None:
    """By its key, or by its cluster's id where the key is the same."""
    with pytest.raises(HopRefused):
        hops("b1").check([sent(hops("a1", keys=keys))], REQUEST)


def test_a_redirected_hop_is_refused() -> None:
    """Another gateway refuses it, and so does its receiver once it has started anew: it forgot which numbers have come."""
    header = sent(hops("a1"))
    for other in ("c1", "b2"):
        with pytest.raises(HopRefused, match="another gateway"):
            hops(other).check([header], REQUEST)


def test_a_hop_expires() -> None:
    """By the sender's clock. One that holds for longer than a clock may be wrong is refused, too."""
    clock = ManualClock()
    sender, receiver = hops("a1"), hops("b1", clock)
    header, second = sent(sender), sent(sender)
    clock.pass_ms(HOP_MS - 1)
    receiver.check([header], REQUEST)
    clock.pass_ms(1)
    with pytest.raises(HopRefused, match="expired"):
        receiver.check([second], REQUEST)
    ahead = ManualClock()
    ahead.pass_ms(HOP_MS + 1)
    with pytest.raises(HopRefused, match="expired"):
        hops("b1").check([sent(hops("a1", ahead))], REQUEST)


def test_a_replayed_hop_is_refused() -> None:
    """Each counts once, in whatever order they come, and those far behind the newest not at all."""
    sender, receiver = hops("a1"), hops("b1")
    headers = [sent(sender) for _ in range(5)]
    for index in (0, 3, 1, 4, 2):
        receiver.check([headers[index]], REQUEST)
    for header in headers:
        with pytest.raises(HopRefused, match="before"):
            receiver.check([header], REQUEST)
    missed = sent(sender)
    for _ in range(WINDOW - 1):
        sender._sent["b1"] += 1
    receiver.check([sent(sender)], REQUEST)
    with pytest.raises(HopRefused, match="before"):
        receiver.check([missed], REQUEST)


def test_numbers_are_counted_for_each_receiver() -> None:
    """So a receiver's window does not move by what goes to others."""
    sender, receiver = hops("a1"), hops("b1")
    sent(sender)
    for _ in range(3):
        sent(sender, Peer("c", "http://c", "c1"))
    assert receiver.check([sent(sender)], REQUEST).number == 1


def test_what_is_remembered_is_bounded() -> None:
    """Senders are forgotten once all of their hops have expired; until then more than the bound are refused."""
    clock = ManualClock()
    receiver = hops("b1", clock)
    for number in range(1_024):
        receiver.check([sent(hops(f"a{number}", clock))], REQUEST)
    with pytest.raises(HopRefused, match="too many"):
        receiver.check([sent(hops("one more", clock))], REQUEST)
    clock.pass_ms(HOP_MS)
    receiver.check([sent(hops("one more", clock))], REQUEST)
    assert len(receiver._windows) == 1


def test_a_key_that_readers_of_the_store_know_does_not_count_where_principals_travel() -> None:
    """A reader of the store would be any principal with it."""
    derived = ClusterKeys("cluster", (b"n" * 32,))
    assert hops("a1", keys=derived, needs_key_file=True).head(RECEIVER, REQUEST, BODY) is None
    with pytest.raises(HopRefused):
        hops("b1", keys=derived, needs_key_file=True).check([sent(hops("a1", keys=derived))], REQUEST)
    hops("b1", needs_key_file=True).check([sent(hops("a1", needs_key_file=True))], REQUEST)


async def arrive(header: bytes, body: list[bytes]) -> tuple[Hop | None, bytes, Any]:
    """What the application behind the middleware gets: the hop, the body, the headers."""
    pieces = [{"type": "http.request", "body": piece, "more_body": True} for piece in body]
    pieces[-1]["more_body"] = False
    target, _, query = REQUEST.target.partition(b"?")
    headers = [(b"host", b"b"), (HEADER, header), *REQUEST.headers, (b"authorization", b"Bearer x")]
    scope: Any = {
        "type": "http", "method": "POST", "raw_path": target, "query_string": query, "headers": headers,
        "tidelog.request_id": "r",
    }  # fmt: skip
    read = b""

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        nonlocal read
        more = True
        while more:
            message = await receive()
            read += message["body"]
            more = message["more_body"]

    async def receive() -> Any:
        return pieces.pop(0)

    absent: Any = None
    await ArrivalMiddleware(app, hops("b1"), OPEN, app)(scope, receive, absent)
    return hop_of(scope), read, scope["headers"]


async def test_what_arrives_whole() -> None:
    """The header is gone, the hop is known, the body is what was sent."""
    hop, read, headers = await arrive(sent(hops("a1"), caller=ALICE), [BODY[:3], b"", BODY[3:]])
    assert (hop and hop.caller, read) == (ALICE, BODY)
    assert HEADER not in dict(headers)


@pytest.mark.parametrize("body", [[BODY + b" "], [BODY[:-1]], [b""], [BODY[:3], b"x", BODY[3:]]])
async def test_another_body_is_refused_before_its_end(body: list[bytes]) -> None:
    """With its last piece: nothing acts on a body before that."""
    with pytest.raises(RequestRefused, match="another body") as refusal:
        await arrive(sent(hops("a1")), body)
    assert is_refusal(400, [], problem_bytes(refusal.value))


async def test_a_hop_that_does_not_hold_stays_a_clients_header() -> None:
    """It names no caller, and is left to be refused like any header that is not supported, with the reason."""
    hop, _, headers = await arrive(b"forged", [BODY])
    assert hop is None
    assert dict(headers)[HEADER] == b"forged"


@pytest.mark.parametrize(
    ("header", "taken_by"),
    [(sent(hops("a1")), "messages"), (sent(hops("a1"), passed=1), "app"), (b"forged", "app")],
    ids=["its own message", "passed on", "forged"],
)
async def test_only_a_gateways_own_message_goes_past_what_clients_meet(header: bytes, taken_by: str) -> None:
    """What is passed on, and what no gateway has signed, is judged as every request."""
    took: list[str] = []

    def taking(name: str) -> Any:
        async def app(*_: Any) -> None:
            took.append(name)

        return app

    scope: Any = {
        "type": "http",
        "method": "POST",
        "query_string": b"",
        "headers": [(HEADER, header), *REQUEST.headers],
    }
    scope |= {"raw_path": REQUEST.target, "tidelog.request_id": "r"}
    absent: Any = None
    await ArrivalMiddleware(taking("app"), hops("b1"), OPEN, taking("messages"))(scope, absent, absent)
    assert took == [taken_by]


def test_a_refusal_is_known_again() -> None:
    """The sender tells it from every other answer."""
    assert is_refusal(401, [], b"")
    assert is_refusal(400, [], b'{"errors":[{"where":"Tidelog-Hop"}]}')
    assert not is_refusal(401, [(CALLER_ENDED, b"1")], b"")
    assert not is_refusal(200, [], b'{"errors":[{"where":"Tidelog-Hop"}]}')
    for other in (b"", b"{", b"[]", b"{}", b'{"errors":[]}', b'{"errors":[{"where":"/records"}]}', b'{"errors":null}'):
        assert not is_refusal(400, [], other)
