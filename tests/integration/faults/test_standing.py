"""Rights over time: what was let in is judged again, and what was issued stays its owner's."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.access import Client, Right, bootstrap, by
from tests.support.gateway_process import GatewayProcess
from tests.support.waiting import eventually, until

SECONDS_MAX = 5
"""Within so long a stream must end."""
TOKEN_SECONDS = 5
"""How long a token holds that ends by itself: the stream has begun long before, on a busy machine, too."""
READ = Right("Read", "topic", "t")
READS_GROUP = Right("Read", "group", "g")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, str]]:
    """With a topic, and the operator's token."""
    directory: Path = tmp_path_factory.mktemp("standing")
    token, settings = bootstrap(directory)
    started = GatewayProcess(directory / "store", directory / "log", *settings)
    try:
        started.http.headers.update(by(token))
        started.topic("t")
        yield started, token
        assert started.end() == 0, started.log()
    finally:
        if started.is_running():
            started.kill()


@pytest.fixture
def operator(gateway: tuple[GatewayProcess, str], client_of: Callable[..., Client]) -> Client:
    return client_of(gateway[0].url, gateway[1])


@pytest.fixture
def caller(
    gateway: tuple[GatewayProcess, str], client_of: Callable[..., Client], operator: Client
) -> Callable[..., Any]:
    """Make a caller with rights: its client, its principal, its token's id."""
    made: list[str] = []

    def make(name: str, *rights: Right, **more: Any) -> tuple[Client, str, str]:
        principal = f"User:{name}-{time.monotonic_ns()}"
        token_id, token = operator.token(principal, rights, **more)
        made.append(principal)
        return client_of(gateway[0].url, token), principal, token_id

    return make


def wait_for_polls(gateway: tuple[GatewayProcess, str], count: int) -> None:
    """Return when so many requests wait at the gateway."""
    until(lambda: gateway[0].metric("tidelog_waiting_polls") == count)


def end_of(client: Client, begun: threading.Event) -> Json:
    """The last event of a stream that begins now."""
    path = "/v1/topics/t/partitions/0/records?offset=latest"
    with client.http.stream("GET", path, headers={"accept": "text/event-stream"}) as stream:
        assert stream.status_code == 200
        begun.set()
        lines = list(stream.iter_lines())
    return {"event": lines[-3].partition(": ")[2], "data": lines[-2].partition(": ")[2]}


@pytest.mark.parametrize(
    "how", ["the right is taken away", "the token is revoked", "the token ends", "the token is rotated"]
)
def test_an_event_stream_ends_with_its_right(operator: Client, caller: Callable[..., Any], how: str) -> None:
    """``event: end`` with the reason ``unauthorized``, within seconds; and not before."""
    expires = time.monotonic() + TOKEN_SECONDS
    more = {"expires_at": time.time_ns() // 1_000_000 + 1_000 * TOKEN_SECONDS} if how == "the token ends" else {}
    client, principal, token_id = caller("reader", READ, **more)
    found: list[tuple[Json, float]] = []
    begun = threading.Event()
    follower = threading.Thread(target=lambda: found.append((end_of(client, begun), time.monotonic())))
    follower.start()
    try:
        assert begun.wait(10)
        # Another's change leaves it alone.
        operator.allow("User:another", READ)
        time.sleep(1)
        assert not found
        ended = time.monotonic()
        if how == "the right is taken away":
            operator.forbid(principal, READ)
        elif how == "the token is revoked":
            assert operator.http.delete(f"/v1/access/tokens/{token_id}").status_code == 204
        elif how == "the token is rotated":
            overlap = {"overlap_ms": 2_000}
            assert operator.http.post(f"/v1/access/tokens/{token_id}:rotate", json=overlap).status_code == 200
            ended += 2
        else:
            ended = max(ended, expires)
    finally:
        follower.join(20)
    ((last, at),) = found
    assert last == {"event": "end", "data": '{"reason":"unauthorized"}'}
    assert at - ended < SECONDS_MAX


def test_a_long_poll_is_judged_again_before_it_answers(
    operator: Client, caller: Callable[..., Any], gateway: tuple[GatewayProcess, str]
) -> None:
    """The record that ends the wait is for those that may read it then."""
    client, principal, _ = caller("reader", READ)
    polls: dict[str, httpx.Response] = {}

    def poll() -> None:
        path = "/v1/topics/t/partitions/0/records?offset=latest&max_wait_ms=20000"
        polls["one"] = client.http.get(path)

    def poll_many() -> None:
        wanted = [{"topic": "t", "partition": 0, "offset": "latest"}]
        polls["many"] = client.http.post("/v1/fetch", json={"partitions": wanted, "max_wait_ms": 20_000})

    waiting = [threading.Thread(target=one) for one in (poll, poll_many)]
    for one in waiting:
        one.start()
    wait_for_polls(gateway, 2)
    operator.forbid(principal, READ)
    time.sleep(0.5)
    assert not polls
    assert gateway[0].produce("t", "a secret").status_code == 200
    for one in waiting:
        one.join(20)
    assert polls["one"].status_code == 403
    assert polls["one"].json()["resource"] == "t"
    assert polls["many"].status_code == 200
    (part,) = polls["many"].json()["partitions"]
    assert part["error"]["error_code"] == "UNAUTHORIZED"
    assert "a secret" not in polls["one"].text + polls["many"].text

    def audited() -> set[str]:
        records = gateway[0].fetch("__audit", max_records=10_000).json()["records"]
        events = [json.loads(record["value"]) for record in records]
        return {one["route"] for one in events if (one["kind"], one["principal"]) == ("denial", principal)}

    assert eventually(lambda: audited() >= {"/v1/fetch", "/v1/topics/{topic}/partitions/{partition}/records"})


def test_a_poll_of_a_group_says_which_partitions_are_lost(
    operator: Client, caller: Callable[..., Any], gateway: tuple[GatewayProcess, str]
) -> None:
    """Rights lost while it waits, or before: an error in the topic's partitions, and the others are read."""
    gateway[0].topic("other")
    other = Right("Read", "topic", "other")
    client, principal, _ = caller("member", READS_GROUP, READ, other)
    joined = client.http.post(
        "/v1/groups/g/poll", json={"topics": ["t", "other"], "auto_offset_reset": "latest"}
    ).json()
    body = {name: joined[name] for name in ("member_id", "generation")} | {"max_wait_ms": 20_000}
    answers: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(client.http.post("/v1/groups/g/poll", json=body)))
    waiting.start()
    wait_for_polls(gateway, 1)
    operator.forbid(principal, READ)
    assert gateway[0].produce("t", "a secret").status_code == 200
    assert gateway[0].produce("other", "told").status_code == 200
    waiting.join(20)
    answers.append(client.http.post("/v1/groups/g/poll", json=body | {"max_wait_ms": 0}))
    for answer in answers:
        assert answer.status_code == 200
        parts = {part["topic"]: part for part in answer.json()["partitions"]}
        assert parts["t"]["error"]["error_code"] == "UNAUTHORIZED", answer.text
        assert "a secret" not in answer.text
    assert "told" in answers[-1].text
    client.http.delete(f"/v1/groups/g/members/{joined['member_id']}")


def test_a_poll_of_a_group_needs_the_group_until_it_answers(
    operator: Client, caller: Callable[..., Any], gateway: tuple[GatewayProcess, str]
) -> None:
    """The right to the group is judged again, too: without it no partition is told."""
    reads = Right("Read", "group", "lost")
    client, principal, _ = caller("member", reads, READ)
    joined = client.http.post("/v1/groups/lost/poll", json={"topics": ["t"], "auto_offset_reset": "latest"}).json()
    body = {name: joined[name] for name in ("member_id", "generation")} | {"max_wait_ms": 20_000}
    answers: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(client.http.post("/v1/groups/lost/poll", json=body)))
    waiting.start()
    wait_for_polls(gateway, 1)
    operator.forbid(principal, reads)
    assert gateway[0].produce("t", "a secret").status_code == 200
    waiting.join(20)
    (part,) = answers[0].json()["partitions"]
    assert (part["error"]["resource_type"], part["error"]["resource"]) == ("group", "lost")
    assert "a secret" not in answers[0].text


def test_a_revoked_token_ends_polls_and_its_transaction(
    operator: Client, caller: Callable[..., Any], gateway: tuple[GatewayProcess, str]
) -> None:
    """Polls of a partition, of several and of a group that wait are refused, and tell nothing. What was staged never appears."""
    writes = (Right("Write", "topic", "t"), Right("Write", "transactional_id", "revoked"))
    client, _, token_id = caller("reader", READ, Right("Read", "group", "revoked"), *writes)
    begun = client.http.post("/v1/transactions", json={"transactional_id": "revoked", "timeout_ms": 1_000}).json()
    in_it = {"Tidelog-Transaction": begun["transaction_id"]}
    staged = client.http.post("/v1/topics/t/records", json={"records": [{"value": "staged"}]}, headers=in_it)
    assert staged.status_code == 202, staged.text
    joined = client.http.post("/v1/groups/revoked/poll", json={"topics": ["t"], "auto_offset_reset": "latest"}).json()
    member = {name: joined[name] for name in ("member_id", "generation")} | {"max_wait_ms": 20_000}
    many = {"partitions": [{"topic": "t", "partition": 0, "offset": "latest"}], "max_wait_ms": 20_000}
    one = "/v1/topics/t/partitions/0/records"
    polls: dict[str, Callable[[], httpx.Response]] = {
        "one": lambda: client.http.get(f"{one}?offset=latest&max_wait_ms=20000"),
        "many": lambda: client.http.post("/v1/fetch", json=many),
        "group": lambda: client.http.post("/v1/groups/revoked/poll", json=member),
    }
    answers: dict[str, httpx.Response] = {}
    waiting = [threading.Thread(target=lambda n=name: answers.update({n: polls[n]()})) for name in polls]
    for thread in waiting:
        thread.start()
    wait_for_polls(gateway, len(polls))
    assert operator.http.delete(f"/v1/access/tokens/{token_id}").status_code == 204
    assert gateway[0].produce("t", "a secret").status_code == 200
    for thread in waiting:
        thread.join(20)
    refused(answers["one"], 401, "UNAUTHENTICATED")
    for name in ("many", "group"):
        assert answers[name].status_code == 200, answers[name].text
        assert [part["error"]["error_code"] for part in answers[name].json()["partitions"]] == ["UNAUTHENTICATED"]
    assert not [name for name, answer in answers.items() if "a secret" in answer.text]
    refused(client.http.post(f"/v1/transactions/{begun['transaction_id']}:commit"), 401, "UNAUTHENTICATED")
    admin, _, _ = caller("admin", Right("Describe", "transactional_id", "revoked"))
    listed = "/v1/transactions?transactional_id_prefix=revoked"
    assert eventually(lambda: [row["state"] for row in admin.http.get(listed).json()["transactions"]] == ["aborted"])
    assert "staged" not in [value for _, value in gateway[0].read("t")]


def test_an_asker_for_transactions_is_judged_again(operator: Client, caller: Callable[..., Any]) -> None:
    """Its token is revoked while it waits: it is offered nothing any more, and told so."""
    client, _, token_id = caller("asker", Right("Write", "transactional_id", "checked"))
    body = {"transactional_id_prefix": "checked", "max_wait_ms": 3_000}
    answers: list[httpx.Response] = []
    waiting = threading.Thread(target=lambda: answers.append(client.http.post("/v1/transactions:check", json=body)))
    waiting.start()
    time.sleep(1)
    assert operator.http.delete(f"/v1/access/tokens/{token_id}").status_code == 204
    waiting.join(20)
    refused(answers[0], 401, "UNAUTHENTICATED")


def refused(answer: httpx.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["error_code"]) == (status, code), answer.text


def test_ids_are_their_owners(
    operator: Client, caller: Callable[..., Any], gateway: tuple[GatewayProcess, str]
) -> None:
    """Another's producer, transaction and member are answered as ones that were never issued, also to super users; a restart
    changes nothing; whom the cluster is to alter may abort and remove."""
    rights = (Right("Write", "topic", "t"), READ, READS_GROUP, Right("Write", "transactional_id", "x"))
    alice, _, _ = caller("alice", *rights)
    bob, bobs, _ = caller("bob", *rights)
    admin, _, _ = caller("admin", Right("Alter", "cluster", "cluster"))
    plain = alice.http.post("/v1/producers", json={}).json()
    mine = alice.http.post("/v1/transactions", json={"transactional_id": "x"}).json()
    member = alice.http.post("/v1/groups/g/members", json={"topics": ["t"], "session_timeout_ms": 60_000}).json()
    url, transaction = f"/v1/groups/g/members/{member['member_id']}", f"/v1/transactions/{mine['transaction_id']}"
    beat = {"generation": member["generation"]}
    body = {"records": [{"value": "v"}]}

    def stamped(producer: Json, sequence: int) -> Json:
        headers = {"Id": producer["producer_id"], "Epoch": producer["epoch"], "Sequence": sequence}
        return {f"Tidelog-Producer-{name}": str(value) for name, value in headers.items()}

    gateway[0].end()
    gateway[0].start()
    gateway[0].http.headers.update(by(gateway[1]))
    for other in (bob, operator):
        produced = other.http.post("/v1/topics/t/records", json=body, headers=stamped(plain, 0))
        refused(produced, 404, "UNKNOWN_PRODUCER")
        refused(other.http.post("/v1/topics/t/records", json=body, headers=stamped(mine, 0)), 404, "UNKNOWN_PRODUCER")
        refused(
            other.http.post("/v1/records", json={"topics": [{"topic": "t"} | body]}, headers=stamped(plain, 0)), 404,
            "UNKNOWN_PRODUCER",
        )  # fmt: skip
        staged = other.http.post(
            "/v1/topics/t/records", json=body, headers={"Tidelog-Transaction": mine["transaction_id"]}
        )
        refused(staged, 404, "UNKNOWN_TRANSACTION")
        in_it = {"Tidelog-Transaction": mine["transaction_id"]}
        lease = {"topic": "t", "partition": 0, "offset": 0, "lease": "l", "action": "accept"}
        settled = other.http.post("/v1/queues/g:settle", json={"settlements": [lease]}, headers=in_it)
        refused(settled, 404, "UNKNOWN_TRANSACTION")
        refused(other.http.get(transaction), 404, "UNKNOWN_TRANSACTION")
        refused(other.http.post(f"{transaction}:commit"), 404, "UNKNOWN_TRANSACTION")
        refused(other.http.post(f"{url}/heartbeat", json=beat), 404, "UNKNOWN_MEMBER")
        held = {"member_id": member["member_id"], "generation": member["generation"]}
        refused(other.http.post("/v1/groups/g/poll", json=held), 404, "UNKNOWN_MEMBER")
        offsets = {"offsets": [{"topic": "t", "partition": 0, "offset": 0}]} | held
        refused(other.http.put("/v1/groups/g/offsets", json=offsets), 404, "UNKNOWN_MEMBER")
    refused(bob.http.post(f"{transaction}:abort"), 404, "UNKNOWN_TRANSACTION")
    refused(bob.http.delete(url), 404, "UNKNOWN_MEMBER")
    assert alice.http.post("/v1/topics/t/records", json=body, headers=stamped(plain, 0)).status_code == 200
    assert alice.http.get(transaction).json()["state"] == "open"
    assert alice.http.post(f"{url}/heartbeat", json=beat).status_code == 200
    # Bob fences Alice: the next epoch is his.
    epoch = bob.http.post("/v1/producers", json={"transactional_id": "x"}).json()
    assert (epoch["producer_id"], epoch["epoch"]) == (mine["producer_id"], mine["epoch"] + 1)
    refused(alice.http.post("/v1/topics/t/records", json=body, headers=stamped(mine, 0)), 409, "FENCED_PRODUCER")
    refused(alice.http.post("/v1/topics/t/records", json=body, headers=stamped(epoch, 0)), 404, "UNKNOWN_PRODUCER")
    assert bob.http.post("/v1/topics/t/records", json=body, headers=stamped(epoch, 0)).status_code == 200
    begun = alice.http.post("/v1/transactions", json={"transactional_id": "x"}).json()["transaction_id"]
    refused(admin.http.post(f"/v1/transactions/{begun}:commit"), 404, "UNKNOWN_TRANSACTION")
    assert admin.http.post(f"/v1/transactions/{begun}:abort").json() == {"state": "aborted"}
    assert admin.http.delete(url).status_code == 204
    refused(alice.http.post(f"{url}/heartbeat", json=beat), 404, "UNKNOWN_MEMBER")
    # A lost right is told to the owner as such.
    own = bob.http.post("/v1/transactions", json={"transactional_id": "x"}).json()["transaction_id"]
    operator.forbid(bobs, Right("Write", "transactional_id", "x"))
    refused(bob.http.post(f"/v1/transactions/{own}:commit"), 403, "UNAUTHORIZED")
