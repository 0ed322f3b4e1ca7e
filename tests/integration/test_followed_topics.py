"""Commands that follow a topic go on when it is deleted and made anew under its name."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("followed")
    with running_gateway(directory / "log", directory / "1.log") as started:
        yield started


def produce(gateway: GatewayProcess, topic: str, value: str) -> None:
    answer = gateway.http.post(f"/v1/topics/{topic}/partitions/0/records", json={"records": [{"value": value}]})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "command", ["tail {} --from beginning", "consume {} --follow", "consume {} --follow --group g-{}"]
)
def test_what_is_followed_may_be_made_anew(gateway: GatewayProcess, command: str) -> None:
    """What comes into the new topic follows what was read of the old one, once each, and the gap is said."""
    topic = f"topic-{len(command)}"
    gateway.topic(topic, 1)
    produce(gateway, topic, "old")
    arguments = [sys.executable, "-m", "tidelog", *command.format(topic, topic).split(), "--url", gateway.url]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        errors, said = process.stderr, list[bytes]()
        reader = threading.Thread(target=lambda: said.extend(errors))
        reader.start()
        try:
            assert b"old" in process.stdout.readline()
            assert gateway.http.delete(f"/v1/topics/{topic}").is_success
            assert eventually(lambda: any(b"Waiting" in line for line in said))
            gateway.topic(topic, 1)
            for value in ("new", "newer"):
                produce(gateway, topic, value)
            lines = [process.stdout.readline() for _ in range(2)]
        finally:
            process.terminate()
            rest = process.stdout.read()
            reader.join(30)
    assert [b"new" in lines[0], b"newer" in lines[1], rest] == [True, True, b""], said
