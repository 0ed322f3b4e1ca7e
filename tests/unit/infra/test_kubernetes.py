"""What ``infra/kubernetes`` says of a pod's start, place, addresses and end."""

from __future__ import annotations

import os
import re
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from gateway.settings.settings import Settings
from log_format.stores.open import open_store
from tests.support.manifests import kustomized

KUBERNETES = Path(__file__).resolve().parents[3] / "infra/kubernetes"
PODS: dict[str, Any] = {
    each["metadata"]["name"]: each["spec"]["template"]["spec"]
    for each in kustomized(KUBERNETES)
    if each["kind"] == "Deployment"
}
UNTIL_NODES_KNOW_SECONDS = 5
"""Until every node has stopped to send new connections to a pod that ends."""


def _gateway() -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod, and its container."""
    pod = PODS["tidelog-gateway"]
    (container,) = pod["containers"]
    return pod, container


def _seconds_before_sigterm(container: dict[str, Any]) -> int:
    program, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    return int(seconds)


def test_a_gateway_takes_work_until_nothing_new_is_sent_to_it() -> None:
    """SIGTERM comes at the same time as the news that the pod leaves its Service: without a wait before it, new connections would
    meet a gateway that refuses."""
    _, container = _gateway()
    assert _seconds_before_sigterm(container) >= UNTIL_NODES_KNOW_SECONDS


def test_a_gateway_has_the_time_that_its_drain_may_take() -> None:
    """What comes before SIGTERM counts, too."""
    pod, container = _gateway()
    values = {each["name"]: each.get("value") for each in container["env"]}
    drain_ms = int(values["TIDELOG_DRAIN_NOTICE_MS"]) + int(values["TIDELOG_DRAIN_TIMEOUT_MS"])
    assert pod["terminationGracePeriodSeconds"] > _seconds_before_sigterm(container) + drain_ms / 1000


def test_pods_are_spread_over_zones_and_nodes() -> None:
    """A lost node takes few gateways along where a cluster has no zones; neither keeps a pod from starting."""
    pod, _ = _gateway()
    spread = {each["topologyKey"]: each["whenUnsatisfiable"] for each in pod["topologySpreadConstraints"]}
    assert spread == {
        "topology.kubernetes.io/zone": "ScheduleAnyway",
        "kubernetes.io/hostname": "ScheduleAnyway",
    }


def test_a_slow_start_has_longer_than_a_gateway_that_hangs() -> None:
    """The probe of the start has more time than that of life, which begins after it."""
    _, container = _gateway()

    def seconds(probe: str) -> int:
        return int(container[probe]["periodSeconds"]) * int(container[probe]["failureThreshold"])

    assert seconds("startupProbe") >= 120 > seconds("livenessProbe")
    assert container["startupProbe"]["httpGet"] == container["livenessProbe"]["httpGet"]


def test_a_bucket_must_be_named() -> None:
    """What stands in the bucket's place before the edit is nobody's bucket, and a gateway says so instead of asking for it."""
    (store,) = [
        each["data"]["TIDELOG_STORE"]
        for each in kustomized(KUBERNETES)
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == "tidelog-store"
    ]
    with pytest.raises(ValueError, match="'<bucket>' is no bucket name"):
        open_store(store)


def test_policies_let_out_to_stores_of_both_families() -> None:
    """Port 443 of IPv4 and of IPv6, without the addresses at which clouds hand out credentials."""
    policies = [each["spec"] for each in kustomized(KUBERNETES) if each["kind"] == "NetworkPolicy"]
    assert len(policies) == 2
    for policy in policies:
        blocks = [peer["ipBlock"] for rule in policy["egress"] for peer in rule["to"] if "ipBlock" in peer]
        networks = {ip_network(block["cidr"]): list(map(ip_network, block["except"])) for block in blocks}
        assert {str(network) for network in networks} == {"0.0.0.0/0", "::/0"}
        for address in map(
            ip_address, ("169.254.169.254", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254")
        ):
            excepted = [kept for network, kept in networks.items() if address in network]
            assert any(address in each for kept in excepted for each in kept), address


@pytest.mark.parametrize(
    ("addresses", "host", "url", "kafka"),
    [
        ("10.0.0.7", "0.0.0.0", "https://10.0.0.7:8080", ("0.0.0.0:9092", "10.0.0.7:9092")),
        ("fd00::7", "::", "https://[fd00::7]:8080", ("[::]:9092", "[fd00::7]:9092")),
        ("fd00::7 10.0.0.7", "0.0.0.0", "https://10.0.0.7:8080", ("0.0.0.0:9092", "10.0.0.7:9092")),
    ],
)
def test_a_pod_of_ipv6_is_reached_by_it(
    tmp_path: Path, addresses: str, host: str, url: str, kafka: tuple[str, str]
) -> None:
    """The image's entry point listens on addresses of the pod's kind, and tells others a URL that a gateway takes."""
    (tmp_path / "python").write_text("#!/bin/sh\nenv\n")
    (tmp_path / "python").chmod(0o755)
    image = (KUBERNETES.parent / "docker/gateway.Dockerfile").read_text()
    given = dict(re.findall(r"\b(TIDELOG_\w+)=(\S+)", image))
    given |= {each["name"]: each["value"] for each in _gateway()[1]["env"] if "value" in each}
    named = [each["name"] for each in _gateway()[1]["env"] if "status.podIP" in str(each.get("valueFrom"))]
    given |= dict.fromkeys(named, addresses) | {
        "GATEWAY_KAFKA_PORT": "9092",
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
    }
    command = ["sh", str(KUBERNETES.parent / "docker/gateway-entrypoint.sh")]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True, timeout=60)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if line.startswith("TIDELOG_"))
    settings = Settings.read({"TIDELOG_STORE": "x", **found}, {})
    assert (settings.host, settings.ops_host, settings.url) == (host, host, url)
    assert (settings.kafka_listen, settings.kafka_advertised) == kafka


def test_nobody_is_told_to_type_a_secret() -> None:
    """Every user of the machine sees what stands on a command line: secrets are made from files, in each text that says how."""
    root = KUBERNETES.parents[1]
    texts = [*root.glob("docs/*.md"), *KUBERNETES.glob("**/*.yaml"), *root.glob("infra/helm/**/*.yaml")]
    told = {path.name for path in texts if "create secret" in path.read_text()}
    assert told >= {"deploy.md", "kustomization.yaml"}
    assert [path.name for path in texts if re.search(r"--from-literal|--secret-string [^f]", path.read_text())] == []
