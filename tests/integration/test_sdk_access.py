"""The SDK against a gateway with ``auth=on``: rights, and tokens that are rotated and revoked under load."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.support.secured import Secured, secured_gateway
from tidelog import Acl, Admin, Consumer, Producer, RecordMetadata
from tidelog.errors import DeliveryFailed, Unauthenticated, Unauthorized
from tidelog.types.access import Operation


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_gateway(tmp_path_factory.mktemp("secured")) as (made, _):
        yield made


@pytest.fixture
def administrator(secured: Secured) -> Iterator[Admin]:
    token = str(secured.admin.http.headers["Authorization"]).removeprefix("Bearer ")
    with Admin(secured.url, token=token) as admin:
        yield admin


def allow(admin: Admin, user: str, topic: str, *operations: Operation) -> None:
    """These on the topic, and reading in the group ``g``."""
    of_topic = [Acl(principal=user, operation=each, resource_type="topic", resource=topic) for each in operations]
    admin.add_acls([*of_topic, Acl(principal=user, operation="Read", resource_type="group", resource="g")])


def test_what_is_not_allowed_is_raised_by_its_name(secured: Secured, administrator: Admin) -> None:
    """Producer, consumer, group and administration: each raises ``Unauthorized`` with the right that is missing."""
    administrator.create_topic("denied")
    token = administrator.create_token("User:none").token
    with Producer(secured.url, token=token) as producer:
        error = producer.send("denied", b"v").exception(30)
        assert isinstance(error, Unauthorized)
        assert error.resource == "denied"
        with pytest.raises(DeliveryFailed):
            producer.flush()
    for group in (None, "g"):
        with (
            Consumer("denied", bootstrap_servers=secured.url, token=token, group=group) as consumer,
            pytest.raises(Unauthorized),
        ):
            consumer.poll(5_000)
    with Admin(secured.url, token=token) as admin:
        assert admin.whoami().principal == "User:none"
        assert admin.list_topics() == []
        with pytest.raises(Unauthorized) as raised:
            admin.create_token("User:none")
        assert (raised.value.operation, raised.value.resource_type) == ("Alter", "cluster")
        with pytest.raises(Unauthorized):
            admin.create_topic("mine")


def test_rights_on_the_way(secured: Secured, administrator: Admin) -> None:
    """What is allowed works at once where it was answered; a consumer that loses its right raises."""
    administrator.create_topic("moving")
    token = administrator.create_token("User:moving").token
    allow(administrator, "User:moving", "moving", "Read", "Write")
    with (
        Producer(secured.url, token=token) as producer,
        Consumer("moving", bootstrap_servers=secured.url, token=token) as consumer,
    ):
        producer.send("moving", b"first").result(30)
        assert [record.value for record in consumer.poll(10_000)] == [b"first"]
        administrator.delete_acls(principal="User:moving", operation="Read", resource_type="topic")
        deadline = time.monotonic() + 10
        with pytest.raises(Unauthorized):
            _poll_until(consumer, deadline)
        producer.send("moving", b"second").result(30)


def _poll_until(consumer: Consumer, deadline: float) -> None:
    while time.monotonic() < deadline:
        consumer.poll(500)


@pytest.mark.parametrize("overlap_ms", [60_000, 0])
def test_rotation_under_load(secured: Secured, administrator: Admin, tmp_path: Path, overlap_ms: int) -> None:
    """A producer and a member of a group by one file whose token is rotated: nothing fails, nothing is lost or doubled."""
    topic = f"rotated-{overlap_ms}"
    administrator.create_topic(topic)
    user = f"User:rotated-{overlap_ms}"
    made = administrator.create_token(user)
    allow(administrator, user, topic, "Read", "Write")
    file = tmp_path / "token"
    file.write_text(made.token)
    futures: list[Future[RecordMetadata]] = []
    seen: list[bytes] = []
    with (
        Producer(secured.url, token_file=file) as producer,
        Consumer(topic, bootstrap_servers=secured.url, token_file=file, group="g") as consumer,
    ):
        until = time.monotonic() + 10
        rotated = False
        while time.monotonic() < until:
            if not rotated and len(futures) > 300:
                token = administrator.rotate_token(made.id, overlap_ms=overlap_ms).token
                replacement = tmp_path / "token.new"
                replacement.write_text(token)
                replacement.replace(file)
                rotated = True
            futures += [producer.send(topic, b"%d" % (len(futures) + more)) for more in range(10)]
            seen += [record.value for record in consumer.poll(50)]
        assert rotated
        assert [future.result(30).offset for future in futures] == list(range(len(futures)))
        while len(seen) < len(futures):
            records = consumer.poll(5_000)
            assert records
            seen += [record.value for record in records]
    assert seen == [b"%d" % number for number in range(len(futures))]


def test_a_revoked_token_is_refused(secured: Secured, administrator: Admin) -> None:
    """``Unauthenticated``, at once where the revocation was answered."""
    made = administrator.create_token("User:gone")
    with Admin(secured.url, token=made.token) as admin:
        assert admin.whoami().token_id == made.id
        administrator.revoke_token(made.id)
        with pytest.raises(Unauthenticated):
            admin.whoami()
    assert made.id not in [each.id for each in administrator.list_tokens("User:gone")]
