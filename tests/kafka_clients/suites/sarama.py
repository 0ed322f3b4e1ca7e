"""sarama: its functional tests, through toxiproxy, in a copy with other ports than 29091 to 29095 and one replica.

They begin with five brokers. Here the five proxies lead to one. What needs several, or brokers that Docker starts and stops, is
in ``left_out/sarama.txt``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.kafka_clients.suites.go_modules import GO, choosing, copied, run_tests
from tests.kafka_clients.suites.suite import KAFKA_VERSION, Outcomes, Place, Suite
from tests.kafka_clients.tried.programs import Running, kept, until
from tests.support.server_process import free_port

_PROXY: Final = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
_BROKERS: Final = 5
_FUNCTIONAL: Final = "functional*_test.go"
_TEST: Final = re.compile(r"^func (Test\w+)\(t ", re.MULTILINE)


def _run(place: Place) -> Outcomes:
    module = copied("github.com/IBM/sarama", place.directory)
    first = free_port() - 10
    names: list[str] = []
    for path in sorted(module.glob(_FUNCTIONAL)):
        text = path.read_text()
        names += _TEST.findall(text)
        text = re.sub(r"ReplicationFactor: *3\b", "ReplicationFactor: 1", text)
        path.write_text(text.replace("29090+i", f"{first}+i").replace(":29091", f":{first + 1}"))
    chosen = place.chosen or f"^({'|'.join(names)})$"
    with _proxies(place, first) as address:
        environment = {"TOXIPROXY_ADDR": address, "KAFKA_VERSION": KAFKA_VERSION}
        arguments = ["-mod=mod", "-tags", "functional", "-run", chosen, "."]
        return run_tests("sarama", module, arguments, environment, place.directory / "log")


@contextlib.contextmanager
def _proxies(place: Place, first: int) -> Iterator[str]:
    """Proxies kafka1 to kafka5, on the ports behind ``first``, while the block runs: the address of toxiproxy."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [str(_toxiproxy()), "-host", "127.0.0.1", "-port", str(port)]
    with Running(command, place.directory / "toxiproxy.log") as running:
        until(lambda: _answers(address), "toxiproxy", running, seconds=20)
        for number in range(1, _BROKERS + 1):
            listen = f"127.0.0.1:{first + number}"
            wanted = {"name": f"kafka{number}", "listen": listen, "upstream": place.servers, "enabled": True}
            _asked(f"{address}/proxies", json.dumps(wanted).encode())
        yield address


def _toxiproxy() -> Path:
    """The program, built once."""
    program = kept() / "toxiproxy" / "server"
    if not program.exists():
        environment = os.environ | {"GOBIN": str(program.parent)}
        subprocess.run(["go", "install", _PROXY], cwd=GO, env=environment, check=True)
    return program


def _answers(address: str) -> bool:
    try:
        _asked(f"{address}/version")
    except OSError:
        time.sleep(0.1)
        return False
    return True


def _asked(url: str, body: bytes | None = None) -> None:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, body, timeout=10):
        pass


SUITE: Final = Suite(name="sarama", run=_run, choosing=choosing, partitions=0)
