"""Run ``compose.yaml`` without Docker, and do a user's first steps with it: ``rehearse.py DIRECTORY``.

Each service is a plain process on 127.0.0.1, in a directory of its own, with compose's command and environment. Services start in
compose's order and are restarted where compose would restart them. Compose's names (``minio:9000``) become addresses of this
machine in commands, variables and configurations.

Substitutes: for our images, what their Dockerfiles install (``infra/docker/rehearse.py``; offline, so with this machine's Python
and packages). For MinIO, nginx and Prometheus, this machine's programs (``make minio-server``; ``apt-get install nginx-light
prometheus``) of any version. For ``mc``, boto3. Grafana is left out, but Prometheus is asked the dashboard's questions. Limits,
users and read-only roots are left to ``infra/docker/images.py``.
"""
# ruff: noqa: INP001, S603, S607, T201 - a program of its own that runs programs of the system

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import boto3
import urllib3
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
LOCAL: Final = ROOT / "infra/local"
OBSERVABILITY: Final = ROOT / "infra/observability"
CACHE: Final = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache/tidelog")
PORTS: Final = {
    "minio": (9000, 9001),
    "gateway-1": (8080, 8081),
    "gateway-2": (8080, 8081),
    "proxy": (8080,),
    "maintenance": (9102,),
    "prometheus": (9090,),
}
ABSENT: Final = ("grafana",)
WAIT_SECONDS_MAX: Final = 600
"""Limit of a wait: needed where Spark starts on a busy machine; other waits take seconds."""
STOP_SECONDS_MAX: Final = 60
RESTARTS_MAX: Final = 10
NGINX: Final = """daemon off; pid pid; error_log stderr; events {}
http { access_log off; include default.conf; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d;
scgi_temp_path e; }
"""
"""Replacement of the image's own configuration, which includes the files of ``conf.d``."""

_http = urllib3.PoolManager(retries=False)


@dataclass(slots=True)
class Running:
    """A service's process, and the number of its starts."""

    process: subprocess.Popen[bytes]
    starts: int = 1


class Line:
    """Services of compose.yaml, as processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        text = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", (LOCAL / "compose.yaml").read_text())
        self.services: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
        self._ports = {f"{name}:{port}": _free_port() for name, ports in PORTS.items() for port in ports}
        self._running: dict[str, Running] = {}

    def address(self, name: str) -> str:
        """Return the local address of a service's port, such as ``minio:9000``."""
        return f"127.0.0.1:{self._ports[name]}"

    def placed(self, text: str) -> str:
        """Return the text with local addresses in place of compose's names."""
        return re.sub("|".join(sorted(map(re.escape, self._ports))), lambda found: self.address(found[0]), text)

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment given by compose and the service's image, plus only the program path of this process."""
        service = self.services[name]
        own = {key: self.placed(str(value)) for key, value in service.get("environment", {}).items()}
        home = str(self.home(name))
        found = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "TMPDIR": home, **own}
        image = service["image"]
        if image in ("tidelog-gateway", "tidelog-spark"):
            found["PATH"] = f"{self._directory / image}/opt/tidelog/bin:{found['PATH']}"
        if image == "tidelog-gateway" and "entrypoint" not in service:
            host, _, port = self.address(f"{name}:8080").partition(":")
            found |= {"TIDELOG_HOST": host, "TIDELOG_PORT": port, "TIDELOG_ADVERTISED_URL": f"http://{host}:{port}"}
            found["TIDELOG_OPS_PORT"] = self.address(f"{name}:8081").rpartition(":")[2]
        if image == "tidelog-spark":
            found |= {"TIDELOG_CACHE": str(CACHE), "SPARK_LOCAL_DIRS": home, "SPARK_LOCAL_IP": "127.0.0.1"}
        return found

    def home(self, name: str) -> Path:
        """Return the service's directory, which is its working directory."""
        found = self._directory / "services" / name
        found.mkdir(parents=True, exist_ok=True)
        return found

    def command(self, name: str) -> list[str]:
        """Return the service's command."""
        service = self.services[name]
        given = [self.placed(each).replace("$$", "$") for each in service.get("command", [])]
        home = self.home(name)
        here = {"/data": str(home), "0.0.0.0": "127.0.0.1", ":9001": self.address("minio:9001")}  # noqa: S104 - replaced
        here |= {str(port): self.address(f"{name}:{port}").rpartition(":")[2] for port in PORTS.get(name, ())}
        given = [here.get(word, word) for word in given]
        if "entrypoint" in service:
            return [*service["entrypoint"], *given]
        if service["image"] == "tidelog-gateway":
            return ["sh", str(ROOT / "infra/docker/gateway-entrypoint.sh"), *given]
        if service["image"] == "tidelog-spark":
            return ["python", *given]
        if name == "minio":
            return [str(CACHE / "bin/minio"), *given, "--address", self.address("minio:9000")]
        if name == "proxy":
            listening = f"listen {self.address('proxy:8080')};"
            text = (LOCAL / "proxy.conf").read_text().replace(" resolve ", " ")  # Addresses here, and an older nginx.
            assert text.count("listen 8080;") == 1, text
            (home / "default.conf").write_text(self.placed(text.replace("listen 8080;", listening)))
            (home / "nginx.conf").write_text(NGINX)
            return ["nginx", "-p", str(home), "-c", "nginx.conf", "-e", "stderr"]
        assert name == "prometheus", f"nothing stands in for {name}"
        (home / "prometheus.yml").write_text(self.placed((OBSERVABILITY / "prometheus.yaml").read_text()))
        shutil.copyfile(OBSERVABILITY / "alerts.yaml", home / "alerts.yaml")
        paths = [f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/measurements"]
        return ["prometheus", *paths, f"--web.listen-address={self.address('prometheus:9090')}"]

    def start(self, name: str) -> None:
        """Start the service after the services that it depends on are in the required state."""
        for before, wanted in _waited_for(self.services[name]).items():
            if wanted == "service_healthy":
                url = self.url(before, "/minio/health/ready" if before == "minio" else "/readyz")
                self.until(f"{before} is healthy", partial(_answers, url))
        if name == "bucket":
            self._make_bucket()
            return
        self._running[name] = Running(self._started(name))

    def url(self, name: str, path: str) -> str:
        """Return the URL of a path at the service's first port."""
        return f"http://{self.address(f'{name}:{PORTS[name][0]}')}{path}"

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, and restart services that end meanwhile."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            for name in self._running:
                self._tend(name)
            if time.monotonic() > deadline:
                raise SystemExit(f"not within {WAIT_SECONDS_MAX} s: {what}\n{self._logs()}")
            time.sleep(0.2)
        print(what, flush=True)

    def log(self, name: str) -> str:
        """Return the service's output so far."""
        return (self.home(name) / "log").read_text(errors="replace")

    def stop(self) -> None:
        """Stop all services, the last started first; gateways and maintenance must end with success."""
        bad = []
        for name, running in reversed(self._running.items()):
            process = running.process
            if process.poll() is None:
                # The whole group: in a container a shell's children end with it.
                os.killpg(process.pid, signal.SIGTERM)
            code = process.wait(STOP_SECONDS_MAX)
            if code and name.startswith(("gateway", "maintenance")):
                bad.append(f"{name} ended with {code}")
            if running.starts > 1:
                print(f"{name} was started {running.starts} times", flush=True)
        if bad:
            raise SystemExit(f"{bad}\n{self._logs()}")

    def kill(self) -> None:
        """Kill processes still running after a failure."""
        for running in self._running.values():
            if running.process.poll() is None:
                os.killpg(running.process.pid, signal.SIGKILL)
                running.process.wait()

    def _started(self, name: str) -> subprocess.Popen[bytes]:
        command, environment = self.command(name), self.environment(name)
        program = shutil.which(command[0], path=environment["PATH"])
        if program is None:
            raise SystemExit(f"{command[0]} is missing: see this program's first lines")
        with (self.home(name) / "log").open("ab") as log:
            return subprocess.Popen(
                [program, *command[1:]], cwd=self.home(name), env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def _tend(self, name: str) -> None:
        running = self._running[name]
        if running.process.poll() is None:
            return
        if self.services[name].get("restart") != "unless-stopped" or running.starts > RESTARTS_MAX:
            raise SystemExit(f"{name} ended\n{self.log(name)[-4000:]}")
        running.process, running.starts = self._started(name), running.starts + 1

    def _make_bucket(self) -> None:
        (script,) = self.services["bucket"]["command"]
        (bucket,) = re.findall(r" mb --ignore-existing store/(\S+)", script)
        own = self.environment("minio")
        client = boto3.client(
            "s3", endpoint_url=self.url("minio", ""), region_name="us-east-1",
            aws_access_key_id=own["MINIO_ROOT_USER"], aws_secret_access_key=own["MINIO_ROOT_PASSWORD"],
        )  # fmt: skip
        client.create_bucket(Bucket=bucket)
        client.close()

    def _logs(self) -> str:
        return "\n".join(f"--- {name}\n{self.log(name)[-1500:]}" for name in self._running)


def _waited_for(service: dict[str, Any]) -> dict[str, str]:
    given = service.get("depends_on", {})
    return (
        dict.fromkeys(given, "")
        if isinstance(given, list)
        else {name: each["condition"] for name, each in given.items()}
    )


def _in_order(services: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the services, each after those that it depends on."""
    done: set[str] = set(ABSENT)
    while len(done) < len(services):
        ready = [name for name in services if name not in done and done.issuperset(_waited_for(services[name]))]
        assert ready, f"the services wait for each other: {sorted(set(services) - done)}"
        yield from ready
        done.update(ready)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        return _http.request("GET", url, timeout=5).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def _asked(url: str, **fields: str) -> Any:
    answer = _http.request("GET", url, fields=fields, timeout=30)
    assert answer.status == 200, f"{url} {fields}: {answer.status} {answer.data[:500]!r}"
    return json.loads(answer.data)


def walk(line: Line) -> None:
    """Do the first steps: produce and consume through the proxy with the command line; then check the other services' results."""
    url = line.url("proxy", "")
    line.until("the proxy leads to a gateway", lambda: _answers(f"{url}/readyz"))

    def tidelog(*arguments: str, given: str = "") -> str:
        environment = {**line.environment("example-topic"), "TIDELOG_URL": url}
        program = shutil.which("tidelog", path=environment["PATH"])
        assert program is not None
        done = subprocess.run(
            [program, *arguments],
            input=given,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"tidelog {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    tidelog("topic", "create", "orders", "--partitions", "2")
    tidelog("produce", "orders", given="hello\nworld\n")
    assert sorted(tidelog("consume", "orders").split()) == ["hello", "world"]
    print("records went to the proxy and came back", flush=True)
    line.until("both gateways see each other", lambda: len(_asked(f"{url}/v1/cluster")["gateways"]) == 2)
    line.until("the example sends flights", lambda: len(tidelog("consume", "flights").split()) >= 10)
    results = line.home("example-pipeline") / "delays/result.json"
    line.until("the example pipeline writes delays", lambda: results.exists() and json.loads(results.read_text()) != [])
    line.until("maintenance has made a round over both topics", lambda: _rounds(line) >= 1)


def _rounds(line: Line) -> int:
    events = [json.loads(text) for text in line.log("maintenance").splitlines() if text.startswith("{")]
    rounds = [event for event in events if event.get("event") == "round"]
    assert all(event["failed_topics"] == 0 for event in rounds), rounds
    return len([event for event in rounds if event["topics"] >= 2])


def watched(line: Line) -> None:
    """Check that Prometheus reaches all targets, evaluates every rule, and answers every query of the dashboard."""
    subprocess.run(
        ["promtool", "check", "rules", str(line.home("prometheus") / "alerts.yaml")], check=True, capture_output=True
    )
    api = line.url("prometheus", "/api/v1")
    line.until("Prometheus is ready", lambda: _answers(line.url("prometheus", "/-/ready")))

    def targets() -> list[str]:
        return [each["health"] for each in _asked(f"{api}/targets")["data"]["activeTargets"]]

    line.until("all targets are up", lambda: set(targets()) == {"up"})

    def rules() -> dict[str, str]:
        groups = _asked(f"{api}/rules")["data"]["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    line.until("all rules are evaluated", lambda: set(rules().values()) == {"ok"})
    written = yaml.safe_load((line.home("prometheus") / "alerts.yaml").read_text())["groups"]
    assert set(rules()) == {rule["alert"] for group in written for rule in group["rules"]}
    panels = json.loads((OBSERVABILITY / "grafana/dashboards/tidelog.json").read_text())["panels"]
    queries = [
        target["expr"].replace("$__rate_interval", "1m") for panel in panels for target in panel.get("targets", [])
    ]
    answered = [query for query in queries if _asked(f"{api}/query", query=query)["data"]["result"]]
    print(f"the dashboard's {len(queries)} questions are answered, {len(answered)} of them with figures", flush=True)
    assert len(answered) > len(queries) // 2, answered
    print(f"{len(targets())} targets, {len(rules())} rules", flush=True)


def _install(image: str, directory: Path) -> None:
    print(f"{image}: what its Dockerfile installs", flush=True)
    program = ROOT / "infra/docker/rehearse.py"
    command = [sys.executable, str(program), image.removeprefix("tidelog-"), str(directory / image), "offline"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main(directory: Path) -> int:
    """Run everything, and return 0 if all of it works."""
    directory.mkdir(parents=True)
    for image in ("tidelog-gateway", "tidelog-spark"):
        _install(image, directory)
    line = Line(directory)
    try:
        for name in _in_order(line.services):
            line.start(name)
        walk(line)
        watched(line)
        line.stop()
    finally:
        line.kill()
    print(f"left out: {', '.join(ABSENT)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
