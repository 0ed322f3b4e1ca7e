"""``Run``: a run in the cluster, with the node, the load, and the table of the load's observations under each disturbance."""
# ruff: noqa: INP001, S603, T201 - part of a program of its own that runs programs of the system

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from node import Authority, Node, run

HERE: Final = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "docker"))  # for traffic.py
NAMESPACE: Final = "tidelog"
HOST: Final = "tidelog.tidelog.svc"
URL: Final = f"https://{HOST}:8080"
WAIT_SECONDS_MAX: Final = 300
SETTLE_SECONDS: Final = 5


class Run:
    """State shared by the stages of a run."""

    def __init__(self, node: Node, programs: Path) -> None:
        self.node, self.programs = node, programs
        self.report: dict[str, Any] = {"disturbances": {}}
        self.authority = Authority(node.state / "clients")
        self.token = f"tl_bootstrap_{secrets.token_urlsafe(32)}"
        self.token_file = node.state / "clients/token"
        self.token_file.write_text(self.token)
        self._began = time.monotonic()
        self._load: subprocess.Popen[bytes] | None = None

    def say(self, what: str, **found: Any) -> None:
        """Report a finished step."""
        self.report |= found
        print(f"{time.monotonic() - self._began:6.0f} s  {what}", file=sys.stderr, flush=True)

    def until(self, what: str, condition: Callable[[], Any], *, seconds_max: float = WAIT_SECONDS_MAX) -> Any:
        """Wait until the condition is true, and return its value."""
        deadline = time.monotonic() + seconds_max
        while not (found := condition()):
            if ended := self.node.ended():
                raise SystemExit(f"ended: {ended}; see {self.node.state}")
            if time.monotonic() > deadline:
                pods = self.node.kubectl("get", "pods", "--all-namespaces", "--output", "wide", check=False)
                events = self.node.kubectl("get", "events", "--all-namespaces", check=False)
                raise SystemExit(f"not within {seconds_max} s: {what}\n{pods}\n{events[-4000:]}")
            time.sleep(0.5)
        self.say(what)
        return found

    def gateways(self) -> list[dict[str, Any]]:
        """Return the gateways' pods that are ready and not being deleted."""

        def stays(pod: dict[str, Any]) -> bool:
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
            return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]

        return [pod for pod in self.pods("tidelog-gateway") if stays(pod)]

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Return all pods of that name."""
        found: list[dict[str, Any]] = self.node.get(
            "pods", "--namespace", NAMESPACE, "--selector", f"app.kubernetes.io/name={name}"
        )["items"]
        return found

    def settled(self, count: int = 3) -> bool:
        """Return whether exactly so many gateways are ready, and no others exist."""
        return len(self.gateways()) == count == len(self.pods("tidelog-gateway"))

    def apply(self, overlay: str) -> None:
        """Apply one of the kustomizations below ``overlays/``."""
        self.node.kubectl("apply", "--kustomize", str(HERE / "overlays" / overlay))

    def secret(self, name: str, *data: str, namespace: str = NAMESPACE) -> None:
        """Create or replace a secret."""
        made = self.node.kubectl(
            "create", "secret", "generic", name, "--namespace", namespace, *data, "--dry-run=client", "--output", "yaml"
        )
        self.node.kubectl("apply", "--filename", "-", standard_input=made)

    def certify(self, namespace: str = NAMESPACE) -> None:
        """Create a certificate that gateways share, as the secret ``tidelog-tls``."""
        names = ",".join(f"DNS:{service}.{namespace}.svc" for service in ("tidelog", "tidelog-kafka"))
        self.authority.certify("tls", "/CN=tidelog", names)
        at = self.authority.directory
        files = (f"--from-file={name}={at}/{name}" for name in ("tls.crt", "tls.key", "ca.crt"))
        self.secret("tidelog-tls", *files, namespace=namespace)

    def secrets(self, namespace: str = NAMESPACE) -> None:
        """Create the three secrets, with one token for the whole run."""
        given = {
            "access": {"bootstrap-token": self.token, "cluster-key": secrets.token_hex(32)},
            "store": {
                "AWS_ACCESS_KEY_ID": "minioadmin", "AWS_SECRET_ACCESS_KEY": "minioadmin",
                "AWS_ENDPOINT_URL": "http://minio.store.svc:9000",
            },
        }  # fmt: skip
        for name, data in given.items():
            literals = (f"--from-literal={key}={value}" for key, value in data.items())
            self.secret(f"tidelog-{name}", *literals, namespace=namespace)
        self.certify(namespace)

    @property
    def connection(self) -> dict[str, Any]:
        """Settings with which the SDK connects as ``User:bootstrap``."""
        return {"ca_file": str(self.authority.directory / "ca.crt"), "token_file": str(self.token_file)}

    @contextmanager
    def load(self) -> Iterator[None]:
        """Send records during the block; at its end each acknowledged one must have been read, once."""
        lines = self.node.state / "load"
        command = [sys.executable, str(HERE / "load.py"), URL, *self.connection.values()]
        with lines.open("wb") as written, (self.node.state / "load.log").open("wb") as log:
            self._load = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=written, stderr=log)
        try:
            self.until("records are on their way", lambda: len(lines.read_text().splitlines()) > 3)
            yield
        finally:
            self._load.terminate()
            self._load.wait(WAIT_SECONDS_MAX)
        found = json.loads(lines.read_text().splitlines()[-1])
        self.say(f"records: {found}", records=found)
        failed = sum(row["failed"] for row in self.report["disturbances"].values())
        if failed or found["lost"] or found["twice"] or not found["acknowledged"]:
            raise SystemExit(f"records failed, or were lost or doubled: {self.report}")

    @contextmanager
    def disturbance(self, name: str) -> Iterator[None]:
        """Store the load's observations, from now on until it has settled, as the row of that name."""
        assert self._load is not None
        began = time.time()
        yield
        time.sleep(SETTLE_SECONDS)
        ended = time.time()
        time.sleep(3)
        if self._load.poll() is not None:
            raise SystemExit(f"the load has ended:\n{(self.node.state / 'load.log').read_text()[-3000:]}")
        row: dict[str, Any] = {
            "seconds": round(ended - began),
            "sent": 0,
            "received": 0,
            "asked": 0,
            "failed": 0,
            "refused": 0,
        }
        row |= {"worst": {}, "problems": []}
        for text in (self.node.state / "load").read_text().splitlines():
            line = json.loads(text)
            if int(began) <= line["second"] <= ended:
                for what in ("sent", "received", "asked", "failed", "refused"):
                    row[what] += line.get(what, 0)
                for what, seconds in line["worst"].items():
                    row["worst"][what] = max(seconds, row["worst"].get(what, 0))
                row["problems"] += line["problems"]
        row["problems"] = sorted(set(row["problems"]))[:5]
        self.report["disturbances"][name] = row
        self.say(f"{name}: {row}")

    def table(self) -> str:
        """The disturbances, as docs/deploy.md has them."""
        head = [
            "disturbance",
            "seconds",
            "sent",
            "failed",
            "worst acknowledgement",
            "worst way to the reader",
            "plain",
            "refused",
        ]
        rows = [head, ["---"] * len(head)]
        for name, row in self.report["disturbances"].items():
            worst = [f"{row['worst'].get(what, 0):.1f} s" for what in ("sent", "received")]
            rows.append(
                [
                    name,
                    row["seconds"],
                    row["sent"],
                    row["failed"],
                    *worst,
                    row["asked"] + row["refused"],
                    row["refused"],
                ]
            )
        return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)

    def process(self, pod: dict[str, Any]) -> int:
        """Return this machine's process id of the first process in a pod's container."""
        identity = pod["status"]["containerStatuses"][0]["containerID"].split("//")[1]
        tasks = run("ctr", "--address", self.node.state / "containerd.sock", "--namespace", "k8s.io", "tasks", "ls")
        (found,) = [line.split()[1] for line in tasks.splitlines() if line.startswith(identity)]
        return int(found)

    def restarts(self, name: str) -> int:
        """Return how often a pod's container was restarted."""
        return int(
            self.node.get("pod", name, "--namespace", NAMESPACE)["status"]["containerStatuses"][0]["restartCount"]
        )
