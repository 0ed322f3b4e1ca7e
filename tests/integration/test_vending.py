"""Vended credentials, on a real MinIO: they read or append to the topics that they were asked for, and do nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import botocore.exceptions
import httpx
import pytest

from log_format.stores import open_store
from tests.support.gateway_process import GatewayProcess
from tests.support.http_api import Json
from tests.support.minio import Minio, vended_s3
from tests.support.secured import Secured, secured_gateway
from tests.support.waiting import until

ROLE = "arn:aws:iam::123456789012:role/vended"


class Vended:
    """A bucket with a gateway on a prefix of it, and two topics with records of their own."""

    def __init__(self, minio: Minio, bucket: str, secured: Secured, gateway: GatewayProcess) -> None:
        self.minio, self.bucket, self.secured, self.gateway = minio, bucket, secured, gateway
        self.one, self.other = secured.topic(), secured.topic()
        secured.user()
        for name in (self.one, self.other):
            produced = secured.admin.http.post(f"/v1/topics/{name}/records", json={"records": [{"value": "a"}]})
            assert produced.status_code == 200

    def ask(self, access: str, *topics: str, client: httpx.Client | None = None, **more: Any) -> httpx.Response:
        body = {"topics": list(topics), "access": access, **more}
        return (client or self.secured.admin.http).post("/v1/credentials", json=body)

    def keys(self, prefix: str) -> list[str]:
        with_all = self.minio.s3()
        listed = with_all.list_objects_v2(Bucket=self.bucket, Prefix=prefix).get("Contents", [])
        with_all.close()
        return [one["Key"] for one in listed]


@pytest.fixture(scope="module")
def vended(minio: Minio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vended]:
    bucket, directory = minio.create_bucket(), tmp_path_factory.mktemp("vending")
    settings = ("--vending-role-arn", ROLE)
    store, environment = f"s3://{bucket}/log", minio.environment()
    with secured_gateway(directory, *settings, store=store, environment=environment) as (secured, gateway):
        yield Vended(minio, bucket, secured, gateway)


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call()
    assert caught.value.response["Error"]["Code"] in ("AccessDenied", "403"), caught.value


def test_the_answer(vended: Vended) -> None:
    """All members of the contract, what AWS's libraries need, and never kept by a cache."""
    answer = vended.ask("read", vended.one, vended.other, duration_s=1800)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    given = answer.json()
    assert given.keys() == {
        *("access_key_id", "secret_access_key", "session_token"),
        *("expires_at", "endpoint_url", "region", "topics"),
    }
    assert abs(given["expires_at"] - (time.time() + 1800) * 1000) < 60_000
    assert (given["endpoint_url"], given["region"]) == (vended.minio.url, "us-east-1")
    for entry, name in zip(given["topics"], (vended.one, vended.other), strict=True):
        described = vended.secured.admin.http.get(f"/v1/topics/{name}").json()
        assert entry == {"topic": name, "table_uri": described["table_uri"]}


def test_reading_reads_its_topic_and_nothing_else(vended: Vended) -> None:
    """Nothing of another topic or of the system can be read or listed, and nothing written or deleted."""
    s3 = vended_s3(vended.ask("read", vended.one).json())
    bucket, own, other = vended.bucket, f"log/topics/{vended.one}/", f"log/topics/{vended.other}/"
    listed = [one["Key"] for one in s3.list_objects_v2(Bucket=bucket, Prefix=own)["Contents"]]
    assert listed == vended.keys(own)
    assert any("/segments/" in key for key in listed)
    for key in listed:
        s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        refused(partial(s3.put_object, Bucket=bucket, Key=key, Body=b""))
        refused(partial(s3.delete_object, Bucket=bucket, Key=key))
    elsewhere = vended.keys(other) + vended.keys("log/system/")
    assert any("system/access" in key for key in elsewhere)
    assert any("system/cluster.json" in key for key in elsewhere)
    for key in elsewhere:
        refused(partial(s3.get_object, Bucket=bucket, Key=key))
    for prefix in ("", "log/", "log/topics/", other, "log/system/", f"log/topics/{vended.one}"):
        refused(partial(s3.list_objects_v2, Bucket=bucket, Prefix=prefix))
    s3.close()


def test_appending_puts_segments_and_nothing_else(vended: Vended) -> None:
    """No commit, no other topic, no journal, no system table, and nothing can be read."""
    s3 = vended_s3(vended.ask("append", vended.one).json())
    bucket, own, other = vended.bucket, f"log/topics/{vended.one}", f"log/topics/{vended.other}"
    s3.put_object(Bucket=bucket, Key=f"{own}/segments/vended-new.parquet", Body=b"", IfNoneMatch="*")
    committed = vended.keys(f"{own}/segments/")
    assert len(committed) > 1
    for key in committed:
        if "vended-" not in key:
            refused(partial(s3.put_object, Bucket=bucket, Key=key, Body=b""))
    for key in (
        f"{own}/segments/new.parquet",
        "log/system/transactions/staged/job/00000000-x.arrow",
        f"{own}/_delta_log/00000000000000000009.json",
        f"{own}/_delta_log/_last_checkpoint",
        f"{own}/compacted/new.parquet",
        f"{own}/_cleaned/00000000000000000009",
        f"{other}/segments/new.parquet",
        f"{other}/_delta_log/00000000000000000009.json",
        "log/system/transactions/_delta_log/00000000000000000009.json",
        "log/system/transactions/decisions/x.parquet",
        "log/system/access/_delta_log/00000000000000000009.json",
        "log/system/consumer_offsets/_delta_log/00000000000000000009.json",
        "log/system/journals/0/segments/new.parquet",
        "log/system/journals/0/_delta_log/00000000000000000009.json",
        "log/system/gateways/forged.json",
        "log/system/cluster.json",
        "elsewhere",
    ):
        refused(partial(s3.put_object, Bucket=bucket, Key=key, Body=b"", IfNoneMatch="*"))
    for key in vended.keys(f"{own}/"):
        refused(partial(s3.get_object, Bucket=bucket, Key=key))
        refused(partial(s3.delete_object, Bucket=bucket, Key=key))
    refused(partial(s3.list_objects_v2, Bucket=bucket, Prefix=f"{own}/"))
    s3.close()


def test_topic_read_or_write_is_needed_for_each(vended: Vended) -> None:
    """Credentials give no right that the caller lacks."""
    _, reader = vended.secured.caller(("Read", "topic", vended.one))
    assert vended.ask("read", vended.one, client=reader).status_code == 200
    for access, topics, operation, named in (
        ("append", (vended.one,), "Write", vended.one),
        ("read", (vended.one, vended.other), "Read", vended.other),
        ("read", ("nowhere",), "Read", "nowhere"),
    ):
        answer = vended.ask(access, *topics, client=reader)
        assert answer.status_code == 403, answer.text
        assert (answer.json()["operation"], answer.json()["resource"]) == (operation, named)
    assert vended.ask("append", "__audit").status_code == 403


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"topics": [], "access": "read"}, "/topics"),
        ({"topics": [f"t{number}" for number in range(21)], "access": "read"}, "/topics"),
        ({"topics": ["t", "t"], "access": "read"}, "/topics/1"),
        ({"topics": ["t"], "access": "write"}, "/access"),
        ({"topics": ["t"]}, "/access"),
        ({"topics": ["t"], "access": "read", "duration_s": 899}, "/duration_s"),
        ({"topics": ["t"], "access": "read", "duration_s": 3601}, "/duration_s"),
        ({"topics": ["t"], "access": "read", "role": "x"}, "/role"),
    ],
)
def test_bodies_that_are_refused(vended: Vended, body: Json, where: str) -> None:
    """Each member's range holds, and what is wrong is named."""
    answer = vended.secured.admin.http.post("/v1/credentials", json=body)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_REQUEST"), answer.text
    assert answer.json()["errors"][0]["where"].startswith(where)


def test_an_unknown_topic_and_names_that_do_not_fit(vended: Vended) -> None:
    """Names too long for one policy are the request's fault, and the refusal says so."""
    answer = vended.ask("read", "nowhere")
    assert (answer.status_code, answer.json()["error_code"]) == (404, "UNKNOWN_TOPIC")
    names = [f"{'x' * 240}-{number}" for number in range(8)]
    for name in names:
        assert vended.secured.admin.http.post("/v1/topics", json={"name": name}).status_code == 201
    answer = vended.ask("read", *names)
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_REQUEST")
    assert answer.json()["errors"][0]["where"] == "/topics"


def test_a_topic_with_records_in_a_journal_has_none_until_they_are_drained(vended: Vended) -> None:
    """A reader would miss what only the shared journal has, so it gets nothing."""
    name = vended.secured.topic()
    config = {"commit.mode": "shared", "drain.ms": 86_400_000}
    assert vended.secured.admin.http.patch(f"/v1/topics/{name}", json={"config": config}).status_code == 200
    assert (
        vended.secured.admin.http.post(f"/v1/topics/{name}/records", json={"records": [{"value": "a"}]}).status_code
        == 200
    )
    answer = vended.ask("read", name)
    assert (answer.status_code, answer.json()["error_code"]) == (409, "VENDING_UNAVAILABLE"), answer.text
    own = {"config": {"commit.mode": "own"}}
    assert vended.secured.admin.http.patch(f"/v1/topics/{name}", json=own).status_code == 200
    assert vended.ask("read", name).status_code == 200


def test_vending_is_audited_and_shows_no_secret(vended: Vended) -> None:
    """The audit topic tells which principal has credentials for what. They are nowhere but in the answer."""
    answer = vended.secured.admin.http.post(
        "/v1/credentials",
        json={"topics": [vended.one, vended.other], "access": "append"},
        headers={"x-request-id": "vend-1"},
    )
    assert answer.status_code == 200
    until(lambda: len(vended.secured.events(request_id="vend-1")) >= 2, 10)
    found = vended.secured.events(request_id="vend-1")
    assert {(one["kind"], one["operation"], one["resource"]) for one in found} == {
        ("vending", "Write", vended.one),
        ("vending", "Write", vended.other),
    }
    given = answer.json()
    everywhere = vended.gateway.log() + str(vended.secured.events())
    assert given["secret_access_key"] not in everywhere
    assert given["session_token"] not in everywhere


def test_the_store_of_this_package_reads_by_them(vended: Vended, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader asks of a topic is allowed: its log, its listing, its segments."""
    given = vended.ask("read", vended.one).json()
    for name, value in vended.minio.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", given["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", given["secret_access_key"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", given["session_token"])
    store = open_store(f"s3://{vended.bucket}/log")
    listed = list(store.list(f"topics/{vended.one}/_delta_log/"))
    assert listed
    assert store.get(listed[0].key)


def test_without_a_bucket_or_a_role_there_are_none(minio: Minio, tmp_path: Path) -> None:
    """A directory and a gateway without a role answer 409, not retryable."""
    for store, settings in (
        (str(tmp_path / "store"), ("--vending-role-arn", ROLE)),
        (f"s3://{minio.create_bucket()}", ()),
    ):
        with secured_gateway(tmp_path, *settings, store=store, environment=minio.environment()) as (secured, _):
            name = secured.topic()
            answer = secured.admin.http.post("/v1/credentials", json={"topics": [name], "access": "read"})
            assert (answer.status_code, answer.json()["error_code"]) == (409, "VENDING_UNAVAILABLE")
            assert answer.json()["retryable"] is False
