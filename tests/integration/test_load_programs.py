"""The load that ``make docker`` and ``make kubernetes`` put on gateways while they disturb them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.support.certificate_authority import Authority
from tests.support.gateway_process import running_gateway
from tests.support.loaded import loaded
from tests.support.waiting import until
from tidelog import TidelogError

INFRA = Path(__file__).resolve().parents[2] / "infra"


def test_a_sender_tells_of_each_record_and_of_a_failure(tmp_path: Path) -> None:
    """In the order of sending, with the name; the first one that no gateway takes has its failure."""
    traffic = loaded(INFRA / "docker/traffic.py")
    ended = threading.Event()
    told: list[tuple[str, TidelogError | None]] = []

    def on_sent(name: str, seconds: float, failure: TidelogError | None) -> None:
        assert 0 <= seconds < 60
        told.append((name, failure))
        if len(told) == 3:
            gateway.kill()
        if len(told) == 4:
            ended.set()

    with running_gateway(tmp_path / "store", tmp_path / "log") as gateway:
        assert traffic.send_and_read(gateway.url, "orders") == traffic.RECORDS
        traffic.send_until(ended, gateway.url, "orders", on_sent, sender=7, delivery_timeout_ms=1_000)
    assert [name for name, _ in told] == [f"7-{number}" for number in range(4)]
    assert [failure is None for _, failure in told] == [True, True, True, False]


def test_the_load_of_the_cluster_misses_no_record(tmp_path: Path, authority: Authority) -> None:
    """``infra/cluster/load.py`` reports each second what was sent, read and asked; what was acknowledged is read once."""
    certificate, key = authority.issue()
    token = tmp_path / "token"
    token.write_text("of-no-use-here")
    settings = ("--tls-cert", certificate, "--tls-key", key)
    lines = tmp_path / "lines"
    with running_gateway(tmp_path / "store", tmp_path / "log", *settings, trust=authority.trust()) as gateway:
        command = [sys.executable, str(INFRA / "cluster/load.py"), gateway.url, authority.ca_file, str(token)]
        with lines.open("wb") as written, subprocess.Popen(command, stdout=written) as load:
            try:
                until(lambda: len(lines.read_text().splitlines()) > 1)
            finally:
                load.send_signal(signal.SIGTERM)
                load.wait(90)
    *seconds, found = (json.loads(line) for line in lines.read_text().splitlines())
    assert found["acknowledged"] == found["received"] == sum(line.get("sent", 0) for line in seconds) > 0
    assert (found["lost"], found["twice"]) == (0, 0)
    assert sum(line.get("asked", 0) for line in seconds) > 0
    assert [line for line in seconds if "failed" in line or "refused" in line] == []
