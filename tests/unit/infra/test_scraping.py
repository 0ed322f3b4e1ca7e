"""Prometheus finds gateways and maintenance wherever they run.

Alarms ask for jobs that exist. In Kubernetes what is scraped may be reached, at the port where the program serves it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.settings.settings import OPERATIONS_PORT

INFRA = Path(__file__).resolve().parents[3] / "infra"
NAME = "app.kubernetes.io/name"
JOBS = {"gateway.yaml": "tidelog-gateway", "maintenance.yaml": "tidelog-maintenance"}
"""The name of each manifest's Deployment, which is that of its job."""

Document = dict[str, Any]


def documents(name: str) -> list[Document]:
    return list(yaml.safe_load_all((INFRA / "kubernetes" / name).read_text()))


def template(manifest: str) -> Document:
    """The pods of a manifest's Deployment."""
    (found,) = [each["spec"]["template"] for each in documents(manifest) if each["kind"] == "Deployment"]
    pod: Document = found
    return pod


def scraped(config: str) -> Document:
    found: Document = yaml.safe_load((INFRA / "observability" / config).read_text())
    return found


def test_alarms_ask_for_jobs_that_there_are() -> None:
    """The same names in compose and in a cluster: an alarm on a job that no installation has would never come."""
    asked = set(re.findall(r'job="([^"]+)"', (INFRA / "observability/alerts.yaml").read_text()))
    assert asked
    assert asked <= set(JOBS.values())
    assert {each["job_name"] for each in scraped("prometheus.yaml")["scrape_configs"]} == set(JOBS.values())


def test_every_alarm_is_seen_to_fire() -> None:
    """promtool's tests (``make lint-infra``) leave out none."""
    alarms = {rule["alert"] for group in scraped("alerts.yaml")["groups"] for rule in group["rules"]}
    fired = {
        each["alertname"]
        for test in scraped("alerts.test.yaml")["tests"]
        for each in test["alert_rule_test"]
        if each.get("exp_alerts")
    }
    assert fired == alarms


@pytest.mark.parametrize("manifest", JOBS)
def test_a_cluster_is_scraped_where_programs_serve(manifest: str) -> None:
    """Prometheus finds the pods by name and port, and calls them as the alarms do; the annotations say the same port."""
    pod, job = template(manifest), JOBS[manifest]
    (config,) = scraped("prometheus-kubernetes.yaml")["scrape_configs"]
    (namespace,) = documents("namespace.yaml")
    assert config["kubernetes_sd_configs"][0]["namespaces"]["names"] == [namespace["metadata"]["name"]]
    by_name, by_port, as_job, _ = config["relabel_configs"]
    labels = pod["metadata"]["labels"]
    assert labels[NAME] == job
    assert by_name["source_labels"] == as_job["source_labels"] == [f"__meta_kubernetes_pod_label_{_as_label(NAME)}"]
    assert as_job["target_label"] == "job"
    assert re.fullmatch(by_name["regex"], job)
    (container,) = pod["spec"]["containers"]
    # The last port is the operators'; clients' own are not scraped.
    *others, port = container["ports"]
    assert re.fullmatch(by_port["regex"], port["name"])
    assert not any(re.fullmatch(by_port["regex"], other["name"]) for other in others)
    annotations = pod["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])
    given = container.get("args", [])
    served = given[given.index("--metrics-port") + 1] if given else str(OPERATIONS_PORT)
    assert served == str(port["containerPort"])
    probes = [container[name]["httpGet"]["port"] for name in ("readinessProbe", "livenessProbe") if not given]
    assert set(probes) <= {port["name"]}


@pytest.mark.parametrize("manifest", JOBS)
def test_policies_let_prometheus_in_and_nobody_else(manifest: str) -> None:
    """Each Deployment has a policy that is open for namespaces with a label of their own, at the port that is scraped; one
    without any label reaches nothing."""
    pod = template(manifest)
    (policy,) = [
        each["spec"] for each in documents("network.yaml")
        if each["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    ]  # fmt: skip
    *others, rule = policy["ingress"]
    assert rule["ports"] == [{"port": pod["spec"]["containers"][0]["ports"][-1]["name"]}]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"tidelog-metrics": "allowed"}}}]
    for each in others:
        assert rule["ports"][0] not in each["ports"]
        assert all(one and all(selector["matchLabels"] for selector in one.values()) for one in each["from"])


def _as_label(name: str) -> str:
    """As Prometheus writes what Kubernetes calls so."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
