"""Settings: where they come from, their ranges, the memory that they add up to."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.settings.settings import PROCESS_BYTES_MAX, Settings, SettingsError


def test_the_command_line_wins_over_the_environment_over_the_default() -> None:
    """Each setting comes from the nearest source that names it."""
    settings = Settings.read(
        {"TIDELOG_STORE": "memory://a", "TIDELOG_PORT": "1234", "TIDELOG_LOG_LEVEL": "", "TIDELOG_OTHER": "x"},
        {"port": "99", "host": None},
    )
    assert (settings.store, settings.port, settings.host, settings.log_level) == ("memory://a", 99, "127.0.0.1", "info")


def test_addresses_of_kubernetes_services_are_no_settings() -> None:
    """A Service called tidelog sets TIDELOG_PORT=tcp://... in every pod beside it: the gateway starts, with its default."""
    assert Settings.read({"TIDELOG_STORE": "a", "TIDELOG_PORT": "tcp://10.96.0.12:8080"}, {}).port == 8080
    assert Settings.read({"TIDELOG_STORE": "a", "TIDELOG_PORT": "udp://[fd00::1]:9"}, {"port": 1}).port == 1


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, "TIDELOG_STORE"),
        ({"TIDELOG_STORE": "a", "TIDELOG_PORT": "65536"}, "TIDELOG_PORT"),
        ({"TIDELOG_STORE": "a", "TIDELOG_PORT": "x"}, "TIDELOG_PORT"),
        ({"TIDELOG_STORE": "a", "TIDELOG_LOG_LEVEL": "loud"}, "TIDELOG_LOG_LEVEL"),
        ({"TIDELOG_STORE": "a", "TIDELOG_GATEWAY_ID": "a/b"}, "TIDELOG_GATEWAY_ID"),
        ({"TIDELOG_STORE": "a", "TIDELOG_ADVERTISED_URL": "ftp://x"}, "TIDELOG_ADVERTISED_URL"),
        ({"TIDELOG_STORE": "a", "TIDELOG_IN_FLIGHT_BYTES_MAX": "2000000"}, "in_flight_bytes_max"),
    ],
)
def test_wrong_settings_are_named(environment: dict[str, str], named: str) -> None:
    """A start with a wrong setting fails with the setting's name, as the user wrote it."""
    with pytest.raises(SettingsError, match=named):
        Settings.read(environment, {})


def test_settings_do_not_change() -> None:
    """They are values."""
    with pytest.raises(ValidationError):
        Settings(store="a").port = 1


def test_every_setting_is_described() -> None:
    """Each field says what changing it does."""
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert len(field.description) > 20, name


def test_the_default_budget_fits() -> None:
    """The parts of the process's memory add up to less than what is promised, and counting more raises the sum."""
    settings = Settings(store="a")
    assert settings.process_bytes() <= PROCESS_BYTES_MAX
    assert Settings(store="a", answer_bytes_max=1 << 30).process_bytes() > PROCESS_BYTES_MAX


def test_gateways_have_different_ids() -> None:
    """Two starts are two gateways."""
    assert Settings(store="a").gateway_id != Settings(store="a").gateway_id


@pytest.mark.parametrize(
    ("host", "given", "expected"),
    [
        ("127.0.0.1", {}, None),
        ("localhost", {}, None),
        ("::1", {}, None),
        ("0.0.0.0", {}, 8081),
        ("gateway-1", {}, 8081),
        ("0.0.0.0", {"ops_port": 0, "port": 8081}, 0),
        ("127.0.0.1", {"ops_port": 9000}, 9000),
    ],
)
def test_the_operations_port(host: str, given: dict[str, Any], expected: int | None) -> None:
    """Where others reach the gateway, operators have a port of their own; several on one machine's loopback need none."""
    assert Settings(store="a", host=host, insecure=True, **given).operations_port == expected


def test_one_port_for_two_listeners_is_named() -> None:
    """A gateway told to use the operations' default port for clients says which setting to change."""
    with pytest.raises(SettingsError, match="ops_port"):
        Settings.read({}, {"store": "a", "host": "0.0.0.0", "port": 8081, "insecure": True})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "gateway-1"])
def test_other_machines_are_let_in_without_credentials_only_on_purpose(host: str) -> None:
    """A gateway that anyone can reach and use must be said to be meant so."""
    with pytest.raises(SettingsError, match=r"auth is off: set auth=on, or insecure=true"):
        Settings.read({}, {"store": "a", "host": host})
    assert Settings.read({"TIDELOG_INSECURE": "true"}, {"store": "a", "host": host}).insecure
    assert Settings.read({"TIDELOG_AUTH": "on"}, {"store": "a", "host": host}).auth == "on"


@pytest.mark.parametrize(
    "given",
    [
        {"super_users": "alice"},
        {"super_users": "User:"},
        {"super_users": "Group:admins"},
        {"oidc_issuer": "https://issuer"},
        {"oidc_issuer": "issuer", "oidc_audience": "a"},
        {"oidc_algorithms": "HS256"},
        {"oidc_algorithms": "none"},
        {"oidc_algorithms": "RS256,HS256"},
        {"auth": "maybe"},
    ],
)
def test_settings_of_access_that_would_let_others_in_are_refused(given: dict[str, str]) -> None:
    """A symmetric algorithm makes every reader of a public key an issuer; a JWT without audience is made for another service."""
    with pytest.raises(SettingsError):
        Settings.read({}, {"store": "a", **given})


@pytest.mark.parametrize("names", ["a,,b", "http://a", "a:8080", "*", "a b", " "])
def test_hosts_that_are_no_names_are_refused(names: str) -> None:
    """A list that would never match, or match anything, is no list."""
    with pytest.raises(SettingsError, match="ALLOWED_HOSTS"):
        Settings.read({}, {"store": "a", "allowed_hosts": names})


@pytest.mark.parametrize("address", ["0.0.0.0:9092", "[::]:9092", "10.0.0.7:9092"])
def test_an_open_listener_for_kafka_needs_auth(address: str) -> None:
    """As the one for HTTP: without authentication every program that reaches it may do all."""
    with pytest.raises(SettingsError, match="auth"):
        Settings.read({}, {"store": "a", "kafka_listen": address})
    assert Settings.read({}, {"store": "a", "kafka_listen": address, "insecure": "true"}).kafka_listen == address
    assert Settings.read({}, {"store": "a", "kafka_listen": "127.0.0.1:9092"}).kafka_host == "127.0.0.1"


@pytest.mark.parametrize("address", ["9092", "localhost", "localhost:", "http://localhost:9092", "a b:1", "[::1]"])
def test_an_address_is_a_host_and_a_port(address: str) -> None:
    """Anything else is named at the start."""
    with pytest.raises(SettingsError, match="KAFKA_LISTEN"):
        Settings.read({}, {"store": "a", "kafka_listen": address})
