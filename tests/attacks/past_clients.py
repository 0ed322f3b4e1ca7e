"""The rows of attackers that write a part of the store, or answer in a gateway's place."""

from __future__ import annotations

import contextlib
import stat
import subprocess
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

from log_format.errors import StoreError
from log_format.stores import open_store
from tests.attacks.target import Attack, Row, Target
from tests.support.access import by
from tests.support.attacks.insiders import HOSTILE_PATHS, forge_heartbeats, name_as_segment, segments
from tests.support.attacks.trap import Trap

ROOT = Path(__file__).parents[2]
CLIENT_BYTES_MAX = 300 << 20

_CLIENT = """
import sys, tidelog
try:
    tidelog.Admin(sys.argv[1]).list_topics()
except tidelog.TidelogError as refused:
    print(type(refused).__name__)
# Not ru_maxrss: that also has what the process held that started this one.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def _forged_heartbeats(target: Target) -> Attack:
    gateways, beat = target.store / "system" / "gateways", count(1)

    def attack() -> None:
        trap = Trap()
        try:
            for _ in range(5):
                forge_heartbeats(gateways, next(beat), trap.url)
                target.gateway.produce("t", "v")
                time.sleep(0.3)
            listed = target.gateway.http.get("/v1/cluster").json()["gateways"]
            assert [one["url"] for one in listed] == [target.gateway.url], listed
            assert trap.caught == [], "a request went to a forged address"
        finally:
            trap.close()

    target.gateway.topic("t")
    return attack


def _an_answer_that_inflates(target: Target) -> Attack:
    class Bomb(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            for name, value in (("Content-Type", "application/json"), ("Content-Encoding", "gzip")):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(bomb)))
            self.end_headers()
            self.wfile.write(bomb)

        def log_message(self, *_: object) -> None:
            return None

    del target
    bomb = _inflating()

    def attack() -> None:
        with ThreadingHTTPServer(("127.0.0.1", 0), Bomb) as server:
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            url = f"http://127.0.0.1:{server.server_address[1]}"
            ran = subprocess.run(
                [sys.executable, "-c", _CLIENT, url], capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
            )
            server.shutdown()
        assert ran.returncode == 0, ran.stderr[-1000:]
        refusal, peak = ran.stdout.split()
        assert int(peak) * 1024 < CLIENT_BYTES_MAX, f"the client held {int(peak) >> 10} MiB, and said {refusal}"

    return attack


def _inflating() -> bytes:
    """300 MiB of nothing, without ever holding them."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()


def _links_among_logs(target: Target) -> Attack:
    logs, secret, token = target.directory / "logs", target.directory / "shadow", target.directory / "token"
    logs.mkdir()
    secret.write_text("a secret\n")
    token.touch(mode=0o600)
    token.write_text(target.token)
    number = count()

    def attack() -> None:
        topic = target.gateway.topic(f"t{next(number)}")
        (logs / "app.log").write_text("a line\n")
        (logs / "linked.log").unlink(missing_ok=True)
        (logs / "linked.log").symlink_to(secret)
        command = [sys.executable, "-m", "tidelog", "collect", str(logs / "*.log"), "--topic", topic, "--once"]
        command += ["--state", str(target.directory / f"{topic}.state"), "--token-file", str(token)]
        command += ["--url", target.gateway.url]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
        assert [value for _, value in target.gateway.read(topic)] == ["a line"], ran.stderr[-1000:]

    return attack


def _files_of_others(target: Target) -> Attack:
    gateway = target.gateway
    outside = target.directory / "outside"
    outside.write_text("a secret")
    number = count()

    def attack() -> None:
        topic = gateway.topic(f"t{next(number)}")
        assert gateway.produce(topic, "v").status_code == 200
        for path in target.store.rglob("*"):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, f"others can use {path.relative_to(target.store)}"
        (segment,) = segments(target.store, topic)
        segment.unlink()
        segment.symlink_to(outside)
        answer = gateway.fetch(topic)
        assert answer.status_code >= 500, answer.text
        assert "a secret" not in answer.text
        segment.unlink()
        (target.store / "linked").unlink(missing_ok=True)
        (target.store / "linked").symlink_to(outside)
        found = b""
        with contextlib.suppress(StoreError):
            found = open_store(str(target.store)).get("linked")
        assert found != b"a secret"
        (target.store / "linked").unlink()

    return attack


def _hostile_paths(target: Target) -> Attack:
    gateway = target.gateway
    gateway.topic("tvictim")
    assert gateway.produce("tvictim", "secret").status_code == 200
    topics = {f"t-{name}": path for name, path in HOSTILE_PATHS.items()}
    for topic, path in topics.items():
        gateway.topic(topic)
        assert gateway.produce(topic, "mine").status_code == 200
        name_as_segment(target.store, topic, path, "tvictim")
    assert gateway.end() == 0
    gateway.start()
    gateway.http.headers.update(by(target.token))

    def attack() -> None:
        for topic in topics:
            answer = gateway.fetch(topic)
            assert (answer.status_code, answer.json()["error_code"]) == (500, "CORRUPT_SEGMENT"), answer.text[:300]

    return attack


ROWS = (
    Row(7, "forged heartbeats, one of 1 GiB", _forged_heartbeats),
    Row(14, "an answer to the SDK that inflates", _an_answer_that_inflates),
    Row(15, "a symbolic link among collected logs", _links_among_logs),
    Row(17, "files that others can read, links in the store", _files_of_others, ("--tail-cache-bytes-max", "0")),
    Row(18, "commits with hostile paths", _hostile_paths),
)
