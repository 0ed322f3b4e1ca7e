"""What ``infra/local`` says of its containers: none takes more of the machine than it was given, each is told to be well by
what it does itself, and no web page gets in."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from gateway.network.hosts import AllowedHosts
from tests.support.compose import LOCAL, VariableMissing, services

SERVICES: dict[str, Any] = services()
OVERLAYS = ("auth", "kafka", "store")
MADE = {"BOOTSTRAP_TOKEN": "token", "CLUSTER_KEY": "key", "MINIO_ROOT_PASSWORD": "password"}
"""What its user makes for an overlay."""
HOST_IS_JUDGED_BY = {"8080": "proxy", "9090": "proxy", "3000": "grafana"}
"""Doors that take no password: the service that refuses a request by its Host."""
PASSWORD_IS_ASKED = {"9000", "9001"}
NOT_HTTP = {"9092", "9093"}
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


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_that_gives_more_memory_gives_no_swap(overlay: str) -> None:
    """A limit of memory above the limit of both would be refused by Docker; below it the rest would be swap."""
    given = services(overlay, **MADE)
    assert [name for name, each in given.items() if each["memswap_limit"] != each["mem_limit"]] == []


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


def _hosts(**environment: str) -> AllowedHosts:
    names = services(**environment)["gateway-1"]["environment"]["TIDELOG_ALLOWED_HOSTS"]
    return AllowedHosts(host="0.0.0.0", names=names, advertised_url="http://172.18.0.4:8080")


def test_gateways_refuse_a_name_that_was_rebound() -> None:
    """A web site whose name suddenly resolves to 127.0.0.1 is refused; callers on this machine and in containers are not. A
    variable adds names and takes none away. The proxy hands the name on with its port, which Origin has, too."""
    for hosts in (_hosts(), _hosts(TIDELOG_ALLOWED_HOSTS="log.example,.internal")):
        assert not hosts.allow(b"rebound.example:8080")
        assert not hosts.allow(b"tidelog")
        assert all(map(hosts.allow, (b"localhost:8080", b"127.0.0.1:8080", b"[::1]:8080", b"172.18.0.4:8080")))
        assert [name for name in sorted(_called()) if not hosts.allow(name.encode())] == []
    assert _hosts(TIDELOG_ALLOWED_HOSTS="log.example").allow(b"log.example:8080")
    assert re.findall(r"proxy_set_header Host (.*);", (LOCAL / "proxy.conf").read_text()) == ["$http_host"]


def _called() -> set[str]:
    """Names by which containers, and Prometheus, call gateways."""
    texts = [str(service.get("environment", {}).get("TIDELOG_URL", "")) for service in SERVICES.values()]
    watched = yaml.safe_load((LOCAL.parent / "observability/prometheus.yaml").read_text())["scrape_configs"]
    targets = [target for each in watched for config in each["static_configs"] for target in config["targets"]]
    found = {name for text in texts for name in re.findall(r"^http://([\w-]+):8080", text)}
    found |= {target.partition(":")[0] for target in targets if target.endswith(":8081")}
    assert found == {"proxy", "gateway-1", "gateway-2"}
    return found


def test_every_door_is_on_this_machine_and_shut_for_web_pages() -> None:
    """Published ports are bound to 127.0.0.1, and each asks for a password of the user's own, judges Host, or speaks no HTTP."""
    doors = [(port, name) for name, each in services(*OVERLAYS, **MADE).items() for port in each.get("ports", [])]
    assert [port for port, _ in doors if not port.startswith("127.0.0.1:")] == []
    published = {port.split(":")[1]: name for port, name in doors}
    assert len(published) == len(doors), "two services at one port"
    assert {port for port, name in published.items() if name == "minio"} == PASSWORD_IS_ASKED
    judged = {port: name for port, name in published.items() if port not in PASSWORD_IS_ASKED | NOT_HTTP}
    assert judged == HOST_IS_JUDGED_BY
    grafana = SERVICES["grafana"]["environment"]
    assert (grafana["GF_SERVER_DOMAIN"], grafana["GF_SERVER_ENFORCE_DOMAIN"]) == ("localhost", "true")
    servers = re.findall(r"(?ms)^server \{$(.*?)^\}$", (LOCAL / "proxy.conf").read_text())
    (named,) = [server for server in servers if "listen 9090;" in server]
    assert re.findall(r"server_name (.*);", named) == ["localhost 127.0.0.1 [::1]"]
    (other,) = [server for server in servers if "listen 9090 default_server;" in server]
    assert "return 421 " in other
    assert "proxy_pass" not in other


def test_the_store_is_published_and_put_beside_tokens_with_a_password_of_the_users_own_only() -> None:
    """Alone compose.yaml publishes nothing of MinIO's. auth.yaml and store.yaml end without MINIO_ROOT_PASSWORD, and say what to
    make; given, it is everybody's who speaks to MinIO."""
    assert "ports" not in SERVICES["minio"]
    for overlay in ("auth", "store"):
        with pytest.raises(VariableMissing, match=r"^MINIO_ROOT_PASSWORD: make one .*openssl rand"):
            services(overlay, **{**MADE, "MINIO_ROOT_PASSWORD": ""})
    given = [each.get("environment", {}) for each in services("auth", **MADE).values()]
    words = [env[name] for env in given for name in ("MINIO_ROOT_PASSWORD", "AWS_SECRET_ACCESS_KEY") if name in env]
    assert len(words) == 5
    assert set(words) == {"password"}
    assert [env["MC_HOST_store"].split(":")[2] for env in given if "MC_HOST_store" in env] == ["password@minio"]


def test_no_secret_is_on_a_command_line() -> None:
    """Every user of the machine sees the processes of containers: no argument has a secret that their user makes, put in by
    compose or by the container's shell."""
    given = services(*OVERLAYS, **{name: f"made-{name}" for name in MADE})
    lines = {name: str([each.get(part) for part in ("entrypoint", "command")]) for name, each in given.items()}
    assert [name for name, line in lines.items() if re.search(r"made-|PASSWORD|SECRET|TOKEN|KEY", line)] == []


def test_what_only_watches_is_read_by_no_other_page_and_asks_for_no_known_password() -> None:
    """Prometheus lets every origin read unless it is told one (CORS), which needs no rebinding. Grafana makes the user admin with
    the password admin, whom basic authentication lets in where the login form is off."""
    (allowed,) = [word for word in SERVICES["prometheus"]["command"] if word.startswith("--web.cors.origin=")]
    origins = re.compile(allowed.partition("=")[2])
    assert origins.fullmatch("http://localhost:9090")
    assert not origins.fullmatch("https://page.example")
    grafana = SERVICES["grafana"]["environment"]
    assert grafana["GF_AUTH_BASIC_ENABLED"] == "false"
    assert grafana["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert grafana["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
