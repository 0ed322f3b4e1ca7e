"""Run ``compose.yaml`` on Docker, unchanged, and simulate failures: ``line.py DIRECTORY [--built] [--json]`` (make docker).

It uses the running Docker engine; if none answers it starts one, which ends with this program (needs root, and
``apt-get install docker.io debootstrap``). ``engine.py`` builds our images from the unchanged Dockerfiles, and stand-ins for
others' images. Grafana is left out, but Prometheus is asked the dashboard's queries.

Then: ``up --wait``, records through the proxy and back, the pipeline's result, rounds of maintenance, one of them by EMR's image,
Prometheus' targets, rules and answers. Under load a gateway is stopped and returns at another address, the other one is killed,
and one is killed by the kernel for lack of memory: no request may fail. A gateway in a small container gets more than it can
hold: it may refuse, but must not end. No port answers to a foreign name. Then all services stop, with success, and gateways come
up with ``kafka.yaml`` and with all three overlays together. ``--built`` uses the images of an earlier run. DIRECTORY keeps them.
"""
# ruff: noqa: INP001, T201 - a program of its own

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import boto3
import confluent_kafka
import urllib3
import yaml
from botocore.exceptions import ClientError
from engine import ROOT, WAIT_SECONDS_MAX, Docker, build, engine, plugin, weigh
from traffic import FILL, maintenance_rounds, send_and_read, send_until

from tidelog import Admin, TidelogError

OBSERVABILITY: Final = ROOT / "infra/observability"
URL: Final = "http://127.0.0.1:8080"
STORE: Final = "http://127.0.0.1:9000"
PROMETHEUS: Final = "http://127.0.0.1:9090/api/v1"
MUST_END_WELL: Final = ("gateway-1", "gateway-2", "maintenance", "example-topic", "example-pipeline")

CALM_SECONDS: Final = 10
STARVED_SECONDS: Final = 20
SMALL_URL: Final = "http://127.0.0.1:8089"
LARGE_BYTES: Final = 15_000_000
"""Size of a body: almost ``request_bytes_max``, of the smallest records, which take the most memory."""
STORE_THREADS_MAX: Final = 16
"""Threads of the pipeline's two pools for the store: S3A's own default is 96 for each."""

_http = urllib3.PoolManager(retries=False)


def walk(docker: Docker) -> None:
    """Send records through the proxy and back, and check the other services' results."""
    records = send_and_read(URL, "orders")
    docker.say(f"{records} records went to the proxy and came back", records=records)
    result = ("exec", "tidelog-example-pipeline-1", "cat", "delays/result.json")
    docker.until("the pipeline has a result", lambda: len(docker.call(*result, check=False)) > len("[]"))
    used = json.loads(docker.call("stats", "--no-stream", "--format", "{{json .}}", "tidelog-example-pipeline-1"))
    docker.say(f"the pipeline has {used['PIDs']} threads and {used['MemUsage']}", pipeline_threads=int(used["PIDs"]))
    names = docker.call("exec", "tidelog-example-pipeline-1", "sh", "-c", "cat /proc/[0-9]*/task/*/comm; true")
    of_store = [name for name in names.splitlines() if name.startswith(("s3a-transfer", "s3-analytics"))]
    assert 0 < len(of_store) <= STORE_THREADS_MAX, of_store
    docker.until(
        "maintenance made a round", lambda: bool(_rounds(docker.compose("logs", "--no-log-prefix", "maintenance")))
    )
    watched(docker)


def _rounds(output: str) -> list[dict[str, Any]]:
    """Return maintenance's reports of its rounds, none of which may have failed with a topic."""
    found = maintenance_rounds(output)
    assert not any(event["failed_topics"] for event in found), output
    return found


def refuse_foreign_names(docker: Docker) -> None:
    """Check that no port answers to a name that a web site could let resolve to this machine (DNS rebinding), and that Prometheus
    lets no other page read its answers."""
    for url, status in ((f"{URL}/v1/topics", 400), (f"{URL}/readyz", 400), (f"{PROMETHEUS}/targets", 421)):
        for host in ("rebound.example", f"rebound.example:{url.split('/')[2].rpartition(':')[2]}"):
            answer = _http.request("GET", url, headers={"host": host}, timeout=30)
            assert answer.status == status, f"{url} as {host}: {answer.status} {answer.data[:300]!r}"
    answer = _http.request("GET", f"{PROMETHEUS}/targets", headers={"origin": "https://page.example"}, timeout=30)
    assert "access-control-allow-origin" not in answer.headers, "every web page may read Prometheus"
    docker.say("foreign names are refused", foreign_names="refused")


def on_emr(docker: Docker) -> None:
    """Let EMR's image make a round as EMR would start it: with its user, and the Python that Terraform names."""
    services = json.loads(docker.compose("config", "--format", "json"))["services"]
    environment = [f"--env={name}={value}" for name, value in services["maintenance"]["environment"].items()]
    contained = ("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--memory=3g")
    command = (
        "/opt/tidelog/bin/python",
        "/opt/tidelog/maintenance.py",
        "--store",
        "s3://tidelog/log",
        "--once",
        "--json",
    )
    options = ("run", "--rm", "--network=tidelog_default", *contained, *environment, "tidelog-emr")
    assert _rounds(docker.call(*options, *command, "--workers", "local"))
    docker.say("EMR's image made a round", emr=True)


def watched(docker: Docker) -> None:
    """Check that Prometheus reaches its targets, evaluates every rule, and answers the dashboard's queries."""

    def asked(path: str, **fields: str) -> Any:
        answer = _http.request("GET", f"{PROMETHEUS}/{path}", fields=fields, timeout=30)
        assert answer.status == 200, f"{path} {fields}: {answer.status} {answer.data[:500]!r}"
        return json.loads(answer.data)["data"]

    def rules() -> dict[str, str]:
        return {rule["name"]: rule["health"] for group in asked("rules")["groups"] for rule in group["rules"]}

    def targets() -> set[str]:
        return {target["health"] for target in asked("targets")["activeTargets"]}

    docker.until("Prometheus reaches all that it watches", lambda: targets() == {"up"})
    docker.until("Prometheus evaluates every rule", lambda: set(rules().values()) == {"ok"})
    written = yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text())["groups"]
    assert set(rules()) == {rule["alert"] for group in written for rule in group["rules"]}
    panels = json.loads((OBSERVABILITY / "grafana/dashboards/tidelog.json").read_text())["panels"]
    queries = [each["expr"].replace("$__rate_interval", "1m") for panel in panels for each in panel.get("targets", [])]
    answered = [query for query in queries if asked("query", query=query)["result"]]
    docker.say(f"{len(answered)} of the dashboard's {len(queries)} questions have figures", answered=len(answered))
    assert len(answered) > len(queries) // 2, answered


class Latencies:
    """Latencies and failures of the records that a sender sends, by what was done to the services meanwhile."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.failed: list[str] = []
        self.table: dict[str, dict[str, Any]] = {}

    def add(self, _name: str, seconds: float, failure: TidelogError | None) -> None:
        """Add one record."""
        self.seconds.append(seconds)
        if failure is not None:
            self.failed.append(repr(failure)[:300])

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Record the latencies of the requests that end within this block, of which there must be at least one."""
        since, failed = len(self.seconds), len(self.failed)
        yield
        taken = sorted(self.seconds[since:])
        assert taken, f"nothing was acknowledged: {what}"
        figures = {"median": statistics.median(taken), "p99": taken[len(taken) * 99 // 100], "worst": taken[-1]}
        self.table[what] = {
            "requests": len(taken), "failed": len(self.failed) - failed,
            **{f"{name}_ms": round(value * 1000) for name, value in figures.items()},
        }  # fmt: skip


@contextmanager
def load(docker: Docker) -> Iterator[Latencies]:
    """Send records to the proxy, one after another, of which none may fail."""
    found, ended = Latencies(), threading.Event()
    sender = threading.Thread(target=send_until, args=(ended, URL, "orders", found.add))
    sender.start()
    try:
        yield found
    finally:
        ended.set()
        sender.join(WAIT_SECONDS_MAX)
    for what, figures in found.table.items():
        docker.say(f"under load: {what}: {figures}", load=found.table)
    if found.failed:
        raise SystemExit(f"requests failed: {found.failed}")


def misfortune(docker: Docker) -> None:
    """Stop a gateway that returns at another address, kill the other one, and let one run out of memory."""

    def healthy(name: str) -> bool:
        return docker.state(name, ".State.Health.Status") == "healthy"

    def again(name: str, starts: int) -> bool:
        return int(docker.state(name, ".RestartCount")) > starts and healthy(name)

    with load(docker) as found:
        with found.during("nothing"):
            time.sleep(CALM_SECONDS)
        with found.during("a gateway is stopped, and comes back at another address"):
            before = docker.address("tidelog-gateway-1-1")
            docker.compose("stop", "gateway-1")
            command = ("--network", "tidelog_default", "--entrypoint", "sleep", "tidelog-gateway", "600")
            taker = docker.call("run", "--detach", "--rm", *command)
            docker.compose("start", "gateway-1")
            docker.until("a gateway was stopped and started", lambda: healthy("gateway-1"))
        assert docker.address("tidelog-gateway-1-1") != before, "its address was to be taken by another container"
        docker.call("kill", taker)
        with found.during("the other gateway is killed"):
            starts = int(docker.state("gateway-2", ".RestartCount"))
            os.kill(int(docker.state("gateway-2", ".State.Pid")), 9)
            docker.until("a gateway was killed, and is back", lambda: again("gateway-2", starts))
        with found.during("the kernel ends a gateway for want of memory"):
            starts = int(docker.state("gateway-2", ".RestartCount"))
            pid = docker.state("gateway-2", ".State.Pid")
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
            docker.call("exec", "tidelog-gateway-2-1", "python", "-c", FILL, check=False)
            docker.until("a gateway ran out of memory, and is back", lambda: again("gateway-2", starts))


def starved(docker: Docker) -> None:
    """Overload a gateway whose container has less memory than its settings may use: it may refuse, but must not end."""
    services = json.loads(docker.compose("config", "--format", "json"))["services"]
    own = {"TIDELOG_STORE": "s3://tidelog/small", "TIDELOG_LOG_LEVEL": "warning"}
    environment = [f"--env={name}={value}" for name, value in (services["gateway-1"]["environment"] | own).items()]
    options = ("--network=tidelog_default", "--publish=127.0.0.1:8089:8080", "--memory=448m", "--memory-swap=448m")
    name = docker.call("run", "--detach", "--read-only", "--cap-drop=ALL", *options, *environment, "tidelog-gateway")
    docker.until(
        "a small gateway is well",
        lambda: docker.call("inspect", "--format", "{{.State.Health.Status}}", name) == "healthy",
    )
    body = b'{"records":[' + b",".join([b'{"value":"x"}'] * (LARGE_BYTES // 14)) + b"]}"
    statuses: Counter[int] = Counter()
    ends = time.monotonic() + STARVED_SECONDS

    def send() -> None:
        while time.monotonic() < ends:
            headers = {"content-type": "application/json"}
            answer = _http.request(
                "POST", f"{SMALL_URL}/v1/topics/large/records", body=body, headers=headers, timeout=120
            )
            statuses[answer.status] += 1

    with Admin(SMALL_URL) as admin:
        admin.create_topic("large", 2)
    with ThreadPoolExecutor(6) as pool:
        for sent in [pool.submit(send) for _ in range(6)]:
            sent.result()
    state = json.loads(docker.call("inspect", "--format", "{{json .State}}", name))
    docker.say(f"a small gateway answered {dict(statuses)}", small=dict(statuses))
    assert (state["Running"], state["OOMKilled"]) == (True, False), f"{state}\n{docker.call('logs', name)[-3000:]}"
    assert statuses[200], statuses
    assert set(statuses) <= {200, 503}, statuses
    docker.call("rm", "--force", "--volumes", name)


def _acknowledged(port: int, token: str | None) -> list[Any]:
    """Return the errors, None for none, of one record that a Kafka client sends to a gateway's port."""
    told: list[Any] = []

    def note(error: Any, message: Any) -> None:
        del message
        told.append(error)

    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "bootstrap"}
    with_token = {} if token is None else {**login, "sasl.password": token}
    kafka = confluent_kafka.Producer({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0, **with_token})
    kafka.produce("flights", b"{}", on_delivery=note)
    kafka.flush(60)
    return told


def _buckets(password: str) -> list[str]:
    """Return the names of MinIO's buckets as seen from this machine; raise ClientError for a wrong password."""
    keys = {"aws_access_key_id": "minioadmin", "aws_secret_access_key": password}
    client = boto3.client("s3", endpoint_url=STORE, region_name="us-east-1", **keys)
    return [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]


def _check_doors_with_passwords(token: str, password: str) -> None:
    """Check that neither gateways nor MinIO let anybody in without token and password."""
    assert _http.request("GET", f"{URL}/v1/topics").status == 401, "it was let in without a token"
    with Admin(URL, token=token) as admin:
        assert "flights" in [topic.name for topic in admin.list_topics()]
    assert _buckets(password) == ["tidelog"]
    with suppress(ClientError):
        raise SystemExit(f"MinIO takes its default password: {_buckets('minioadmin')}")


def overlays(docker: Docker) -> None:
    """Check gateways with Kafka listeners, where each broker serves records, without and with the other overlays: then no request
    passes without a token, and MinIO has a password of its own."""
    token, password = f"tl_bootstrap_{secrets.token_urlsafe(32)}", secrets.token_hex(16)
    for names in (("kafka",), ("auth", "kafka", "store")):
        docker.overlay = tuple(ROOT / f"infra/local/{name}.yaml" for name in names)
        has_token = "auth" in names
        if has_token:
            docker.environment |= {"BOOTSTRAP_TOKEN": token, "CLUSTER_KEY": secrets.token_hex(32)}
            assert not docker.compose("config", check=False), "no password of MinIO is asked for"
            docker.environment["MINIO_ROOT_PASSWORD"] = password
        docker.compose("up", "--no-build", "--wait", "--wait-timeout", str(WAIT_SECONDS_MAX), "example-topic")
        if has_token:
            _check_doors_with_passwords(token, password)
        for port in (9092, 9093):
            assert _acknowledged(port, token if has_token else None) == [None], port
        docker.compose("down", "--volumes", "--timeout", "60")
        docker.say(f"{' and '.join(names)}: well", **dict.fromkeys(names, True))
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
        refuse_foreign_names(docker)
        on_emr(docker)
        misfortune(docker)
        starved(docker)
        docker.compose("stop")
        codes = {name: int(docker.state(name, ".State.ExitCode")) for name in MUST_END_WELL}
        docker.say(f"stopped: {codes}", ended_with=codes)
        if any(codes.values()):
            raise SystemExit(f"not all ended well: {codes}\n{docker.compose('logs', '--tail', '8')[-4000:]}")
        docker.compose("down", "--volumes")
        overlays(docker)
    docker.say("all of it works", minutes=docker.minutes())
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
