"""Stages other than disturbances: maintenance, a Spark job as a pod, policies, and the chart."""
# ruff: noqa: INP001 - part of a program of its own

from __future__ import annotations

import json
import re
import sys
from typing import Any, Final

import yaml
from node import DNS
from node import run as call
from run import HERE, HOST, NAMESPACE, URL, Run
from traffic import maintenance_rounds, send_and_read

from tidelog import Admin, Producer

CHART: Final = HERE.parent / "helm/tidelog"
CHARTED: Final = "charted"
FLIGHTS: Final = 400
CONNECT_SECONDS_MAX: Final = 4


def walk(run: Run, url: str = URL, topic: str = "orders") -> None:
    """Send records through the Service and read them back."""
    records = send_and_read(url, topic, **run.connection)
    run.say(f"{records} records went to {url} and came back")


def maintenance(run: Run) -> None:
    """Check that maintenance makes rounds, and that another one takes over when it is killed."""

    def rounds() -> list[dict[str, Any]]:
        return maintenance_rounds(
            run.node.kubectl("logs", "deployment/tidelog-maintenance", "--namespace", NAMESPACE, check=False)
        )

    run.until("maintenance made a round", rounds)
    before = {pod["metadata"]["name"] for pod in run.pods("tidelog-maintenance")}
    with run.disturbance("maintenance deleted by force"):
        selected = ("pod", "--namespace", NAMESPACE, "--selector", "app.kubernetes.io/name=tidelog-maintenance")
        run.node.kubectl("delete", *selected, "--grace-period=0", "--force")
        run.until(
            "another one is there", lambda: {p["metadata"]["name"] for p in run.pods("tidelog-maintenance")} - before
        )
        found = run.until("it made a round, too", rounds)
    if any(event["failed_topics"] for event in found):
        raise SystemExit(f"maintenance failed with topics: {found}")


def job(run: Run) -> None:
    """Run a Spark job as a pod, which reads all flights."""
    with Admin(URL, **run.connection) as admin, Producer(URL, **run.connection) as producer:
        admin.create_topic("flights", 2)
        for number in range(FLIGHTS):
            flight = {"hour": number % 24, "carrier": f"T{number % 3}", "dep_delay": number % 60}
            producer.send("flights", json.dumps(flight), key=str(number))
    with run.disturbance("Spark job"):
        run.apply("job")

        def ended() -> str:
            status = run.node.get("job", "flight-delays", "--namespace", NAMESPACE)["status"]
            return "succeeded" if status.get("succeeded") else "failed" if status.get("failed") else ""

        outcome = run.until("the Spark job has ended", ended)
    if outcome != "succeeded":
        raise SystemExit(run.node.kubectl("logs", "job/flight-delays", "--namespace", NAMESPACE)[-4000:])
    run.say(f"the Spark job {outcome}", spark_job=outcome)


def policies(run: Run) -> None:
    """Check that the policies of the network shut out a namespace, let it in by its labels, and bound a gateway."""
    taken = [each["metadata"]["name"] for each in run.node.get("networkpolicy", "--namespace", NAMESPACE)["items"]]
    budget = run.node.get("pdb", "tidelog-gateway", "--namespace", NAMESPACE)["status"]
    run.say(f"policies of the network: {taken}; disruptions allowed: {budget['disruptionsAllowed']}", policies=taken)
    assert sorted(taken) == ["tidelog-gateway", "tidelog-maintenance"]
    run.node.kubectl("apply", "--filename", str(HERE / "system/stranger.yaml"))
    run.node.kubectl("wait", "pod/stranger", "--namespace", "strangers", "--for=condition=Ready", "--timeout=240s")
    gateway = run.gateways()[0]
    at = {"gateway": (gateway["status"]["podIP"], 8080), "operations": (gateway["status"]["podIP"], 8081)}
    at["maintenance"] = (run.pods("tidelog-maintenance")[0]["status"]["podIP"], 9102)
    at |= {"service": (HOST, 8080), "store": ("minio.store.svc", 9000), "DNS": (DNS, 53)}
    stranger, own = ("strangers", "stranger"), (NAMESPACE, gateway["metadata"]["name"])

    def open_to(pod: tuple[str, str]) -> set[str]:
        return {name for name, address in at.items() if _reaches(run, pod, *address)}

    run.until("a stranger reaches DNS alone", lambda: open_to(stranger) == {"DNS"})
    run.node.kubectl("label", "namespace", "strangers", "tidelog-client=allowed")
    run.until("a client reaches gateways, too", lambda: open_to(stranger) == {"DNS", "gateway", "service"})
    run.node.kubectl("label", "namespace", "strangers", "tidelog-client-", "tidelog-metrics=allowed")
    run.until("who collects metrics reaches them", lambda: open_to(stranger) == {"DNS", "operations", "maintenance"})
    # Its own pod's ports are not judged; nor is what the node itself asks, such as probes.
    at |= {"health of DNS": (_address(run, "kube-system", "k8s-app=kube-dns"), 8080)}
    reached = open_to(own) - {"gateway", "operations"}
    run.say(f"a gateway reaches {sorted(reached)}", gateway_reaches=sorted(reached))
    if reached != {"DNS", "service", "store"}:
        raise SystemExit("the policies of the network do not hold for a gateway")
    run.node.kubectl("delete", "--filename", str(HERE / "system/stranger.yaml"))


def _address(run: Run, namespace: str, selector: str) -> str:
    pods = run.node.get("pods", "--namespace", namespace, "--selector", selector)["items"]
    return str(pods[0]["status"]["podIP"])


def _reaches(run: Run, pod: tuple[str, str], host: str, port: int) -> bool:
    """Return whether a connection from the pod of that namespace and name is accepted within a few seconds."""
    program = (
        "import socket\n"
        f"try: socket.create_connection(({host!r}, {port}), {CONNECT_SECONDS_MAX}).close()\n"
        "except TimeoutError: print('shut')\n"
        "else: print('open')"
    )
    said = run.node.kubectl("exec", pod[1], "--namespace", pod[0], "--", "python", "-c", program).strip()
    return said == "open"


def _objects(text: str) -> dict[tuple[str, str], Any]:
    """Return objects by kind and name, with variables in order, without digests in names of maps and without namespaces, which
    Helm creates itself."""
    found = list(yaml.safe_load_all(re.sub(r"(tidelog-store)-[0-9a-z]{10}\b", r"\1", text)))
    for each in found:
        if each:
            each["metadata"].pop("namespace", None)
    objects = {(each["kind"], each["metadata"]["name"]): each for each in found if each and each["kind"] != "Namespace"}
    _variables(objects["Deployment", "tidelog-gateway"]).sort(key=lambda each: each["name"])
    return objects


def _variables(deployment: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the variables of a Deployment's only container, to read or to change."""
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    variables: list[dict[str, Any]] = container["env"]
    return variables


def chart(run: Run) -> None:
    """Check that the chart is valid and equals the kustomization, and install, upgrade and remove it in its own namespace.

    An upgrade changes a variable that the chart sets itself: the pods must have the new value, once.
    """
    settings = {
        "images": {
            "gateway": "docker.io/library/tidelog-gateway:line",
            "spark": "docker.io/library/tidelog-spark:line",
        },
        "store": {"TIDELOG_STORE": f"s3://tidelog/{CHARTED}", "AWS_REGION": "us-east-1"},
        "gateway": {"cpu": "250m", "replicasMin": 2, "replicasMax": 2},
        "maintenance": {"cpu": "250m"},
        "network": {"egress": [{"ports": [{"port": 9000}]}]},
    }
    values = run.node.state / "values.yaml"
    values.write_text(yaml.safe_dump(settings))
    helm = (run.programs / "helm", "--kubeconfig", run.node.state / "admin.yaml")
    call(*helm, "lint", "--strict", CHART, "--namespace", NAMESPACE)
    expected = _objects(run.node.kubectl("kustomize", str(HERE.parent / "kubernetes")))
    store = f"store.TIDELOG_STORE={expected['ConfigMap', 'tidelog-store']['data']['TIDELOG_STORE']}"
    made = _objects(call(*helm, "template", "tidelog", CHART, "--namespace", NAMESPACE, "--set", store))
    if made != expected:
        differ = [key for key in made.keys() | expected.keys() if made.get(key) != expected.get(key)]
        raise SystemExit(f"the chart and the kustomization differ: {differ}")
    run.say(f"the chart is well-formed, and its {len(made)} objects are the kustomization's")
    run.say(
        call(sys.executable, HERE.parents[1] / "tests/infrastructure/rehearse_chart.py", run.programs / "helm").strip()
    )
    run.node.kubectl("delete", "--kustomize", str(HERE / "overlays/job"))
    run.node.kubectl("create", "namespace", CHARTED)
    run.node.kubectl("label", "namespace", CHARTED, "pod-security.kubernetes.io/enforce=restricted")
    run.secrets(CHARTED)
    at = ("tidelog", CHART, "--namespace", CHARTED, "--values", values, "--wait", "--timeout", "5m")
    call(*helm, "install", *at)
    run.say("the chart is installed")
    walk(run, f"https://tidelog.{CHARTED}.svc:8080", "charted")
    call(*helm, "upgrade", *at, "--set", "gateway.settings.TIDELOG_LOG_LEVEL=info", "--set", "kafka.enabled=true")
    walk(run, f"https://tidelog.{CHARTED}.svc:8080", "upgraded")
    upgraded = _variables(run.node.get("deployment", "tidelog-gateway", "--namespace", CHARTED))
    levels = [each["value"] for each in upgraded if each["name"] == "TIDELOG_LOG_LEVEL"]
    if levels != ["info"]:
        raise SystemExit(f"after the upgrade gateways have the levels {levels}")
    call(*helm, "uninstall", "tidelog", "--namespace", CHARTED, "--wait")
    run.say("the chart was upgraded, and removed", chart=True)
