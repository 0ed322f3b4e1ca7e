"""Every example in the help texts, run as it stands there, against a real gateway that asks for a token.

A shell runs the first of each command, of ``topic …`` and other groups only one, and each that needs a shell. The others run in
this process. What they add is in their options, and a program takes half a second of a processor to start.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main

from tests.support.access import bootstrap_file
from tests.support.command_runs import runner
from tests.support.gateway_process import running_gateway
from tidelog import Acl, Admin, Producer, TopicPartition
from tidelog.cli.app import app
from tidelog.errors import UnknownSchema, UnknownTopic

ORDER = '{"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}'
SALE = ORDER.replace("Order", "Sale").replace("]", ', {"name": "amount", "type": "double"}]')
SHIPPED = ORDER.replace("Order", "Shipped").replace(
    "]", ', {"name": "customer", "type": "long"}, {"name": "country", "type": "string"}]'
)
ENDLESS = ("serve --", "--follow", "--watch", "tail orders", "--every")
ELSEWHERE = (
    "s3://",
    "--host 0.0.0.0",
    "--tls-cert",
    "tidelog collect",
    "tidelog demo",
    "tidelog pipeline",
    "tidelog credentials",
    "scheduled cancel",
    "--at 2026-12-31",
)
"""Need a bucket, a certificate, what only an answer names, or a time to come, listen to the world, or have tests of their own."""


def is_endless(command: str) -> bool:
    """Whether it goes on until Ctrl-C."""
    return any(word in command for word in ENDLESS) and "--until" not in command


def examples() -> Iterator[str]:
    """The lines behind ``Examples:`` of every command."""

    def below(command: Any) -> Iterator[str]:
        for each in getattr(command, "commands", {}).values():
            yield from below(each)
        found = re.search(r"Examples:\n((?: *(?:\S.*)\n?)+)", command.help or "")
        if found is not None:
            yield from (line.strip() for line in found.group(1).strip().splitlines())

    for line in below(typer.main.get_command(app)):
        if not any(word in line for word in ELSEWHERE):
            yield line


@cache
def of_shells() -> frozenset[str]:
    """Those that end by themselves and that a shell runs."""
    seen, found = set(), set()
    for example in examples():
        program, command = example.split()[:2]
        if not is_endless(example) and (
            program != "tidelog" or command not in seen or re.search(r"[|<>$;&`*]", example)
        ):
            found.add(example)
        if program == "tidelog":
            seen.add(command)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands in a directory with the files that examples name, beside a gateway."""

    directory: Path
    environment: dict[str, str]

    def admin(self) -> Admin:
        """What examples need is made by ``User:bootstrap``."""
        return Admin(self.environment["TIDELOG_URL"], token_file=self.environment["TIDELOG_TOKEN_FILE"])

    def producer(self) -> Producer:
        """Of ``User:bootstrap``."""
        return Producer(self.environment["TIDELOG_URL"], token_file=self.environment["TIDELOG_TOKEN_FILE"])

    def routes(self) -> set[str]:
        """Those that the gateway has."""
        return set(httpx.get(f"{self.environment['TIDELOG_URL']}/openapi.json").json()["paths"])

    def start(self, command: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, command: str) -> tuple[int, bytes, bytes]:
        process = self.start(command)
        out, error = process.communicate(timeout=120)
        return process.returncode, out, error

    def run_here(self, command: str) -> tuple[int, bytes, bytes]:
        """The same of one command without anything for a shell, in this process."""
        program, *arguments = shlex.split(command)
        assert program == "tidelog"
        own = {name: value for name, value in self.environment.items() if name.startswith("TIDELOG_")}
        with contextlib.chdir(self.directory):
            ended = runner(own.pop("TIDELOG_URL"))(*arguments, **own)
        return ended.exit_code, ended.stdout_bytes, ended.stderr_bytes


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A gateway on a directory, topics and files as the examples have them."""
    directory = tmp_path_factory.mktemp("cli")
    programs = directory / "bin"
    programs.mkdir()
    (programs / "tidelog").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidelog "$@"\n')
    (programs / "tidelog").chmod(0o755)
    bootstrap, _ = bootstrap_file(directory)
    access = ("--auth", "on", "--bootstrap-token-file", str(bootstrap))
    with running_gateway(directory / "log", directory / "gateway.log", *access) as gateway:
        _fill(gateway.url, bootstrap, directory)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "PYTHON"))}
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        settings = {"TIDELOG_URL": gateway.url, "TIDELOG_CONFIG": os.devnull, "TIDELOG_PORT": "0", "PATH": path}
        settings["TIDELOG_TOKEN_FILE"] = str(bootstrap)
        yield Shell(directory, {**inherited, **settings, "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1"})


def _fill(url: str, token_file: Path, directory: Path) -> None:
    with Admin(url, token_file=token_file) as admin, Producer(url, token_file=token_file) as producer:
        for name, partition_count in (("orders", 8), ("clicks", 8), ("scratch", 2)):
            admin.create_topic(name, partition_count, {"flush.ms": 0})
        for partition in range(8):
            for number in range(4):
                producer.send("orders", f"order {number}", key=f"user-{number}", partition=partition)
        admin.create_topic("quiet", 1, {"flush.ms": 0, "commit.mode": "shared"})
        producer.send("quiet", "at a journal")
        admin.schemas().register("sales-value", SALE)
        admin.schemas().register("shipped-value", SHIPPED)
        admin.create_topic("shipped", 1, {"flush.ms": 0, "value.schema": "shipped-value"})
        admin.create_topic("sales", 1, {"flush.ms": 0, "value.schema": "sales-value"})
        producer.send("sales", '{"id": 1, "amount": 3.5}')
    (directory / "report.sql").write_text("select count(*) from orders; select count(*) from clicks;")
    (directory / "access.log").write_text("GET / 200\nGET /orders 200\n")
    (directory / "order.avsc").write_text(ORDER)
    with pa.OSFile(str(directory / "schema.arrow"), "wb") as file:
        file.write(pa.schema([("id", pa.int64())]).serialize())
    (directory / "order.json").write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    (directory / "cart.avsc").write_text(
        '{"type": "record", "name": "Cart", "fields": [{"name": "order", "type": "shop.Order"}]}'
    )
    (directory / "orders.csv").write_text(f"user,amount,time\nuser-7,3,{datetime.now(UTC).isoformat()}\n")
    (directory / "orders.ndjson.gz").write_bytes(gzip.compress(b'{"key": "user-7", "value": {"amount": 3}}\n'))
    pq.write_table(pa.table({"user": ["user-7"], "amount": [3]}), directory / "orders.parquet.in")


def _prepare(shell: Shell, example: str) -> str:
    """What one example changes is made anew before the next, so that each runs alone and in any order. Returns the command."""
    with shell.admin() as admin:
        admin.delete_queue("work", missing_ok=True)
        with contextlib.suppress(UnknownTopic):
            for pin in admin.list_pins("orders").pins:
                admin.delete_pin("orders", pin.name)
        if "pin create" in example:
            example = example.replace("--version 1 ", f"--version {admin.describe_topic('orders').table_version} ")
        if "tidelog quota" in example and "/v1/access/quotas/{principal}" not in shell.routes():
            pytest.skip("this gateway has no quotas yet")
        if "abcd1234" in example:
            example = example.replace("abcd1234", admin.create_token("User:billing").id)
        if "--where" in example:
            example = example.replace("erase orders", "erase shipped")
        if "pin delete" in example:
            admin.create_pin("orders", "before-migration", ttl_ms=3_600_000)
        if "share delete" in example:
            admin.create_share("partners", ["orders"])
        if "topic clone" in example:
            admin.create_pin("orders", "before-migration", ttl_ms=3_600_000)
            for name in ("orders-test", "orders-before", "orders-2026"):
                admin.delete_topic(name, missing_ok=True, force=True)
        if "tidelog schema" in example or "-schema" in example:
            _prepare_schemas(admin, example)
        if "schema import" in example:
            # The other registry is this one, so that all is known.
            url = shell.environment["TIDELOG_URL"] + "/registry"
            example = example.replace("https://registry:8081", url).replace("http://registry:8081", url)
            token = Path(shell.environment["TIDELOG_TOKEN_FILE"]).read_text().strip()
            (shell.directory / "secret.txt").write_text(f"any:{token}\n")
            if "--credentials-file" not in example:
                example += " --credentials-file secret.txt"
        if "acl test" in example:
            admin.add_acls(
                [
                    Acl(principal="User:billing", operation="Write", resource_type="topic", resource="orders"),
                    Acl(
                        principal="Group:shop",
                        operation="Read",
                        resource_type="topic",
                        resource="shop.",
                        pattern="prefix",
                    ),
                ]
            )
        if "role remove admins" in example:
            admin.put_role("admins", ["User:ann"])
        if "topic create" in example:
            for name in ("orders", "clicks"):
                if f"create {name}" in example:
                    admin.delete_topic(name, missing_ok=True, force=True)
        if "topic delete " in example or "--partitions 16" in example:
            admin.create_topic("orders", 8, {"flush.ms": 0}, exist_ok=True)
        if "billing" in example:
            admin.commit_group_offsets("billing", {TopicPartition("orders", number): 0 for number in range(8)})
        if "queue " in example and "queue create" not in example:
            admin.create_queue("work", ["orders"], start="earliest", dead_letter_topic="scratch")
        if "delete-records" in example:
            with shell.producer() as producer:
                for _ in range(1300):
                    producer.send("orders", "more", partition=0)
    (shell.directory / "orders.parquet").unlink(missing_ok=True)
    if "produce orders orders.parquet" in example:
        (shell.directory / "orders.parquet").write_bytes((shell.directory / "orders.parquet.in").read_bytes())
    return example


def _prepare_schemas(admin: Admin, example: str) -> None:
    """The subject has one version, or three to compare, unless the example registers it."""
    schemas = admin.schemas()
    for subject in ("cart-value", "orders-value"):
        with contextlib.suppress(UnknownSchema):
            schemas.delete(subject, permanent=True)
    if "register orders-value" not in example:
        schemas.register("orders-value", ORDER)
    if "schema diff" in example:
        for name in ("note", "place"):
            member = f', {{"name": "{name}", "type": ["null", "string"], "default": null}}]'
            schemas.register("orders-value", ORDER.replace("]", member))


def _restore(shell: Shell, example: str) -> None:
    if "topic create" in example or "topic delete" in example or "topic alter" in example:
        with shell.admin() as admin:
            admin.delete_topic("orders", missing_ok=True, force=True)
            admin.delete_topic("clicks", missing_ok=True, force=True)
        with shell.admin() as admin, shell.producer() as producer:
            for name in ("orders", "clicks"):
                admin.create_topic(name, 8, {"flush.ms": 0}, exist_ok=True)
            for partition in range(8):
                for number in range(4):
                    producer.send("orders", f"order {number}", key=f"user-{number}", partition=partition)


def test_there_are_examples() -> None:
    """The parser of help texts finds them: without this, the tests below would hold for nothing."""
    found = list(examples())
    assert len(found) > 30
    assert len(of_shells()) > 30
    assert all("tidelog " in example for example in found)


@pytest.mark.parametrize("example", [each for each in examples() if is_endless(each)])
def test_the_example_works_until_ctrl_c(shell: Shell, example: str) -> None:
    """What goes on for ever is seen to work, and ends by a signal with a code that is documented. It comes before the others: to
    maintain what these leave behind takes six seconds of a processor."""
    _prepare(shell, example)
    process = shell.start(f"exec {example}")
    try:
        assert process.stdout is not None
        if "maintain" in example:
            assert process.stderr is not None
            assert any(b"round" in line for line in process.stderr)
        elif "serve" not in example:
            while not _has_child_written(shell, process):
                assert process.poll() is None, process.communicate()
        else:
            assert b"listens on" in process.stdout.readline()
        if "--max" not in example:
            process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)
        is_service = "serve" in example or "maintain" in example
        assert process.returncode in ({0, 130} if is_service else {0 if "--max" in example else 130}), said
    finally:
        process.kill()
        process.wait()


def _has_child_written(shell: Shell, process: subprocess.Popen[bytes]) -> bool:
    """Send a record; whether the process has written one."""
    assert process.stdout is not None
    with shell.producer() as producer:
        producer.send("orders", "seen", headers=[("type", "refund")]).result(60)
    os.set_blocking(process.stdout.fileno(), False)
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        if process.stdout.read(1):
            os.set_blocking(process.stdout.fileno(), True)
            return True
        time.sleep(0.02)
    os.set_blocking(process.stdout.fileno(), True)
    return False


@pytest.mark.parametrize("example", [each for each in examples() if not is_endless(each)])
def test_the_example_works(shell: Shell, example: str) -> None:
    """It runs as the help has it, and it succeeds; what it writes for programs is JSON."""
    try:
        run = shell.run if example in of_shells() else shell.run_here
        code, out, error = run(_prepare(shell, example))
        assert code == 0, (example, error.decode())
        assert b"Traceback" not in error
        if "--json" in example and "|" not in example:
            for line in out.splitlines():
                json.loads(line)
    finally:
        _restore(shell, example)
