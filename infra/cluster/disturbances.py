"""Disturbances of gateways while records are in flight. Each is a function of the run, and a row of its table."""
# ruff: noqa: INP001, S603, S607 - part of a program of its own

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from node import memory_group
from run import HOST, NAMESPACE, WAIT_SECONDS_MAX, Run
from traffic import FILL

from tidelog import Admin

REST_SECONDS: Final = 20
SECRET_SECONDS_MAX: Final = 240
"""Time limit for a changed secret: the kubelet writes it into a pod at its next sync, once every minute or two."""
KAFKA_RECORDS: Final = 200


def rest(run: Run) -> None:
    """Do nothing, for comparison."""
    with run.disturbance("none"):
        time.sleep(REST_SECONDS)


def rolling_update(run: Run) -> None:
    """Replace each gateway by a new one."""
    with run.disturbance("rolling update"):
        run.node.kubectl("rollout", "restart", "deployment/tidelog-gateway", "--namespace", NAMESPACE)
        _rolled(run)


def _rolled(run: Run) -> None:
    run.node.kubectl(
        "rollout", "status", "deployment/tidelog-gateway", "--namespace", NAMESPACE, f"--timeout={WAIT_SECONDS_MAX}s"
    )
    run.until("all gateways are new", run.settled)


def _evict(run: Run, name: str) -> bool:
    """Evict the pod, and return whether the API allowed it; it refuses what the disruption budget forbids."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
    return bool(
        run.node.kubectl("create", "--raw", path, "--filename", "-", standard_input=json.dumps(eviction), check=False)
    )


def drain(run: Run) -> None:
    """Evict every pod, like ``kubectl drain``, as soon as the budget allows it, and check that two are never missing."""
    names = [pod["metadata"]["name"] for pod in run.gateways()]
    refused, fewest = 0, len(names)
    with run.disturbance("drain"):
        for name in names:
            while not _evict(run, name):
                refused += 1
                fewest = min(fewest, len(run.gateways()))
                time.sleep(1)
        run.until("all gateways were evicted", run.settled)
    run.say(
        f"the budget refused {refused} evictions; {fewest} gateways were ready at least",
        evictions_refused=refused, gateways_ready_min=fewest,
    )  # fmt: skip
    if not refused or fewest < len(names) - 1:
        raise SystemExit("the budget for disruptions did not hold")


def kill(run: Run) -> None:
    """Kill a gateway's process, which can't drain."""
    pod = run.gateways()[0]
    name = pod["metadata"]["name"]
    with run.disturbance("kill"):
        starts = run.restarts(name)
        os.kill(run.process(pod), 9)
        run.until("the gateway was killed, and is back", lambda: run.restarts(name) > starts and run.settled())


def delete(run: Run) -> None:
    """Delete a gateway's pod without a grace period: its address disappears immediately."""
    name = run.gateways()[0]["metadata"]["name"]
    with run.disturbance("pod deleted by force"):
        run.node.kubectl("delete", "pod", name, "--namespace", NAMESPACE, "--grace-period=0", "--force")
        run.until("another gateway is there", run.settled)


def out_of_memory(run: Run) -> None:
    """Fill the memory of a gateway's container by another process, so that the kernel kills the gateway."""
    pod = run.gateways()[0]
    name = pod["metadata"]["name"]
    with run.disturbance("out of memory"):
        starts, process = run.restarts(name), run.process(pod)
        Path(f"/proc/{process}/oom_score_adj").write_text("1000")
        command = f"echo $$ > {memory_group(process)}/cgroup.procs && exec {sys.executable} -c '{FILL}'"
        filling = subprocess.Popen(["sh", "-c", command], stderr=subprocess.DEVNULL)
        try:
            run.until("the kernel has ended a gateway", lambda: not Path(f"/proc/{process}").exists())
        finally:
            filling.kill()
            filling.wait()
        run.until("it is back", lambda: run.restarts(name) > starts and run.settled())
    ended = run.node.get("pod", name, "--namespace", NAMESPACE)["status"]["containerStatuses"][0]["lastState"][
        "terminated"
    ]
    run.say(f"it was ended as {ended['reason']}, {ended['exitCode']}", out_of_memory=ended["reason"])


def renew(run: Run) -> None:
    """Renew the certificate, and check that all gateways present it without a restart."""
    context = ssl.create_default_context(cafile=run.connection["ca_file"])
    context.check_hostname = False

    def shown() -> set[bytes]:
        return {_certificate(context, pod["status"]["podIP"]) for pod in run.gateways()}

    before = shown()
    starts = sorted((pod["metadata"]["name"], run.restarts(pod["metadata"]["name"])) for pod in run.gateways())
    with run.disturbance("certificate renewed"):
        run.certify()
        new = ssl.PEM_cert_to_DER_cert((run.authority.directory / "tls.crt").read_text())
        run.until("all gateways show the new certificate", lambda: shown() == {new}, seconds_max=SECRET_SECONDS_MAX)
    assert before != {new}
    after = sorted((pod["metadata"]["name"], run.restarts(pod["metadata"]["name"])) for pod in run.gateways())
    if starts != after:
        raise SystemExit(f"gateways were started again: {starts}, {after}")


def _certificate(context: ssl.SSLContext, address: str) -> bytes:
    with (
        socket.create_connection((address, 8080), 10) as plain,
        context.wrap_socket(plain, server_hostname=HOST) as secured,
    ):
        return secured.getpeercert(binary_form=True) or b""


def kafka(run: Run) -> None:
    """Enable the component for Kafka's clients, and check that records are sent and read by its protocol."""
    with run.disturbance("Kafka turned on"):
        run.apply("kafka")
        _rolled(run)
        with Admin(f"https://{HOST}:8080", **run.connection) as admin:
            admin.create_topic("kafka", 2)
        settings: dict[str, Any] = {
            "bootstrap.servers": "tidelog-kafka.tidelog.svc:9092", "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN", "sasl.username": "bootstrap", "sasl.password": run.token_file.read_text().strip(),
            "ssl.ca.location": run.connection["ca_file"], "ssl.endpoint.identification.algorithm": "none",
        }  # fmt: skip
        failed: list[Any] = []
        producer = confluent_kafka.Producer(settings)
        for number in range(KAFKA_RECORDS):
            producer.produce("kafka", str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(60) == 0
        consumer = confluent_kafka.Consumer({**settings, "group.id": "line", "auto.offset.reset": "earliest"})
        consumer.subscribe(["kafka"])
        seen: list[str] = []
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while len(seen) < KAFKA_RECORDS and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                seen.append(message.value().decode())
        consumer.close()
    run.say(
        f"by Kafka's protocol: {len(seen)} of {KAFKA_RECORDS} records, {len(failed)} failed", kafka_records=len(seen)
    )
    if failed or sorted(seen, key=int) != [str(number) for number in range(KAFKA_RECORDS)]:
        raise SystemExit(f"Kafka's records: {failed[:3]}, {len(seen)}")


def scale(run: Run) -> None:
    """Let the autoscaler, which reads the gateways' usage, add a gateway and remove it again."""
    with run.disturbance("scaled out and in"):
        run.until("the autoscaler knows what gateways use", lambda: "currentMetrics" in _autoscaler(run))
        _patch_autoscaler(run, {"minReplicas": 3, "maxReplicas": 4, "metrics": [_utilization(1)]})
        run.until("the autoscaler added a gateway", lambda: run.settled(4))
        _patch_autoscaler(
            run, {"metrics": [_utilization(1000)], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}
        )
        run.until("the autoscaler took one away", run.settled)


def _autoscaler(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = run.node.get("hpa", "tidelog-gateway", "--namespace", NAMESPACE)["status"]
    return found


def _utilization(percent: int) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": percent}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def _patch_autoscaler(run: Run, specification: dict[str, Any]) -> None:
    patch = json.dumps({"spec": specification})
    run.node.kubectl("patch", "hpa", "tidelog-gateway", "--namespace", NAMESPACE, "--type=merge", "--patch", patch)
