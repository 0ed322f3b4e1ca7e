"""A topic's page has programs that read it: each runs as it is copied, also where the topic's name has dots."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser import Visits
from tests.support.console import Console, Tab
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.secured import Secured

SHELL = ["curl", "Command line"]
BY_GATEWAY = ["Iceberg (PyIceberg)", "Delta Sharing"]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With Kafka's protocol; ``shop.orders`` has two records."""
    directory = tmp_path_factory.mktemp("reading")
    with running_gateway(directory / "store", directory / "log", "--kafka-listen", "127.0.0.1:0") as started:
        started.topic("shop.orders")
        started.produce("shop.orders", "first-value", "second-value", partition=0)
        yield started


def programs(page: Page) -> dict[str, str]:
    """The texts that the page offers, by their names."""
    program = page.get_by_label("Program", exact=True)
    expect(program.get_by_role("option", name="Delta Sharing")).to_be_attached()
    page.wait_for_load_state("networkidle")
    found = {}
    for name in program.get_by_role("option").all_inner_texts():
        program.select_option(name)
        shown = page.get_by_label(name, exact=True)
        expect(shown).to_be_visible()
        found[name] = shown.inner_text()
    return found


def ran(*command: str, directory: Path, **variables: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_by(names: list[str], found: dict[str, str], directory: Path, **variables: str) -> dict[str, str]:
    """What the programs print: those in Python run one after the other in one process."""
    said = {name: ran("sh", "-c", found[name], directory=directory, **variables) for name in SHELL if name in names}
    parts = [f"print({f'--- {name}'!r})\n{found[name]}" for name in names if name not in SHELL]
    (directory / "program.py").write_text("\n".join(parts))
    _, *outputs = ran(sys.executable, "program.py", directory=directory, **variables).split("--- ")
    return said | dict(output.split("\n", 1) for output in outputs)


def test_programs_run_as_they_are_copied(tab: Tab, gateway: GatewayProcess, tmp_path: Path) -> None:
    """Each prints the topic's records; Spark's and Kafka's name the store and the listener."""
    found = programs(tab.open("/topics/shop.orders?tab=read"))
    assert list(found) == [*SHELL, "Python", "Kafka (kcat)", "Spark", "pandas", "DuckDB", *BY_GATEWAY]
    said = read_by([*SHELL, "Python", "pandas", "DuckDB", *BY_GATEWAY], found, tmp_path)
    assert re.search(r"│ +0 │ +2 │", said.pop("DuckDB"))
    assert [name for name, text in said.items() if "second" not in text and b"second".hex() not in text.lower()] == []
    store = gateway.http.get("/v1/topics/shop.orders").json()["table_uri"].removesuffix("/topics/shop.orders")
    assert f'store="{store}", subscribe="shop.orders"' in found["Spark"]
    kafka = gateway.http.get("/v1/cluster").json()["gateways"][0]["kafka"]
    assert found["Kafka (kcat)"] == f"kcat -b {kafka} -C -t shop.orders -o beginning -e"


def test_callers_with_a_token_give_it(visits: Visits, secured: Secured, tmp_path: Path) -> None:
    """The programs take it from the environment, and no text has it."""
    topic = secured.topic()
    secured.admin.produce(topic, {"value": "second"}, partition=0)
    principal, user = secured.user()
    secured.allow(principal, "Read", "topic", topic)
    token = user.token
    assert token is not None
    found = programs(Console(visits, secured.url, token).open(f"/topics/{topic}?tab=read"))
    assert not any(token in text for text in found.values())
    said = read_by(["curl", "Python", *BY_GATEWAY], found, tmp_path, TIDELOG_TOKEN=token)
    assert [name for name, text in said.items() if "second" not in text and b"second".hex() not in text.lower()] == []
