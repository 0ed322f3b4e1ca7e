"""Docker engine for ``line.py``, either the running one or a new one; and builds of our images and of stand-ins for others'.

No registry is used: the base of our images is a Debian by debootstrap with its own Python, and ``stand-ins/`` replaces MinIO's,
nginx's, Prometheus' and EMR's images.
"""
# ruff: noqa: INP001, S603, S607, T201 - a part of a program that runs programs of the system

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from images import debian

ROOT: Final = Path(__file__).resolve().parents[2]
STAND_INS: Final = Path(__file__).parent / "stand-ins"
CACHE: Final = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache/tidelog")
BASE: Final = "python-stand-in:bookworm"
BASES: Final = {"gateway": BASE, "spark": BASE, "emr": "emr-stand-in"}
"""Base image of each of our images."""
SECONDS_MAX: Final = 3600
BRIDGE: Final = Path("/sys/class/net/docker0")
"""The network that an engine makes for containers."""
WAIT_SECONDS_MAX: Final = 480
"""Limit of a wait: needed where Spark starts on a busy machine; other waits take seconds."""


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

    def minutes(self) -> float:
        """Return the minutes elapsed since the beginning."""
        return round((time.monotonic() - self._began) / 60, 1)

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
    forwards, has_bridge = _forwards(), BRIDGE.exists()
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
        # An engine that ends leaves both as they are, and then this machine forwards nothing for anybody else.
        if forwards and not _forwards():
            subprocess.run(["iptables", "--policy", "FORWARD", "ACCEPT"], check=False)
        if not has_bridge and BRIDGE.exists():
            subprocess.run(["ip", "link", "delete", BRIDGE.name], check=False)


def _forwards() -> bool:
    """Return whether the firewall lets packets through that no rule is about."""
    done = subprocess.run(["iptables", "--list-rules", "FORWARD"], capture_output=True, text=True, check=False)
    return "-P FORWARD ACCEPT" in done.stdout


def plugin(docker: Docker) -> None:
    """Build compose with Go below the directory if Docker's command line lacks it."""
    if not docker.call("compose", "version", check=False):
        docker.environment["DOCKER_CONFIG"] = str(docker.directory / "config")
    if not docker.call("compose", "version", check=False):
        command = ["sh", str(ROOT / "scripts/compose_plugin.sh"), docker.environment["DOCKER_CONFIG"]]
        subprocess.run(command, check=True, timeout=SECONDS_MAX)
        docker.say("compose was built")


def build(docker: Docker) -> None:
    """Build the base, the stand-ins, and our images by their Dockerfiles."""
    if not docker.call("image", "inspect", BASE, check=False):
        _make_base(docker)
    context = docker.directory / "stand-ins"
    shutil.copytree(STAND_INS, context, dirs_exist_ok=True)
    shutil.copy(CACHE / "bin/minio", context)
    for name in ("minio", "nginx", "prometheus", "emr"):
        dockerfile = str(context / "stand-ins.Dockerfile")
        options = ("--quiet", "--build-arg", f"BASE={BASE}", "--file", dockerfile, "--target", name)
        docker.call("build", *options, "--tag", f"{name}-stand-in", str(context))
        docker.say(f"{name}: a stand-in")
    for name, base in BASES.items():
        dockerfile = str(ROOT / f"infra/docker/{name}.Dockerfile")
        options = ("--quiet", "--build-arg", f"BASE={base}", "--file", dockerfile)
        docker.call("build", *options, "--tag", f"tidelog-{name}", str(ROOT))
        docker.say(f"tidelog-{name}: built")


def _make_base(docker: Docker) -> None:
    root = debian(docker.directory)
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packed:
        docker.call("import", "--change", 'CMD ["python3"]', "-", BASE, standard_input=packed.stdout)
    shutil.rmtree(root)
    docker.say("the base was made")


def weigh(docker: Docker) -> None:
    """Report the sizes of our images without their base."""

    def megabytes(name: str) -> float:
        return int(docker.call("image", "inspect", "--format", "{{.Size}}", name)) / 10**6

    beside = {name: round(megabytes(f"tidelog-{name}") - megabytes(base)) for name, base in BASES.items()}
    docker.say(f"megabytes beside the base: {beside}", megabytes=beside)
