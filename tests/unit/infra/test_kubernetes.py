"""What ``infra/kubernetes`` says of a pod's end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
