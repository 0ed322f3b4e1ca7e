"""Checks of a gateway's settings in this environment, to be run where the gateway runs, with its variables."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from log_format.inspection.finding import Finding, bad, good, poor
from tidelog.http.credentials import is_loopback

_PREFIX: Final = "TIDELOG_"
_OF_GATEWAYS: Final = (
    "HOST", "AUTH", "INSECURE", "TLS_CERT", "CLUSTER_KEY_FILE", "SUPER_USERS", "BOOTSTRAP_TOKEN_FILE", "OPS_HOST", "OIDC_ISSUER",
)  # fmt: skip
"""Variables that only gateways have."""
_SECRETS: Final = ("CLUSTER_KEY_FILE", "BOOTSTRAP_TOKEN_FILE", "TLS_KEY", "TOKEN_FILE", "KEY_FILE")


def check_settings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Yield findings about the settings; none unless a gateway's variables are set. Raises nothing."""
    given = {name: environment.get(_PREFIX + name, "").strip() for name in (*_OF_GATEWAYS, *_SECRETS)}
    yield from _secret_files(given)
    if not any(given[name] for name in _OF_GATEWAYS):
        return
    is_on = given["AUTH"] == "on"
    host = given["HOST"] or "127.0.0.1"
    is_open = not is_loopback(host)
    yield from _listeners(given, host, is_on=is_on, is_open=is_open)
    yield _cluster_key(given, is_on=is_on)
    if given["SUPER_USERS"]:
        said = f"No ACL restricts these users: {given['SUPER_USERS']}."
        yield poor("super_users", said, "Keep only operators there, for recovery from a lock-out, and no programs.")
    if given["BOOTSTRAP_TOKEN_FILE"]:
        advice = "Once other users have tokens with Alter on the cluster, start the gateways without it."
        yield poor("bootstrap_token_file", "The token of User:bootstrap, which may do everything, is valid.", advice)
    if given["OIDC_ISSUER"].startswith("http://"):
        advice = "Give the issuer's https:// address."
        yield bad(
            "oidc_issuer",
            "The keys of JWTs are fetched by plain HTTP: an attacker on the network can forge every token.",
            advice,
        )


def _listeners(given: Mapping[str, str], host: str, *, is_on: bool, is_open: bool) -> Iterator[Finding]:
    if is_on:
        yield good("auth", "auth is on.")
    elif is_open:
        said = f"auth is off, and host {host} can be reached from other machines: everyone there may do everything."
        yield bad("auth", said, "Set auth=on and bootstrap_token_file, and remove insecure.")
    else:
        advice = "Set auth=on before other machines may reach it."
        yield poor("auth", "auth is off: every user of this machine may do everything.", advice)
    if given["INSECURE"].lower() in {"true", "1", "yes", "on"}:
        said = "insecure is true: the gateway starts without authentication where others reach it."
        yield (poor if is_on else bad)("insecure", said, "Remove it.")
    if given["TLS_CERT"]:
        yield good("TLS", "The clients' port speaks TLS.")
    elif is_open:
        advice = "Set tls_cert and tls_key; if a proxy terminates TLS, let only the proxy reach this port."
        yield bad("TLS", f"host {host} can be reached from other machines, by plain HTTP.", advice)
    ops_host = given["OPS_HOST"] or "127.0.0.1"
    if not is_loopback(ops_host):
        said = f"The operations listener on {ops_host} shows metrics and the store's address without a token."
        yield poor("ops_host", said, "Let only probes and Prometheus reach it, by a security group or NetworkPolicy.")


def _cluster_key(given: Mapping[str, str], *, is_on: bool) -> Finding:
    if given["CLUSTER_KEY_FILE"]:
        return good("cluster_key_file", "Gateways authenticate each other by a key outside the store.")
    said = "There is no cluster_key_file: any reader of the store can pose as a gateway to the others, for any user."
    advice = "Give every gateway the same file: openssl rand -hex 32, mode 0600."
    return (bad if is_on else poor)("cluster_key_file", said, advice)


def _secret_files(given: Mapping[str, str]) -> Iterator[Finding]:
    for name in _SECRETS:
        if not given[name]:
            continue
        try:
            mode = stat.S_IMODE(Path(given[name]).stat().st_mode)
        except OSError as error:
            said = f"{given[name]} can't be checked: {error.strerror}."
            yield poor(name.lower(), said, "Check the path, and the file's owner.")
            continue
        if mode & stat.S_IRWXO or mode & stat.S_IWGRP:
            said = f"{given[name]} has mode {mode:04o}: others can read or change the secret."
            yield bad(name.lower(), said, f"chmod 600 {given[name]}, and create a new secret.")
