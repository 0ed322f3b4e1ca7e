"""Limits of containers hold what the settings bound: a gateway, and its readers of history."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.catch_up_reads.settings import READER_BYTES
from gateway.settings.settings import PROCESS_BYTES_MAX, Settings
from tests.support.compose import services

INFRA = Path(__file__).resolve().parents[3] / "infra"


def _pod() -> Any:
    documents = yaml.safe_load_all((INFRA / "kubernetes/gateway.yaml").read_text())
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    return deployment["spec"]["template"]["spec"]


def _mebibytes(text: str) -> int:
    """``768Mi`` as Kubernetes has it, or ``768m`` as compose has it."""
    return int(text.removesuffix("i").removesuffix("M").removesuffix("m")) << 20


def _together_bytes(**given: Any) -> int:
    """What a gateway and its readers of history hold at most."""
    settings = Settings(store="x", **given)
    assert settings.readers_bytes == READER_BYTES, "one reader by default"
    return settings.process_bytes() + settings.readers_bytes


KAFKA = {"kafka_listen": "127.0.0.1:9092", "kafka_advertised": "log.example.com:9092"}
TLS = {"tls_cert": "/cert", "tls_key": "/key"}


def test_pods_have_memory_for_a_gateway_and_its_reader_of_history() -> None:
    """The limit holds both, with rights and TLS, also with Kafka's listener. The gateway alone is what a node sets aside."""
    pod = _pod()
    (container,) = pod["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    asked = {name: values[f"TIDELOG_{name.upper()}"] for name in ("auth", "tls_cert", "tls_key")}
    resources = container["resources"]
    assert _mebibytes(resources["limits"]["memory"]) > _together_bytes(**asked)
    alone_bytes = _together_bytes(**asked) - READER_BYTES
    assert _mebibytes(resources["requests"]["memory"]) >= alone_bytes > PROCESS_BYTES_MAX
    component = yaml.safe_load((INFRA / "kubernetes/kafka/kustomization.yaml").read_text())
    patches = [each for patch in component["patches"] for each in yaml.safe_load(patch["patch"])]
    (limit,) = [each["value"] for each in patches if each["path"].endswith("/limits/memory")]
    assert _mebibytes(limit) > _together_bytes(**asked, **KAFKA)


@pytest.mark.parametrize(
    ("overlays", "asked"),
    [
        ((), {}),
        (("auth",), {"auth": "on"}),
        (("kafka",), KAFKA),
        (("auth", "kafka"), {"auth": "on", **KAFKA}),
        (("kafka", "auth"), {"auth": "on", **KAFKA}),
    ],
)
def test_containers_of_compose_have_memory_for_a_gateway_and_its_reader_of_history(
    overlays: tuple[str, ...], asked: dict[str, Any]
) -> None:
    """Also with rights, and with Kafka's listener, and with both in either order; and 64 MiB are left."""
    made = dict.fromkeys(("BOOTSTRAP_TOKEN", "CLUSTER_KEY", "MINIO_ROOT_PASSWORD"), "x" * 8)
    together = services(*overlays, **made)
    for name in ("gateway-1", "gateway-2"):
        assert _mebibytes(together[name]["mem_limit"]) >= _together_bytes(**asked) + (64 << 20)


def test_tasks_of_terraform_have_memory_for_a_gateway_and_its_reader_of_history() -> None:
    """By the parts that the module adds up: the gateway, its reader, TLS, rights, Kafka's listener."""
    text = (INFRA / "terraform/modules/gateway/main.tf").read_text()
    (reader,) = re.findall(r"reader_memory_mib += (\d+)", text)
    (plain, tls, rights) = re.findall(
        r"gateway_memory_mib = (\d+) .*is_tls_inside \? (\d+) .*is_authenticated \? (\d+)", text
    )[0]
    (kafka_tls, kafka) = re.findall(r"kafka_memory_mib += .*is_tls_inside \? (\d+) : (\d+)", text)[0]
    assert int(reader) << 20 == READER_BYTES
    for parts, asked in (
        ((plain,), {}),
        ((plain, tls), TLS),
        ((plain, rights), {"auth": "on"}),
        ((plain, kafka), KAFKA),
        ((plain, tls, rights, kafka_tls), {**TLS, "auth": "on", **KAFKA}),
    ):
        assert sum(map(int, (reader, *parts))) << 20 > _together_bytes(**asked), asked
