"""A topic whose log lost an object, as its owner meets it: by HTTP, the command line, and Kafka's protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.command_runs import Run, runner
from tests.support.gateway_process import running_gateway
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway

TOPICS = ("damaged", "deleted", "by-kafka", "whole")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaGateway]:
    """Four topics of three records; of all but ``whole`` the second record's commit is lost. Started when that had happened."""
    directory = tmp_path_factory.mktemp("damaged")
    with running_gateway(directory / "log", directory / "1.log") as first:
        for topic in TOPICS:
            first.topic(topic, 1)
            for number in range(3):
                records = {"records": [{"value": str(number)}]}
                assert first.http.post(f"/v1/topics/{topic}/partitions/0/records", json=records).status_code == 200
    for topic in TOPICS[:3]:
        (directory / "log" / "topics" / topic / "_delta_log" / f"{2:020d}.json").unlink()
    with kafka_gateway(directory / "log", directory / "2.log") as second:
        yield second


@pytest.fixture
def run(gateway: KafkaGateway) -> Run:
    """Commands against the gateway."""
    return runner(gateway.url)


def test_it_is_listed_repaired_and_read(gateway: KafkaGateway, run: Run) -> None:
    """The list, a table and JSON, and ``doctor`` name it and what to type; that makes it whole but for the lost record."""
    answer = gateway.http.get("/v1/topics").json()
    assert [topic["name"] for topic in answer["topics"]] == ["whole"]
    found = {topic["name"]: topic for topic in answer["damaged"]}
    assert found["damaged"]["error_code"] == "CORRUPT_SEGMENT"
    assert "version 2" in found["damaged"]["detail"]
    listed = run("topic", "list")
    assert "tidelog doctor --store STORE --repair TOPIC" in listed.stderr
    assert any(line.split() == ["damaged", "damaged"] for line in listed.stdout.splitlines())
    assert {topic["name"] for topic in json.loads(run("topic", "list", "--json").stdout)["damaged"]} == set(TOPICS[:3])
    for command in ("topic describe damaged", "consume damaged", "tail damaged --until latest"):
        assert "tidelog doctor --store STORE --repair damaged'" in run(*command.split()).stderr
    doctor = run("doctor", "--store", gateway.store)
    assert doctor.exit_code == 1
    assert "--repair damaged" in doctor.stdout
    declined = run("doctor", "--store", gateway.store, "--repair", "damaged")
    assert declined.exit_code == 2
    assert "partition 0: [1, 2)" in declined.stderr
    assert gateway.http.get("/v1/topics/damaged").status_code == 500
    repaired = run("doctor", "--store", gateway.store, "--repair", "damaged", "--yes")
    assert (repaired.exit_code, "is repaired as of version" in repaired.stderr) == (0, True)
    read = gateway.http.get("/v1/topics/damaged/partitions/0/records", params={"offset": "earliest"}).json()
    assert [(record["offset"], record["value"]) for record in read["records"]] == [(0, "0"), (2, "2")]
    records = {"records": [{"value": "3"}]}
    produced = gateway.http.post("/v1/topics/damaged/partitions/0/records", json=records).json()
    assert produced["partitions"][0]["base_offset"] == 3
    assert run("verify", "damaged", "--store", gateway.store).exit_code == 0
    again = run("doctor", "--store", gateway.store, "--repair", "damaged")
    assert (again.exit_code, "has lost nothing" in again.stderr) == (0, True)


def test_repair_answers_programs(gateway: KafkaGateway, run: Run, tmp_path: Path) -> None:
    """``--json`` asks nothing and says what it did; a topic, or a store, that is not there is an error."""
    made = run("doctor", "--store", gateway.store, "--repair", "whole", "--json")
    assert json.loads(made.stdout) | {"topic": "whole", "version": None, "lost": [], "gone": []} == json.loads(
        made.stdout
    )
    for store, topic in ((gateway.store, "absent"), (tmp_path / "absent", "t")):
        failed = run("doctor", "--store", store, "--repair", topic, "--json")
        assert failed.exit_code != 0
        assert "error" in failed.stderr
    assert run("doctor", "--repair", "t").exit_code != 0


def test_it_is_deleted(gateway: KafkaGateway, run: Run) -> None:
    """By the command line and by Kafka's protocol; the name can be used anew."""
    assert run("topic", "delete", "deleted", "--yes").exit_code == 0
    admin = AdminClient({"bootstrap.servers": gateway.kafka})
    admin.delete_topics(["by-kafka"])["by-kafka"].result(30)
    answer = gateway.http.get("/v1/topics").json()
    assert not {"deleted", "by-kafka"} & {topic["name"] for topic in answer["topics"] + answer.get("damaged", [])}
    for topic in ("deleted", "by-kafka"):
        gateway.topic(topic, 2)
        read = gateway.http.get(f"/v1/topics/{topic}/partitions/0/records", params={"offset": "earliest"}).json()
        assert read["records"] == []
