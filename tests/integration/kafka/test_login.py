"""The principal of a Kafka client: the same credentials as over HTTP, by SASL or by a certificate."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaClient
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
)
from kafka import KafkaAdminClient

from tests.support.access import bootstrap_file
from tests.support.certificate_authority import Authority
from tests.support.kafka_frames import Closed, Wire, log_in, plain
from tests.support.kafka_gateway import kafka_gateway
from tests.support.kafka_secured import Service

SASL_FAILED, UNSUPPORTED_MECHANISM, ILLEGAL_STATE = 58, 33, 34
TOPIC_DENIED, CLUSTER_DENIED = 29, 31


def test_librdkafka_logs_in_with_a_token_as_password(service: Service, topic: str) -> None:
    """It sees what its principal may describe, and nothing else."""
    _, token = service.user(("Describe", "topic", topic))
    assert set(AdminClient(service.settings(token)).list_topics(timeout=10).topics) == {topic}


def test_librdkafka_logs_in_with_a_jwt(service: Service, topic: str) -> None:
    """By OAUTHBEARER; the principal is the issuer's word."""
    subject = f"jwt-{uuid.uuid4().hex[:8]}"
    service.secured.allow(f"User:{subject}", "Describe", "topic", topic)
    asked: list[str] = []

    def token(_config: str) -> tuple[str, float]:
        asked.append("once")
        return service.issuer.token(sub=subject), time.time() + 300

    settings: dict[str, Any] = {"bootstrap.servers": service.kafka, "security.protocol": "SASL_PLAINTEXT"}
    client = AdminClient(settings | {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": token})
    client.poll(0.1)
    assert set(client.list_topics(timeout=10).topics) == {topic}
    assert asked


def test_kafka_python_and_aiokafka_log_in_with_a_token(service: Service, topic: str) -> None:
    """Two more clients of their own making."""
    _, token = service.user(("Describe", "topic", topic))
    sasl = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "x", "sasl_plain_password": token}
    client = KafkaAdminClient(bootstrap_servers=service.kafka, security_protocol="SASL_PLAINTEXT", **sasl)
    assert client.list_topics() == [topic]
    client.close()
    assert asyncio.run(_topics(service.kafka, sasl)) == {topic}


async def _topics(address: str, sasl: dict[str, str]) -> set[str]:
    client = AIOKafkaClient(bootstrap_servers=address, security_protocol="SASL_PLAINTEXT", **sasl)
    await client.bootstrap()
    try:
        return set((await client.fetch_all_metadata()).topics())
    finally:
        await client.close()


def test_a_wrong_password_is_told_to_clients_as_such(service: Service) -> None:
    """They stop, where a closed connection would have them try for ever."""
    wrong = f"tl_{'a' * 16}_{'b' * 43}"
    errors: list[Any] = []
    client = AdminClient(service.settings(wrong) | {"error_cb": errors.append})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=3)
    client.poll(0.1)
    assert any("valid credential" in str(error) for error in errors)


@pytest.mark.parametrize("name", ["metadata", "produce", "create_topics", "describe_cluster", "find_coordinator"])
def test_a_request_before_the_login_closes_the_connection(service: Service, name: str) -> None:
    """A client that has not proved its principal learns which versions there are, and nothing else."""
    requests: dict[str, Callable[[Wire], Any]] = {
        "metadata": lambda wire: wire.call("metadata", 4, topics=None, allow_auto_topic_creation=False),
        "produce": lambda wire: wire.call("produce", 3, transactional_id=None, acks=-1, timeout=0, topic_data=()),
        "create_topics": lambda wire: wire.call("create_topics", 4, topics=()),
        "describe_cluster": lambda wire: wire.call("describe_cluster", 0, include_cluster_authorized_operations=False),
        "find_coordinator": lambda wire: wire.call("find_coordinator", 0, key="g"),
    }
    with Wire(service.kafka) as wire:
        assert wire.call("api_versions", 0).error_code == 0
        with pytest.raises(Closed):
            requests[name](wire)


@pytest.mark.parametrize("version", range(3))
def test_a_session_lasts_as_long_as_its_credential(service: Service, secured_wire: Wire, version: int) -> None:
    """The client is told when to prove itself again (KIP-368)."""
    expires_at = int(time.time() * 1000) + 60_000
    made = service.secured.token("User:short", expires_at=expires_at)
    answer = log_in(secured_wire, made["token"], version=version)
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    if version:
        assert 30 < answer.session_lifetime.total_seconds() <= 60


def test_a_credential_that_has_ended_closes_the_connection(service: Service) -> None:
    """With the next request; a client that proves itself again goes on, on the same connection."""
    long = service.secured.token("User:renewed")["token"]
    with Wire(service.kafka) as stays, Wire(service.kafka) as goes:
        expires = time.time() + 3
        made = service.secured.token("User:renewed", expires_at=int(expires * 1000))
        for wire in (stays, goes):
            assert log_in(wire, made["token"]).error_code == 0
            assert wire.call("metadata", 4, topics=(), allow_auto_topic_creation=False)
        time.sleep(max(0.0, expires + 0.1 - time.time()))
        assert log_in(stays, long).error_code == 0
        assert stays.call("metadata", 4, topics=(), allow_auto_topic_creation=False)
        with pytest.raises(Closed):
            goes.call("metadata", 4, topics=(), allow_auto_topic_creation=False)


def test_a_revoked_token_closes_the_connection(service: Service, secured_wire: Wire) -> None:
    """A connection does not outlive its token."""
    made = service.secured.token("User:revoked")
    assert log_in(secured_wire, made["token"]).error_code == 0
    assert secured_wire.call("metadata", 4, topics=(), allow_auto_topic_creation=False)
    assert service.secured.admin.http.delete(f"/v1/access/tokens/{made['id']}").status_code == 204
    with pytest.raises(Closed):
        secured_wire.call("metadata", 4, topics=(), allow_auto_topic_creation=False)


def test_a_connection_stays_its_users(service: Service, secured_wire: Wire) -> None:
    """Proving to be another one is refused, as by a broker."""
    _, token = service.user()
    _, other = service.user()
    assert log_in(secured_wire, token).error_code == 0
    assert log_in(secured_wire, other).error_code == SASL_FAILED
    assert log_in(secured_wire, token).error_code == 0


def test_every_wrong_credential_gets_the_same_answer_and_the_third_one_closes(service: Service) -> None:
    """Nothing tells a guess that was nearly right from another."""
    good = service.secured.token("User:guessed")["token"]
    wrong = [b"", b"\0x\0", plain(good[:-1] + ("A" if good[-1] != "A" else "B")), plain("nonsense"), plain(good) * 2]
    said = set()
    for message in wrong:
        with Wire(service.kafka) as wire:
            assert wire.call("sasl_handshake", 1, mechanism="PLAIN").error_code == 0
            started = time.monotonic()
            answer = wire.call("sasl_authenticate", 2, auth_bytes=message)
            said.add((answer.error_code, answer.error_message))
            assert time.monotonic() - started >= 0.1
    assert len(said) == 1
    with Wire(service.kafka) as wire:
        for _ in range(2):
            assert log_in(wire, "nonsense").error_code == SASL_FAILED
        with pytest.raises(Closed):
            log_in(wire, "nonsense")


def test_the_order_of_a_login_is_kept(service: Service, secured_wire: Wire) -> None:
    """A mechanism comes before its message, and is one of two."""
    assert secured_wire.call("sasl_authenticate", 1, auth_bytes=plain("x")).error_code == ILLEGAL_STATE
    answer = secured_wire.call("sasl_handshake", 1, mechanism="SCRAM-SHA-256")
    assert (answer.error_code, answer.mechanisms) == (UNSUPPORTED_MECHANISM, ("PLAIN", "OAUTHBEARER"))
    assert secured_wire.call("sasl_authenticate", 1, auth_bytes=plain("x")).error_code == ILLEGAL_STATE


def test_a_client_certificate_is_a_principal(tmp_path: Path, authority: Authority) -> None:
    """Over TLS its URI is the client's principal, without SASL; a token over TLS works as well."""
    cert, key = authority.issue()
    path, bootstrap = bootstrap_file(tmp_path)
    tls_files = ("--tls-cert", cert, "--tls-key", key, "--tls-client-ca", authority.ca_file)
    settings = ("--auth", "on", "--bootstrap-token-file", str(path), *tls_files)
    client_cert, client_key = authority.issue("URI:billing")
    with kafka_gateway(tmp_path / "store", tmp_path / "log", *settings, trust=authority.trust()) as gateway:
        http = gateway.http
        http.headers["authorization"] = f"Bearer {bootstrap}"
        assert http.post("/v1/topics", json={"name": "certified"}).status_code == 201
        acl = {"principal": "User:billing", "operation": "Describe", "resource_type": "topic", "resource": "certified"}
        assert http.post("/v1/access/acls", json={"acls": [acl]}).status_code == 201
        tls: dict[str, Any] = {
            "bootstrap.servers": gateway.kafka,
            "security.protocol": "SSL",
            "ssl.ca.location": authority.ca_file,
        }
        shown = {"ssl.certificate.location": client_cert, "ssl.key.location": client_key}
        assert set(AdminClient(tls | shown).list_topics(timeout=10).topics) == {"certified"}
        sasl = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "x",
            "sasl.password": bootstrap,
        }
        assert "certified" in AdminClient(tls | sasl).list_topics(timeout=10).topics
        with Wire(gateway.kafka, authority.trust()) as nobody, pytest.raises(Closed):
            nobody.call("metadata", 4, topics=(), allow_auto_topic_creation=False)
