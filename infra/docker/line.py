"""Run ``compose.yaml`` on Docker, unchanged, and simulate failures: ``line.py DIRECTORY [--built] [--json]`` (make docker).

It uses the running Docker engine; if none answers it starts one, which ends with this program (needs root, and
``apt-get install docker.io debootstrap``). No registry is used: the base of our images is a Debian by debootstrap with its own
Python, and ``stand-ins/`` replaces MinIO's, nginx's and Prometheus' images. Grafana is left out.

Then: images from the Dockerfiles as they are, ``up --wait``, records through the proxy and back, the pipeline's result, rounds of
maintenance, Prometheus' targets. Under load a gateway is stopped and returns at another address, the other one is killed, and
one is killed by the kernel for lack of memory: no request may fail. Then all services stop, with success, and gateways come up
with ``auth.yaml`` and with ``kafka.yaml``. ``--built`` uses the images of an earlier run. DIRECTORY keeps them: some 8 GB; the
first run takes a quarter of an hour.
"""
# ruff: noqa: INP001, S603, S607, T201 - a program of its own that runs programs of the system

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import urllib3

from tidelog import Admin, Consumer, Producer, TidelogError

ROOT: Final = Path(__file__).resolve().parents[2]
STAND_INS: Final = Path(__file__).parent / "stand-ins"
CACHE: Final = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache/tidelog")
URL: Final = "http://127.0.0.1:8080"
BASE: Final = "python-stand-in:bookworm"
PACKAGES: Final = "ca-certificates,python3,python3-venv,python-is-python3"
SECONDS_MAX: Final = 1800
WAIT_SECONDS_MAX: Final = 240
MUST_END_WELL: Final = ("gateway-1", "gateway-2", "maintenance", "example-topic", "example-pipeline")
FILL: Final = "held = []\nwhile True: held.append(bytes(range(256)) * 4096 * 8)"
"""Program that allocates memory in a gateway's container until the kernel kills the process that it was told to kill first."""

_http = urllib3.PoolManager(retries=False)


class Docker:
    """Docker's command line for one engine, and the findings."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
        self.report: dict[str, Any] = {}
        self.overlay: tuple[Path, ...] = ()
        self._began = time.monotonic()

    def say(self, what: str, **found: Any) -> None:
        """Report a finished step."""
        self.report |= found
        print(f"{time.monotonic() - self._began:6.0f} s  {what}", file=sys.stderr, flush=True)

    def call(self, *arguments: str, check: bool = True, standard_input: Any = subprocess.DEVNULL) -> str:
        """Run a command of Docker, and return its output."""
        done = subprocess.run(
            ["/usr/bin/docker" if Path("/usr/bin/docker").exists() else "docker", *arguments],
            env=self.environment, stdin=standard_input, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise SystemExit(f"docker {' '.join(arguments)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
        return done.stdout.strip() if done.returncode == 0 else ""

    def compose(self, *arguments: str, check: bool = True) -> str:
        """Run a command of compose on the services, and return its output."""
        files = (ROOT / "infra/local/compose.yaml", *self.overlay, STAND_INS / "compose.yaml")
        return self.call(
            "compose", *(word for file in files for word in ("--file", str(file))), *arguments, check=check
        )

    def state(self, service: str, what: str) -> str:
        """Return one member of a container's description."""
        return self.call("inspect", "--format", f"{{{{{what}}}}}", f"tidelog-{service}-1")

    def address(self, container: str) -> str:
        """Return the container's address in the services' network."""
        return self.call("inspect", "--format", "{{.NetworkSettings.Networks.tidelog_default.IPAddress}}", container)

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"not within {WAIT_SECONDS_MAX} s: {what}\n{self.compose('logs', '--tail', '8')[-6000:]}"
                )
            time.sleep(0.5)
        self.say(what)


@contextmanager
def engine(docker: Docker) -> Iterator[None]:
    """Use the engine that answers; else start one with its data below the directory."""
    if docker.call("version", check=False):
        docker.say("an engine answers", engine="found")
        yield
        return
    directory = docker.directory
    docker.environment["DOCKER_HOST"] = f"unix://{directory}/docker.sock"
    command = ["dockerd", "--data-root", str(directory / "data"), "--exec-root", str(directory / "exec")]
    command += ["--host", docker.environment["DOCKER_HOST"], "--pidfile", str(directory / "pid")]
    with (directory / "dockerd.log").open("wb") as log:
        daemon = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        docker.until(
            "an engine was started", lambda: daemon.poll() is not None or bool(docker.call("version", check=False))
        )
        if daemon.poll() is not None:
            raise SystemExit(f"dockerd ended: see {directory}/dockerd.log")
        docker.report["engine"] = "started"
        yield
    finally:
        daemon.terminate()
        daemon.wait(60)


def plugin(docker: Docker) -> None:
    """Build compose with Go below the directory if Docker's command line lacks it."""
    if not docker.call("compose", "version", check=False):
        docker.environment["DOCKER_CONFIG"] = str(docker.directory / "config")
    if not docker.call("compose", "version", check=False):
        command = ["sh", str(ROOT / "scripts/compose_plugin.sh"), docker.environment["DOCKER_CONFIG"]]
        subprocess.run(command, check=True, timeout=SECONDS_MAX)
        docker.say("compose was built")


def build(docker: Docker) -> None:
    """Build the base, our images by their Dockerfiles, and the stand-ins."""
    if not docker.call("image", "inspect", BASE, check=False):
        debian = docker.directory / "debian"
        shutil.rmtree(debian, ignore_errors=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(debian)],
            check=True, stdout=subprocess.DEVNULL, timeout=SECONDS_MAX,
        )  # fmt: skip
        certificates = "usr/local/share/ca-certificates"
        shutil.copytree(f"/{certificates}", debian / certificates, dirs_exist_ok=True)
        subprocess.run(["chroot", str(debian), "update-ca-certificates"], check=True, capture_output=True)
        with subprocess.Popen(["tar", "-C", str(debian), "-c", "."], stdout=subprocess.PIPE) as packed:
            docker.call("import", "--change", 'CMD ["python3"]', "-", BASE, standard_input=packed.stdout)
        shutil.rmtree(debian)
        docker.say("the base was made")
    context = docker.directory / "stand-ins"
    shutil.copytree(STAND_INS, context, dirs_exist_ok=True)
    shutil.copy(CACHE / "bin/minio", context)
    given = ("--quiet", "--build-arg", f"BASE={BASE}")
    for name in ("minio", "nginx", "prometheus"):
        dockerfile = str(context / "stand-ins.Dockerfile")
        docker.call("build", *given, "--file", dockerfile, "--target", name, "--tag", f"{name}-stand-in", str(context))
        docker.say(f"{name}: a stand-in")
    for name in ("gateway", "spark"):
        dockerfile = str(ROOT / f"infra/docker/{name}.Dockerfile")
        docker.call("build", *given, "--file", dockerfile, "--tag", f"tidelog-{name}", str(ROOT))
        docker.say(f"tidelog-{name}: built")


def weigh(docker: Docker) -> None:
    """Report the sizes of our images without their base."""
    sizes = {
        name: int(docker.call("image", "inspect", "--format", "{{.Size}}", name))
        for name in (BASE, "tidelog-gateway", "tidelog-spark")
    }
    beside = {name: (size - sizes[BASE]) // 10**6 for name, size in sizes.items() if name != BASE}
    docker.say(f"megabytes beside the base: {beside}", megabytes=beside)


def walk(docker: Docker) -> None:
    """Send records through the proxy and back, and check the other services' results."""
    with Admin(URL) as admin, Producer(URL, linger_ms=0) as producer:
        admin.create_topic("orders", 2)
        for number in range(100):
            producer.send("orders", str(number)).result()
    with Consumer("orders", bootstrap_servers=URL, auto_offset_reset="earliest") as consumer:
        seen: list[Any] = []
        while len(seen) < 100:
            seen += consumer.poll(timeout_ms=10_000)
    docker.say(f"{len(seen)} records went to the proxy and came back", records=len(seen))
    result = ("exec", "tidelog-example-pipeline-1", "cat", "delays/result.json")
    docker.until("the pipeline has a result", lambda: len(docker.call(*result, check=False)) > len("[]"))
    docker.until("maintenance made a round", lambda: '"event": "round"' in docker.compose("logs", "maintenance"))

    def targets() -> set[str]:
        answer = _http.request("GET", "http://127.0.0.1:9090/api/v1/targets", timeout=30)
        return {target["health"] for target in json.loads(answer.data)["data"]["activeTargets"]}

    docker.until("Prometheus reaches all that it watches", lambda: targets() == {"up"})


@contextmanager
def load(docker: Docker) -> Iterator[dict[str, Any]]:
    """Run a producer that sends one record after another to the proxy; at the end none may have failed."""
    found: dict[str, Any] = {"acknowledged": 0, "failed": [], "worst_seconds": 0.0}
    ended = threading.Event()

    def send() -> None:
        with Producer(URL, linger_ms=0) as producer:
            while not ended.is_set():
                began = time.monotonic()
                try:
                    producer.send("orders", "x").result()
                    found["acknowledged"] += 1
                except TidelogError as problem:
                    found["failed"].append(repr(problem)[:300])
                found["worst_seconds"] = max(found["worst_seconds"], round(time.monotonic() - began, 2))

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield found
    finally:
        ended.set()
        sender.join(WAIT_SECONDS_MAX)
    docker.say(f"under load: {found}", load=found)
    if found["failed"] or not found["acknowledged"]:
        raise SystemExit(f"requests failed: {found}")


def misfortune(docker: Docker) -> None:
    """Stop a gateway that returns at another address, kill the other one, and let one run out of memory."""

    def healthy(name: str) -> bool:
        return docker.state(name, ".State.Health.Status") == "healthy"

    def again(name: str, starts: int) -> bool:
        return int(docker.state(name, ".RestartCount")) > starts and healthy(name)

    with load(docker) as found:
        before = docker.address("tidelog-gateway-1-1")
        docker.compose("stop", "gateway-1")
        taker = docker.call(
            "run", "--detach", "--rm", "--network", "tidelog_default", "--entrypoint", "sleep", "tidelog-gateway", "600"
        )
        docker.compose("start", "gateway-1")
        docker.until("a gateway was stopped and started", lambda: healthy("gateway-1"))
        assert docker.address("tidelog-gateway-1-1") != before, "its address was to be taken by another container"
        docker.call("kill", taker)
        starts, sent = int(docker.state("gateway-2", ".RestartCount")), found["acknowledged"]
        os.kill(int(docker.state("gateway-2", ".State.Pid")), 9)
        docker.until("a gateway was killed, and is back", lambda: again("gateway-2", starts))
        assert found["acknowledged"] > sent, "the gateway at another address took nothing"
        starts = int(docker.state("gateway-2", ".RestartCount"))
        pid = docker.state("gateway-2", ".State.Pid")
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        docker.call("exec", "tidelog-gateway-2-1", "python", "-c", FILL, check=False)
        docker.until("a gateway ran out of memory, and is back", lambda: again("gateway-2", starts))


def _acknowledged(port: int) -> list[Any]:
    """Return the errors, None for none, of one record that a Kafka client sends to a gateway's port."""
    told: list[Any] = []

    def note(error: Any, message: Any) -> None:
        del message
        told.append(error)

    kafka = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    kafka.produce("flights", b"{}", on_delivery=note)
    kafka.flush(60)
    return told


def overlays(docker: Docker) -> None:
    """Check gateways with access control, where no request passes without a token, and with Kafka listeners, where each broker
    serves records."""
    token = f"tl_bootstrap_{secrets.token_urlsafe(32)}"
    docker.environment |= {"BOOTSTRAP_TOKEN": token, "CLUSTER_KEY": secrets.token_hex(32)}
    for name in ("auth", "kafka"):
        docker.overlay = (ROOT / f"infra/local/{name}.yaml",)
        docker.compose("up", "--no-build", "--wait", "--wait-timeout", str(WAIT_SECONDS_MAX), "example-topic")
        if name == "auth":
            assert _http.request("GET", f"{URL}/v1/topics").status == 401, "it was let in without a token"
            with Admin(URL, token=token) as admin:
                assert "flights" in [topic.name for topic in admin.list_topics()]
        else:
            for port in (9092, 9093):
                assert _acknowledged(port) == [None], port
        docker.compose("down", "--volumes", "--timeout", "60")
        docker.say(f"{name}.yaml: well", **{name: True})
    docker.overlay = ()


def main(directory: Path, *, built: bool) -> dict[str, Any]:
    """Return the findings; raise SystemExit when something does not work."""
    directory.mkdir(parents=True, exist_ok=True)
    docker = Docker(directory)
    with ExitStack() as ends:
        ends.enter_context(engine(docker))
        plugin(docker)
        if not built:
            build(docker)
        weigh(docker)
        ends.callback(docker.compose, "down", "--volumes", "--timeout", "60", check=False)
        docker.compose("up", "--no-build", "--wait", "--wait-timeout", str(WAIT_SECONDS_MAX))
        docker.say("all services are well")
        walk(docker)
        misfortune(docker)
        docker.compose("stop")
        codes = {name: int(docker.state(name, ".State.ExitCode")) for name in MUST_END_WELL}
        docker.say(f"stopped: {codes}", ended_with=codes)
        if any(codes.values()):
            raise SystemExit(f"not all ended well: {codes}\n{docker.compose('logs', '--tail', '8')[-4000:]}")
        docker.compose("down", "--volumes")
        overlays(docker)
    return docker.report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="line.py", description="compose.yaml on Docker")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--built", action="store_true", help="take the images that an earlier run has built")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    chosen = parser.parse_args()
    outcome = main(chosen.directory.resolve(), built=chosen.built)
    if chosen.json:
        print(json.dumps(outcome))
    sys.exit(0)
