"""What a gateway says as it starts: to a person on a terminal, to programs, and about a store that can't be used."""

from __future__ import annotations

import json
import logging
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.process import assembly, stores
from gateway.process.assembly import assemble
from gateway.settings.settings import Settings, SettingsError
from gateway.telemetry.structured_log import json_line, plain_line
from log_format.errors import StoreUnavailable
from log_format.stores.memory import MemoryStore

COMMAND = [sys.executable, "-m", "gateway", "--port", "0"]


class RefusingStore(MemoryStore):
    """Takes nothing: for now, or for good."""

    may_pass = False

    def put_if_absent(self, key: str, data: bytes) -> None:
        raise StoreUnavailable(key, "it does not take it", may_have_happened=False, may_pass=self.may_pass)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> RefusingStore:
    refusing = RefusingStore("refusing")
    monkeypatch.setattr(stores, "open_store", lambda *_, **__: refusing)
    monkeypatch.setattr(assembly, "configure_allocator", lambda: None)
    monkeypatch.setattr("pyarrow.set_memory_pool", lambda _: None)
    return refusing


def environment(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "AWS_"))}
    return {**own, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, **more}


@pytest.mark.parametrize("kind", ["directory", "credentials"])
def test_a_store_that_can_not_be_used_is_one_line_and_a_status(tmp_path: Path, kind: str) -> None:
    """Nothing listens; the line names the store and what is wrong with it, and the status is that of wrong settings."""
    (tmp_path / "file").touch()
    store = f"{tmp_path}/file/log" if kind == "directory" else "s3://some-bucket/log"
    settings = environment(AWS_SHARED_CREDENTIALS_FILE=os.devnull, AWS_REGION="us-east-1")
    ended = subprocess.run([*COMMAND, "--store", store], env=settings, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr.count(b"\n")) == (2, b"", 1), ended.stderr
    assert store in ended.stderr.decode()
    assert {"directory": b"a file stands where", "credentials": b"credentials"}[kind] in ended.stderr


@pytest.mark.parametrize("store", ["/proc/tidelog", "/sys/tidelog", "file:///proc/no/such/directory"])
def test_a_directory_that_can_not_be_made_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    """It will not come: the file system makes no directory there, whoever asks."""
    monkeypatch.setattr(assembly, "configure_allocator", lambda: None)
    monkeypatch.setattr("pyarrow.set_memory_pool", lambda _: None)
    with pytest.raises(SettingsError, match="takes no objects"):
        assemble(Settings(store=store))


def test_a_store_refused_for_good_ends_it_unless_it_can_be_read(
    store: RefusingStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a topic there is nothing to serve; with one its records can be read, and that is said."""
    settings = Settings(store="memory://refusing")
    with pytest.raises(SettingsError, match=r"TIDELOG_STORE: the store memory://refusing .* it does not take it"):
        assemble(settings)
    store.put("topics/a/_delta_log/00000000000000000000.json", b"{}")
    with caplog.at_level(logging.WARNING):
        assemble(settings)
    assert "what it holds can be read" in caplog.text


def test_a_store_that_is_down_is_waited_for(store: RefusingStore, caplog: pytest.LogCaptureFixture) -> None:
    """One line says which store and why; the gateway is put together all the same."""
    store.may_pass = True
    with caplog.at_level(logging.WARNING):
        assemble(Settings(store="memory://refusing"))
    (line,) = caplog.messages
    assert "memory://refusing" in line
    assert line.endswith("it does not take it; waiting for it")


@pytest.mark.parametrize(("settings", "is_warned"), [((), True), (("--advertised-url", "http://10.0.0.7:8080"), False)])
def test_an_address_that_leads_each_asker_to_itself_is_warned_about(
    tmp_path: Path, settings: tuple[str, ...], is_warned: bool
) -> None:
    """0.0.0.0 is for listening. The port is taken, so that the gateway ends before it listens on every address, and says so."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = [
            "--host",
            "0.0.0.0",
            "--insecure",
            "true",
            "--port",
            str(taken.getsockname()[1]),
            "--store",
            str(tmp_path),
        ]
        command = [sys.executable, "-m", "gateway", *where, *settings]
        ended = subprocess.run(command, env=environment(), capture_output=True, timeout=60, check=False)
    assert ended.returncode == 3, ended.stderr
    assert ended.stderr.count(b"--advertised-url") == is_warned
    assert b"address already in use" in ended.stderr, "its last words were not written"


def test_lines_for_people_are_short_and_safe() -> None:
    """A request is one line without its fields' names; what a client sent can't move a terminal's cursor."""
    request: dict[str, Any] = {
        "at": "2026-11-22T06:49:25.123Z",
        "level": "info",
        "logger": "gateway.access",
        "event": "request",
    }
    request |= {"request_id": "a", "client": "127.0.0.1", "method": "GET", "route": None, "path": "/v1/\x1b[2J"}
    answered = {"status": 404, "duration_ms": 1.234, "received_bytes": 0, "sent_bytes": 9}
    assert plain_line(request | answered) == b"06:49:25.123 info    GET /v1/?[2J 404 in 1 ms\n"
    other = {"at": "2026-11-22T06:49:25.123Z", "level": "error", "logger": "a", "event": "it broke\nhere", "topic": "t"}
    shown = plain_line(other | {"exception": "Traceback\n  why"})
    assert shown == b"06:49:25.123 error   it broke?here topic=t\nTraceback\n  why\n"
    assert json.loads(json_line(other)) == other


def test_a_person_is_told_what_to_do_next(tmp_path: Path) -> None:
    """On a terminal the address is followed by /docs and a first command, and the log is text; for programs it is one line."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--store", str(tmp_path)], env=environment(), stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    try:
        shown = b""
        deadline = time.monotonic() + 60
        is_told = False
        while b"draining" not in shown and time.monotonic() < deadline:
            try:
                shown += os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if b"Ctrl-C ends it" in shown and not is_told:
                is_told = True
                process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    text = shown.decode()
    url = text.split(" listens on ")[1].split()[0]
    assert f"{url}/docs" in text
    assert f"export TIDELOG_URL={url}" in text
    assert '{"' not in text
    assert "info    draining" in text
