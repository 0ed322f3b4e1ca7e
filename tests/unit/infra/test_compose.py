"""What ``infra/local`` says of its containers: none takes more of the machine than it was given, and each is told to be well by
what it does itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

LOCAL = Path(__file__).resolve().parents[3] / "infra/local"
SERVICES: dict[str, Any] = yaml.safe_load((LOCAL / "compose.yaml").read_text())["services"]
ASKED_BY_ITS_IMAGE = {"tidelog-gateway"}
"""Images with a health check of their own, which asks what their own entry point started."""


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_container_is_bounded(name: str) -> None:
    """Memory without swap beside it, processes, logs; nothing is written to the image's files, and no capability is kept."""
    service = SERVICES[name]
    assert service["mem_limit"] == service["memswap_limit"]
    assert service["pids_limit"] <= 1024
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service["logging"]["options"]) == {"max-size", "max-file"}


@pytest.mark.parametrize("overlay", ["auth.yaml", "kafka.yaml"])
def test_an_overlay_that_gives_more_memory_gives_no_swap(overlay: str) -> None:
    """A limit of memory above the limit of both would be refused by Docker; below it the rest would be swap."""
    services = yaml.safe_load((LOCAL / overlay).read_text())["services"]
    given = [service for service in services.values() if "mem_limit" in service]
    assert len(given) == 2
    assert [service for service in given if service["memswap_limit"] != service["mem_limit"]] == []


def test_who_overrides_the_entry_point_has_its_own_health_check() -> None:
    """The image's check asks a gateway, and "up --wait" would wait for one in vain."""
    others = {
        name: service for name, service in SERVICES.items()
        if service["image"] in ASKED_BY_ITS_IMAGE and "entrypoint" in service
    }  # fmt: skip
    assert set(others) == {"example-topic"}
    assert [name for name, service in others.items() if "healthcheck" not in service] == []


def test_images_of_others_run_as_a_user_without_rights() -> None:
    """By number; but MinIO's server, which has its volume as root without any capability."""
    others = {name: service for name, service in SERVICES.items() if not service["image"].startswith("tidelog-")}
    assert {name for name, service in others.items() if "user" not in service} == {"minio"}
    assert [name for name, service in others.items() if not re.match(r"[1-9]\d*:", service.get("user", "1:"))] == []


def test_the_proxy_asks_again_where_gateways_are() -> None:
    """A gateway that was started again may have another address: each is resolved anew by Docker."""
    text = (LOCAL / "proxy.conf").read_text()
    servers = re.findall(r"^ +server (\S+):8080 (.*);$", text, re.MULTILINE)
    assert {name for name, _ in servers} == {name for name in SERVICES if name.startswith("gateway-")}
    assert all("resolve" in options.split() for _, options in servers)
    assert re.search(r"^resolver 127\.0\.0\.11 valid=\d+s ", text, re.MULTILINE)
    assert re.search(r"^ +zone gateways ", text, re.MULTILINE)


def test_examples_are_at_rest_where_nothing_is_asked_of_them() -> None:
    """The pipeline looks every few seconds, in two tasks: not ten times a second on every core."""
    command = SERVICES["example-pipeline"]["command"]
    assert int(command[command.index("--trigger-ms") + 1]) >= 1000
    assert command[command.index("--master") + 1] == "local[2]"
