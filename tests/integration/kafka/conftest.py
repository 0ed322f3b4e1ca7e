"""One gateway for all tests with Kafka's clients."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.support.access import bootstrap_file
from tests.support.issuer import AUDIENCE, running_issuer
from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.kafka_secured import Service
from tests.support.secured import Secured


@pytest.fixture(scope="package")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaGateway]:
    """A gateway with a listener for Kafka's clients, over a store in memory."""
    with kafka_gateway("memory://kafka", tmp_path_factory.mktemp("kafka") / "log") as running:
        yield running


@pytest.fixture
def wire(gateway: KafkaGateway) -> Iterator[Wire]:
    with Wire(gateway.kafka) as made:
        yield made


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("secured")
    path, token = bootstrap_file(directory)
    with running_issuer() as issuer:
        oidc = ("--oidc-issuer", issuer.url, "--oidc-audience", AUDIENCE)
        settings = ("--auth", "on", "--bootstrap-token-file", str(path), "--auto-create-topics", "2", *oidc)
        with kafka_gateway("memory://secured", directory / "log", *settings) as gateway:
            secured = Secured(gateway.url, token)
            yield Service(gateway, secured, issuer)
            secured.close()


@pytest.fixture
def secured_wire(service: Service) -> Iterator[Wire]:
    with Wire(service.kafka) as made:
        yield made


@pytest.fixture
def topic(service: Service) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    answer = service.secured.admin.http.post("/v1/topics", json={"name": name, "config": {"flush.ms": 0}})
    assert answer.status_code == 201
    return name
