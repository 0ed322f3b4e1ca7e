"""``tidelog doctor --security``: what is open is said with what to do, and decides the exit code; no finding holds a secret."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import botocore.exceptions
import pytest

from log_format.inspection.finding import Finding, Verdict
from tests.support.certificate_authority import Authority
from tests.support.command_runs import Run
from tests.support.fake_gateway import FakeGateway
from tidelog import Admin
from tidelog.cli.security.gateway import LONG_MS, check_gateway, check_rights
from tidelog.cli.security.settings import check_settings
from tidelog.cli.security.store import check_store
from tidelog.cli.security.tls import check_address
from tidelog.cli.terminal.exit_code import ExitCode
from tidelog.http.credentials import Credentials

SECRET = "tl_abcd1234_very-secret"
NONE = {"principal": "User:anonymous", "super_user": True, "authentication": "none"}


def verdicts(found: Iterator[Finding]) -> dict[str, Verdict]:
    findings = list(found)
    assert all(finding.advice for finding in findings if finding.verdict is not Verdict.GOOD)
    return {finding.what: finding.verdict for finding in findings}


# The command


def test_an_open_gateway_on_this_machine(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    """It needs a look and is no failure; the store is looked at where it is named, and nothing is written there."""
    tmp_path.chmod(0o700)
    for flags in ((), ("--json",)):
        gateway.will_answer("GET /v1/whoami", NONE)
        gateway.will_answer("GET /v1/whoami", NONE)
        ended = run("doctor", "--security", "--store", tmp_path, *flags)
        assert ended.exit_code == ExitCode.OK, ended.output
        assert "auth=off" in ended.stdout
    found = json.loads(ended.stdout)
    assert found["ok"] is True
    assert {each["what"]: each["verdict"] for each in found["findings"]} == {
        "address": "good", "authentication": "poor", "gateways": "good", "directory": "good",
    }  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_what_is_open_fails(run: Run, gateway: FakeGateway, tmp_path: Path) -> None:
    """Exit code 1, with the advice below."""
    tmp_path.chmod(0o777)
    gateway.will_answer("GET /v1/whoami", NONE)
    ended = run("doctor", "--security", "--store", tmp_path)
    assert ended.exit_code == ExitCode.FAILED
    assert f"chmod -R o-rwx {tmp_path}" in ended.stdout
    assert run("doctor").exit_code == ExitCode.USAGE


def test_no_token_is_sent_or_shown_where_others_read_along(run: Run) -> None:
    """A plain address elsewhere is asked without the token."""
    ended = run("doctor", "--security", "--url", "http://192.0.2.1:9", "--timeout", "0.2", TIDELOG_TOKEN=SECRET)
    assert ended.exit_code == ExitCode.FAILED
    assert "read on the network" in ended.stdout
    assert SECRET not in ended.output


# The gateway


def test_authentication_off_and_on(gateway: FakeGateway) -> None:
    """Off: open, on loopback only for this machine's users. On: metrics alone may be open."""
    here, elsewhere = gateway.url, "http://192.0.2.1:9"
    credentials = Credentials(environment={})
    gateway.will_answer("GET /v1/whoami", NONE)
    assert verdicts(check_gateway(here, credentials)) == {"authentication": Verdict.POOR}
    gateway.tokens = {SECRET}
    assert verdicts(check_gateway(here, credentials)) == {"authentication": Verdict.GOOD}
    gateway.misbehave("GET /metrics", gateway.answer(200, b"tidelog_up 1"))
    gateway.tokens = None
    gateway.misbehave("GET /v1/whoami", gateway.refuse(401, "UNAUTHENTICATED"))
    assert verdicts(check_gateway(here, credentials))["metrics"] is Verdict.POOR
    assert verdicts(check_gateway(here, credentials)) == {"authentication": Verdict.BAD}  # 404: no such route
    assert verdicts(check_address(elsewhere, credentials)) == {"address": Verdict.BAD}
    assert verdicts(check_address(here, credentials)) == {"address": Verdict.GOOD}


def test_rights(gateway: FakeGateway) -> None:
    """Tokens that live long or end soon, super users, and ACLs for everyone or everything."""
    now = time.time_ns() // 1_000_000

    def look(lives_ms: int, reason: str, *acls: dict[str, str]) -> dict[str, Verdict]:
        token = {
            "id": "abcd1234",
            "principal": "User:ann",
            "secrets": [{"created_at": 0, "expires_at": now + lives_ms}],
        }
        gateway.will_answer("GET /v1/whoami", {"principal": "User:op", "authentication": "token"})
        gateway.will_answer("GET /v1/access/tokens", {"tokens": [token]})
        for _ in ("User:ann", "User:op"):
            gateway.will_answer("POST /v1/access:test", {"allowed": True, "reason": reason, "acl": None})
        whole = {"resource_type": "topic", "pattern": "literal", "permission": "allow"}
        gateway.will_answer("GET /v1/access/acls", {"acls": [whole | each for each in acls]})
        with Admin(gateway.url) as admin:
            return verdicts(check_rights(admin, gateway.url))

    month = 30 * 86_400_000
    good = {"gateways": Verdict.GOOD, "tokens": Verdict.GOOD, "super users": Verdict.GOOD, "ACLs": Verdict.GOOD}
    named = {"principal": "User:ann", "operation": "Read", "resource": "orders"}
    assert look(month, "default", named) == good
    assert look(LONG_MS + month, "default", named)["tokens"] is Verdict.POOR
    assert look(86_400_000, "default", named)["tokens"] is Verdict.POOR
    assert look(month, "super_user", named)["super users"] is Verdict.POOR
    assert look(month, "default", named | {"principal": "*"})["ACLs"] is Verdict.POOR
    assert look(month, "default", named | {"principal": "*", "operation": "Write"})["ACLs"] is Verdict.BAD
    assert look(month, "default", named | {"operation": "All", "resource": "*"})["ACLs"] is Verdict.POOR


def test_the_callers_own_power_is_told(gateway: FakeGateway) -> None:
    """User:bootstrap has no listed token, and ``whoami`` calls it a super user: so does the report."""
    gateway.will_answer(
        "GET /v1/whoami", {"principal": "User:bootstrap", "authentication": "token", "super_user": True}
    )
    gateway.will_answer("GET /v1/access/tokens", {"tokens": []})
    gateway.will_answer("GET /v1/access/acls", {"acls": []})
    gateway.will_answer("POST /v1/access:test", {"allowed": True, "reason": "super_user", "acl": None})
    with Admin(gateway.url) as admin:
        (found,) = [each for each in check_rights(admin, gateway.url) if each.what == "super users"]
    assert found.verdict is Verdict.POOR
    assert "User:bootstrap" in found.said


@pytest.mark.parametrize(("status", "code"), [(401, "UNAUTHENTICATED"), (403, "UNAUTHORIZED"), (500, "INTERNAL")])
def test_rights_that_can_not_be_seen_are_said(gateway: FakeGateway, status: int, code: str) -> None:
    """It is no finding of safety that nothing could be asked."""
    gateway.misbehave("GET /v1/cluster", *[gateway.refuse(status, code)] * 20)
    with Admin(gateway.url, timeout_ms=300) as admin:
        assert verdicts(check_rights(admin, gateway.url)) == {"rights": Verdict.POOR}


# Its settings


def look_at(**variables: str) -> dict[str, Verdict]:
    return verdicts(check_settings({f"TIDELOG_{name.upper()}": value for name, value in variables.items()}))


def test_settings(tmp_path: Path) -> None:
    """Each open door by its setting; nothing is said where no gateway's variables are."""
    assert look_at(url="http://127.0.0.1:8080") == {}
    key = tmp_path / "key"
    key.write_text("x" * 64)
    key.chmod(0o600)
    closed = {"host": "0.0.0.0", "auth": "on", "tls_cert": "c", "cluster_key_file": str(key)}
    assert set(look_at(**closed).values()) == {Verdict.GOOD}
    for change, what, verdict in (
        ({"auth": "off"}, "auth", Verdict.BAD),
        ({"auth": "off", "host": "127.0.0.1"}, "auth", Verdict.POOR),
        ({"auth": "off", "insecure": "true"}, "insecure", Verdict.BAD),
        ({"insecure": "true"}, "insecure", Verdict.POOR),
        ({"tls_cert": ""}, "TLS", Verdict.BAD),
        ({"cluster_key_file": ""}, "cluster_key_file", Verdict.BAD),
        ({"ops_host": "0.0.0.0"}, "ops_host", Verdict.POOR),
        ({"super_users": "User:a"}, "super_users", Verdict.POOR),
        ({"oidc_issuer": "http://issuer"}, "oidc_issuer", Verdict.BAD),
        ({"bootstrap_token_file": str(key)}, "bootstrap_token_file", Verdict.POOR),
    ):
        assert look_at(**(closed | change))[what] is verdict, what
    key.chmod(0o644)
    assert look_at(**closed)["cluster_key_file"] in {Verdict.GOOD, Verdict.BAD}
    assert Verdict.BAD in [each.verdict for each in check_settings({"TIDELOG_TOKEN_FILE": str(key)})]
    assert look_at(token_file=str(tmp_path / "none")) == {"token_file": Verdict.POOR}


# TLS


@pytest.fixture
def tls_server(authority: Authority) -> Iterator[Any]:
    """``serve(context)`` takes TLS connections; returns its URL."""
    listeners, threads = [], []

    def serve(**versions: ssl.TLSVersion) -> str:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            for name, version in versions.items():
                context.set_ciphers("ALL:@SECLEVEL=0")
                setattr(context, name, version)
        listener = socket.create_server(("127.0.0.1", 0))

        def run() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as tls:
                    tls.recv(1)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        listeners.append(listener)
        return f"https://127.0.0.1:{listener.getsockname()[1]}"

    yield serve
    for listener, thread in zip(listeners, threads, strict=True):
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_tls(authority: Authority, tls_server: Any) -> None:
    """A certificate that ends soon (the tests' own live two days), one that is not trusted, and old versions."""
    trusting, strange = Credentials(ca_file=authority.ca_file, environment={}), Credentials(environment={})
    url = tls_server()
    assert verdicts(check_address(url, trusting)) == {"certificate": Verdict.POOR, "TLS versions": Verdict.GOOD}
    assert verdicts(check_address(url, strange))["certificate"] is Verdict.BAD
    old = tls_server(minimum_version=ssl.TLSVersion.TLSv1_1)
    assert verdicts(check_address(old, trusting))["TLS versions"] is Verdict.BAD
    assert verdicts(check_address("https://127.0.0.1:9", trusting))["certificate"] is Verdict.BAD


# The store


def test_a_directory(tmp_path: Path) -> None:
    """Only its owner's is good; one that others can read needs a look, and one that they can write, or its key, is open."""
    root = tmp_path / "log"
    (root / "system").mkdir(parents=True)
    (root / "system" / "cluster.json").write_text("{}")
    for path, mode in ((root, 0o700), (root / "system", 0o700), (root / "system" / "cluster.json", 0o600)):
        path.chmod(mode)
    assert verdicts(check_store(str(root))) == {"directory": Verdict.GOOD}
    (root / "system" / "cluster.json").chmod(0o644)
    assert verdicts(check_store(root.as_uri())) == {"directory": Verdict.POOR}
    root.chmod(0o711)
    assert verdicts(check_store(str(root))) == {"directory": Verdict.BAD}
    root.chmod(0o700)
    (root / "system" / "cluster.json").chmod(0o602)
    assert verdicts(check_store(str(root))) == {"directory": Verdict.BAD}
    assert verdicts(check_store(str(root / "none"))) == {"directory": Verdict.BAD}
    assert verdicts(check_store("memory://x")) == {"store": Verdict.POOR}


class Bucket:
    """What a bucket says of itself; what is not given is refused."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> Any:
            given = self._answers.get(name, "AccessDenied")
            if isinstance(given, str):
                raise botocore.exceptions.ClientError({"Error": {"Code": given}}, name)
            return given

        return call


BLOCK = dict.fromkeys(("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True)
DENY = {
    "Effect": "Deny",
    "Principal": "*",
    "Action": "s3:PutObject",
    "Resource": "arn:aws:s3:::b/*/_delta_log/*.json",
    "Condition": {"Null": {"s3:if-none-match": "true"}},
}


def test_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Public access, the conditional-put policy, encryption; what it does not say is said to be unknown."""

    def look(**answers: Any) -> dict[str, Verdict]:
        monkeypatch.setattr(boto3, "client", lambda _: Bucket(**answers))
        return verdicts(check_store("s3://b/prefix"))

    def policy(*statements: dict[str, Any]) -> dict[str, str]:
        return {"Policy": json.dumps({"Statement": statements})}

    whole = {
        "get_public_access_block": {"PublicAccessBlockConfiguration": BLOCK},
        "get_bucket_policy": policy(DENY),
        "get_bucket_encryption": {"ServerSideEncryptionConfiguration": {}},
    }
    assert set(look(**whole).values()) == {Verdict.GOOD}
    none = "NoSuchPublicAccessBlockConfiguration"
    assert look(**whole | {"get_public_access_block": none})["public access"] is Verdict.BAD
    half = {"PublicAccessBlockConfiguration": BLOCK | {"BlockPublicPolicy": False}}
    assert look(**whole | {"get_public_access_block": half})["public access"] is Verdict.BAD
    everyone = {"Effect": "Allow", "Principal": {"AWS": ["*"]}, "Action": "s3:GetObject", "Resource": "*"}
    assert look(**whole | {"get_bucket_policy": policy(DENY, everyone)})["bucket policy"] is Verdict.BAD
    assert look(**whole | {"get_bucket_policy": "NoSuchBucketPolicy"})["conditional PUT"] is Verdict.POOR
    allow = DENY | {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::1:role/r"}}
    assert look(**whole | {"get_bucket_policy": policy(allow)})["conditional PUT"] is Verdict.POOR
    absent = "ServerSideEncryptionConfigurationNotFoundError"
    assert look(**whole | {"get_bucket_encryption": absent})["encryption"] is Verdict.POOR
    assert set(look().values()) == {Verdict.POOR}
