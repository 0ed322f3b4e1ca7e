"""Build the images from their Dockerfiles without Docker, and run them: ``images.py DIRECTORY [IMAGE...]``, as root on Linux.

Needs ``apt-get install buildah runc debootstrap``; DIRECTORY keeps the base and the built images (some 6 GB).

Substitutes for the base images, since no registry is used: under the names in the Dockerfiles there is a Debian of the same
release, by debootstrap, with Debian's own (older) Python and this machine's certificates. EMR's has EMR's user, too, and no
Spark. All else is as the Dockerfiles say: packages by their locks, system packages, jars, users, commands and health checks.

Then runc runs them as compose would: as the image's user without capabilities, with a read-only root, the limit on memory, an
empty tmpfs for each volume that the image declares, and a directory for the log. So a write anywhere else fails. Only the
network is this machine's.

The gateway gets ready by its own health check, takes and returns records, and drains at SIGTERM. The Spark image runs rounds on
these records until SIGTERM and runs the example. EMR's image runs a round with its own Python.
"""
# ruff: noqa: INP001, S603, S607, T201 - a program of its own that runs programs of the system

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tidelog import Admin, Consumer, Producer

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAMS: Final = ("buildah", "runc", "debootstrap")
IMAGES: Final = ("gateway", "spark", "emr")
RELEASE: Final = "bookworm"
BASE_PACKAGES: Final = "ca-certificates,python3,python3-venv,python-is-python3"
BUILD_SECONDS_MAX: Final = 1800
RUN_SECONDS_MAX: Final = 900
MEMORY_BYTES_MAX: Final = {"gateway": 960 << 20, "spark": 3 << 30, "emr": 3 << 30}
"""Memory limits as in ``infra/local/compose.yaml``; EMR's is that of Spark."""
EMR_USER: Final = "hadoop"
FLIGHTS: Final = 400


@dataclass(frozen=True, slots=True)
class Image:
    """A built image: its files, and its Dockerfile's runtime settings."""

    name: str
    root: Path
    config: dict[str, Any]


class Storage:
    """buildah's images and containers below one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._program = [
            "buildah", "--storage-driver", "vfs",
            "--root", str(directory / "storage"), "--runroot", str(directory / "run"),
        ]  # fmt: skip

    def call(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run a command of buildah, which must succeed, and return its output."""
        return _call([*self._program, *arguments], cwd=cwd)

    def stand_in(self, name: str, *, user: str | None = None) -> None:
        """Create a base image of that name: Debian with its Python, and ``user``."""
        container = self.call("from", "scratch")
        self.call("add", "--quiet", container, str(self._debian()), "/")
        if user is not None:
            self.call("run", "--isolation", "chroot", container, "useradd", "--create-home", user)
        self.call("commit", "--quiet", "--rm", "--format", "docker", container, name)

    def build(self, image: str) -> None:
        """Build the image by its Dockerfile, from this checkout; no base is fetched."""
        print(f"{image}: building", flush=True)
        self.call(
            "build", "--isolation", "chroot", "--format", "docker", "--pull-never", "--layers=false",
            "--build-arg", f"BASE={base_of(image)}",
            "--file", str(ROOT / f"infra/docker/{image}.Dockerfile"), "--tag", f"tidelog-{image}", str(ROOT),
        )  # fmt: skip

    def mounted(self, name: str) -> Image:
        """Return the files of an image, and its settings."""
        container = self.call("from", "--pull-never", name)
        config = json.loads(self.call("inspect", "--type", "image", name))["Docker"]["config"]
        return Image(name, Path(self.call("mount", container)), config)

    def _debian(self) -> Path:
        found = self._directory / "debian"
        if not found.exists():
            print(f"Debian {RELEASE}, in place of the base images: fetching", flush=True)
            partial = self._directory / "debian.partial"
            shutil.rmtree(partial, ignore_errors=True)
            _call(["debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", RELEASE, str(partial)])
            certificates = "usr/local/share/ca-certificates"
            shutil.copytree(f"/{certificates}", partial / certificates, dirs_exist_ok=True)
            _call(["chroot", str(partial), "update-ca-certificates"])
            partial.rename(found)
        return found


def _call(command: list[str], *, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout.strip()


class Container:
    """Process of an image, under runc; its output goes to ``log``."""

    def __init__(self, image: Image, bundle: Path, log_directory: Path, **settings: str) -> None:
        self.identity = f"tidelog-{secrets.token_hex(4)}"
        self.log = bundle / "log"
        self._image, self._bundle = image, bundle
        self._log_directory, self._settings = log_directory, settings
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Container]:
        """Start the image, with ``arguments`` in place of its own; it is killed at the end if it still runs."""
        (self._bundle / "config.json").write_text(json.dumps(self._specification(arguments)))
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["runc", "run", "--bundle", str(self._bundle), self.identity],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        try:
            yield self
        finally:
            if self._process.poll() is None:
                subprocess.run(["runc", "kill", self.identity, "KILL"], check=False, capture_output=True)
                self._process.wait(RUN_SECONDS_MAX)

    def is_healthy(self) -> bool:
        """Return the result of the image's own health check, run inside as Docker runs it."""
        kind, *command = self._image.config["Healthcheck"]["Test"]
        assert kind == "CMD", kind
        asked = subprocess.run(
            ["runc", "exec", self.identity, *command], check=False, capture_output=True, timeout=RUN_SECONDS_MAX
        )
        return asked.returncode == 0

    def terminate(self) -> None:
        """Send the image's stop signal."""
        _call(["runc", "kill", self.identity, self._image.config["StopSignal"]])

    def wait(self) -> str:
        """Wait for the process to end with success, and return its output."""
        assert self._process is not None
        code = self._process.wait(RUN_SECONDS_MAX)
        output = self.log.read_text()
        if code:
            raise SystemExit(f"{self._image.name} ended with {code}:\n{output[-4000:]}")
        return output

    def is_running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    def _specification(self, arguments: tuple[str, ...]) -> dict[str, Any]:
        config = self._image.config
        names = dict(line.split("=", 1) for line in config["Env"]) | self._settings
        command = [*(config["Entrypoint"] or []), *(arguments or config["Cmd"] or [])]
        user, group = self._user(config["User"])
        hosts = self._bundle / "hosts"
        hosts.write_text(f"127.0.0.1 localhost {self.identity}\n")
        read_only = ["bind", "ro"]
        mounts = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "mode=1777"]},  # noqa: S108
            {"destination": "/log", "type": "bind", "source": str(self._log_directory), "options": ["bind", "rw"]},
            {"destination": "/etc/hosts", "type": "bind", "source": str(hosts), "options": read_only},
            *(
                {"destination": volume, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=1777"]}
                for volume in config["Volumes"] or {}
            ),
        ]
        return {
            "ociVersion": "1.0.2",
            "process": {
                "terminal": False,
                "user": {"uid": user, "gid": group},
                "args": command,
                "env": [f"{name}={value}" for name, value in names.items()],
                "cwd": config["WorkingDir"] or "/",
                "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")},
                "noNewPrivileges": True,
            },
            "root": {"path": str(self._image.root), "readonly": True},
            "hostname": self.identity,
            "mounts": mounts,
            "linux": {
                "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
                "resources": {"memory": {"limit": MEMORY_BYTES_MAX[self._image.name.removeprefix("tidelog-")]}},
            },
        }

    def _user(self, user: str) -> tuple[int, int]:
        """Return the user's ids, given by number, or by name in the image's own list."""
        name, _, group = user.partition(":")
        if name.isdigit():
            return int(name), int(group or name)
        fields = re.search(rf"^{name}:[^:]*:(\d+):(\d+):", (self._image.root / "etc/passwd").read_text(), re.MULTILINE)
        assert fields is not None, f"{user} is no user of {self._image.name}"
        return int(fields[1]), int(fields[2])


class Trial:
    """Trial runs of all images, one after another, with one log."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = directory / "log"
        self._log.mkdir(parents=True)

    def gateway(self, image: Image) -> None:
        """Check that the gateway becomes ready, accepts and returns records, is not ready while it drains, and ends with
        success."""
        port = _free_port()
        settings = {"TIDELOG_HOST": "127.0.0.1", "TIDELOG_PORT": str(port), "TIDELOG_DRAIN_NOTICE_MS": "5000"}
        container = self._container(image, **settings)
        url = f"http://127.0.0.1:{port}"
        with container.started("--store", "/log", "--log-level", "warning"):
            _wait(container.is_healthy, container, "get ready")
            with Admin(url) as admin, Producer(url, linger_ms=0) as producer:
                admin.create_topic("flights", 2, config={"flush.ms": 10})
                for number in range(FLIGHTS):
                    record = {"hour": number % 24, "carrier": f"T{number % 3}", "dep_delay": number % 60}
                    sent = producer.send("flights", json.dumps(record), key=str(number))
                    if number % 20 == 0:
                        sent.result()
            with Consumer("flights", bootstrap_servers=url, auto_offset_reset="earliest") as consumer:
                count = 0
                while count < FLIGHTS:
                    count += len(consumer.poll(timeout_ms=10_000))
            container.terminate()
            assert not container.is_healthy(), "ready while it drains"
            output = container.wait()
        assert count == FLIGHTS, count
        assert not re.search(r'"level":"(warning|error)"', output), output
        print(f"{image.name}: ready, {count} records taken and given, drained", flush=True)

    def spark(self, image: Image) -> None:
        """Check that maintenance processes the gateway's records and ends at SIGTERM, and that the example reads every record."""
        maintenance = ["-m", "compaction", "--store", "/log", "--every", "5s", "--json", "--workers", "spark"]
        with self._container(image).started(*maintenance) as container:
            _wait(lambda: bool(_rounds(container.log.read_text())), container, "make a round")
            container.terminate()
            container.wait()
        example = [
            "-m", "spark_pipeline.jobs.flight_delays", "--store", "/log", "--topic", "flights", "--output", "delays",
            "--records", str(FLIGHTS), "--master", "local[2]",
        ]  # fmt: skip
        with self._container(image).started(*example) as container:
            container.wait()
        print(
            f"{image.name}: rounds with Spark until SIGTERM, and the example's {FLIGHTS} records",
            flush=True,
        )

    def emr(self, image: Image) -> None:
        """Run a round as EMR would start it, with the Python that Terraform names."""
        command = ["/opt/tidelog/bin/python", "/opt/tidelog/maintenance.py"]
        with self._container(image).started(
            *command, "--store", "/log", "--once", "--json", "--workers", "local"
        ) as container:
            assert _rounds(container.wait())
        print(f"{image.name}: one round, without Spark", flush=True)

    def _container(self, image: Image, **settings: str) -> Container:
        bundle = self._directory / f"bundle-{len(list(self._directory.iterdir()))}"
        bundle.mkdir()
        for path in (self._log, *self._log.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        return Container(image, bundle, self._log, **settings)


def _rounds(output: str) -> list[dict[str, Any]]:
    """Return maintenance's reports of its rounds, and check that none failed for a topic."""
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{") and line.endswith("}")]
    found = [event for event in events if event.get("event") == "round"]
    assert not any(event["failed_topics"] for event in found), output
    return found


def _wait(condition: Callable[[], bool], container: Container, what: str) -> None:
    deadline = time.monotonic() + RUN_SECONDS_MAX
    while not condition():
        if not container.is_running() or time.monotonic() > deadline:
            raise SystemExit(f"it does not {what}:\n{container.log.read_text()[-4000:]}")
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def base_of(image: str) -> str:
    """Return the name of a Dockerfile's base image, with its registry and without its digest, which no stand-in can have.

    It is the default of BASE, or, if there is none, what the error message asks for.
    """
    text = (ROOT / f"infra/docker/{image}.Dockerfile").read_text()
    (name,) = re.findall(r"^ARG BASE=(?:\".*?BASE=)?([^\s\"@]+)@sha256:", text, re.MULTILINE)
    return name if "/" in name else f"docker.io/library/{name}"


def _mebibytes(root: Path) -> int:
    return int(_call(["du", "--summarize", "--one-file-system", "--block-size=1M", str(root)]).split()[0])


def main(directory: Path, images: tuple[str, ...]) -> int:
    """Build and try every image, and return 0 if all work."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        print(f"needed: root, and apt-get install {' '.join(PROGRAMS)}", file=sys.stderr)
        return 2
    directory.mkdir(parents=True, exist_ok=True)
    storage = Storage(directory)
    # Left over from an earlier run.
    storage.call("rm", "--all")
    storage.call("rmi", "--prune", "--force")
    bases = {base_of(image): EMR_USER if image == "emr" else None for image in images}
    for name, user in bases.items():
        storage.stand_in(name, user=user)
    trials = directory / "trials"
    shutil.rmtree(trials, ignore_errors=True)
    trial = Trial(trials)
    for image in images:
        storage.build(image)
        built = storage.mounted(f"tidelog-{image}")
        own = _mebibytes(built.root) - _mebibytes(directory / "debian")
        print(f"{built.name}: {own} MiB beside its base", flush=True)
        {"gateway": trial.gateway, "spark": trial.spark, "emr": trial.emr}[image](built)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), tuple(sys.argv[2:]) or IMAGES))
