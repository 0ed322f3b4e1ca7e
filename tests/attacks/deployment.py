"""The rows of how a gateway is set up: what its roles may, what travels in clear, what it tells, and which programs are taken.

Row 13 is tried on a MinIO and a gateway of its own. AWS alone enforces ``s3:if-none-match`` on a role, so that its statement is
looked for in Terraform's text; what is vended has no commit at all, and that is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
from botocore.exceptions import ClientError

from tests.attacks.target import RIGHTS, Attack, Row, Target
from tests.support.access import Client, bootstrap
from tests.support.certificate_authority import Authority
from tests.support.gateway_process import GatewayProcess
from tests.support.minio import Minio, vended_s3

ROOT: Final = Path(__file__).parents[2]
INFRA: Final = ROOT / "infra"
ROLE: Final = "arn:aws:iam::123456789012:role/vended"
_DIGEST: Final = re.compile(r"@sha256:[0-9a-f]{64}$")


def _roles(target: Target) -> Attack:
    authority = Authority(directory=target.directory)
    authority.make("-keyout", str(target.directory / "ca.key"), "-out", authority.ca_file, "-subj", "/CN=attacks")
    certificate, key = authority.issue()
    (target.directory / "minio").mkdir()
    minio = Minio(target.directory / "minio")
    target.until_end.callback(minio.kill)
    bucket = minio.create_bucket()
    token, access = bootstrap(target.directory)
    settings = (*access, "--tls-cert", certificate, "--tls-key", key, "--ops-port", "0", "--vending-role-arn", ROLE)
    gateway = GatewayProcess(
        f"s3://{bucket}/log",
        target.directory / "deployed.log",
        *settings,
        environment=minio.environment(),
        trust=authority.trust(),
    )
    target.until_end.callback(gateway.kill)
    operator = Client(gateway.url, token, verify=authority.trust())
    target.until_end.callback(operator.http.close)
    for topic in ("t1", "other"):
        assert operator.http.post("/v1/topics", json={"name": topic, "partition_count": 1}).status_code == 201
    _, attackers = operator.token("User:attacker", RIGHTS)

    def attack() -> None:
        told = "".join(path.read_text() for path in (INFRA / "terraform").rglob("*.tf"))
        for needed in ('"s3:if-none-match" = "true"', "kms_key_arn", "tls_secret_arn", "access_log_bucket", "flow_log"):
            assert needed in told, f"infra/terraform has no {needed}"
        _in_clear(gateway.url, attackers)
        attacker = Client(gateway.url, attackers, verify=authority.trust())
        with attacker.http:
            _by_what_is_vended(minio, bucket, attacker)

    return attack


def _in_clear(url: str, token: str) -> None:
    """A token that a client sends without TLS gets no answer."""
    plain = Client(url.replace("https", "http", 1), token)
    with plain.http:
        try:
            answer = plain.http.get("/v1/whoami")
        except httpx.HTTPError:
            return
    raise AssertionError(f"plain HTTP is answered {answer.status_code}")


def _by_what_is_vended(minio: Minio, bucket: str, attacker: Client) -> None:
    """Credentials to append to one topic replace no commit and write none, there or elsewhere."""
    wanted = {"topics": ["t1"], "access": "append"}
    denied = attacker.http.post("/v1/credentials", json=wanted | {"topics": ["t1", "other"]})
    assert denied.status_code == 403, denied.text
    given = attacker.http.post("/v1/credentials", json=wanted)
    assert given.status_code == 200, given.text
    s3, everything = vended_s3(given.json()), minio.s3()
    try:
        s3.put_object(Bucket=bucket, Key="log/topics/t1/segments/own.parquet", Body=b"")
        keys = [one["Key"] for one in everything.list_objects_v2(Bucket=bucket)["Contents"]]
        commits = [key for key in keys if "_delta_log/" in key]
        assert any("/t1/" in key for key in commits), keys
        for key in (*commits, "log/topics/t1/_delta_log/00000000000000000001.json", "log/system/gateways/forged.json"):
            for condition in ({}, {"IfNoneMatch": "*"}):
                _is_denied(partial(s3.put_object, Bucket=bucket, Key=key, Body=b"{}", **condition), key)
            _is_denied(partial(s3.delete_object, Bucket=bucket, Key=key), key)
        for key in keys:
            _is_denied(partial(s3.get_object, Bucket=bucket, Key=key), key)
    finally:
        s3.close()
        everything.close()


def _is_denied(attempt: Any, key: str) -> None:
    try:
        attempt()
    except ClientError as error:
        if error.response["Error"]["Code"] in ("AccessDenied", "403"):
            return
        raise
    raise AssertionError(f"what is vended reaches {key}")


def _what_is_told(target: Target) -> Attack:
    http, store = target.gateway.http, str(target.store)
    topic = target.gateway.topic("t1")

    def attack() -> None:
        assert http.get("/v1/cluster").json()["store"] is None
        assert http.get("/metrics").status_code == 403
        for method, path in _ASKED:
            answer = http.request(method, path.replace("{topic}", topic), json={} if method == "POST" else None)
            assert store not in answer.text + str(answer.headers), f"{method} {path} tells where the store is"
        unfixed = sorted(unfixed_programs(INFRA))
        assert not unfixed, f"taken without a digest: {', '.join(unfixed)}"

    return attack


_ASKED: Final = (
    *(("GET", path) for path in ("/", "/healthz", "/readyz", "/openapi.json", "/v1/nothing", "/v1/cluster")),
    *(("GET", f"/v1/topics/{{topic}}{rest}") for rest in ("/partitions/0/records?offset=9", "/partitions/7/offsets")),
    *(("POST", path) for path in ("/v1/topics", "/v1/credentials", "/v1/topics/{topic}/records")),
)


def unfixed_programs(infra: Path) -> Iterator[str]:
    """Images and packages that infra's files take without saying which bytes.

    Images named ``tidelog-…`` are made here. The operator that builds names a base whose default is a quoted sentence.
    """
    for path in infra.rglob("*.y*ml"):
        for image in re.findall(r"^\s*(?:- )?image: (\S+)", path.read_text(), re.MULTILINE):
            if not image.startswith("tidelog-") and not _DIGEST.search(image):
                yield f"{image} in {path.name}"
    for path in infra.rglob("*Dockerfile"):
        text = path.read_text()
        for base in re.findall(r"^ARG BASE=([^\s\"]\S*)", text, re.MULTILINE):
            if not _DIGEST.search(base):
                yield f"{base} in {path.name}"
        for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
            if base != "${BASE}" and not _DIGEST.search(base):
                yield f"{base} in {path.name}"
        for line in re.findall(r"^.* install .*-r .*$", text, re.MULTILINE):
            if line.count(" -r ") != line.count("--require-hashes"):
                yield f"packages without hashes in {path.name}"
    for path in infra.rglob("*.lock"):
        for entry in re.split(r"\n(?=\S)", path.read_text()):
            if "==" in entry and "--hash=sha256:" not in entry:
                yield f"{entry.splitlines()[0]} in {path.name}"


ROWS = (
    Row(13, "plain HTTP, commits by vended credentials; the text of roles, keys and logs", _roles),
    Row(19, "the store's path, metrics, images and packages without a digest", _what_is_told),
)
