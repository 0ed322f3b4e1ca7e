"""The catalog of a gateway on a bucket: its readers have credentials of their own, or get some with the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.iceberg_reader import assert_equal_at, iceberg_catalog, version_of
from tests.support.minio import Minio
from tests.support.secured import Secured, secured_gateway
from tests.support.waiting import until

ROLE = "arn:aws:iam::123456789012:role/vended"


class Bucket:
    """A gateway with ``auth=on`` on a bucket, and a topic with records."""

    def __init__(self, minio: Minio, bucket: str, secured: Secured) -> None:
        self.minio, self.store, self.secured = minio, f"s3://{bucket}/log", secured
        self.topic, self.other = secured.topic(), secured.topic()
        for name in (self.topic, self.other):
            self.produce(name)

    def produce(self, topic: str) -> None:
        records = [{"key": f"k{number}", "value": number} for number in range(3)]
        assert self.secured.admin.http.post(f"/v1/topics/{topic}/records", json={"records": records}).is_success

    def keys(self, prefix: str) -> list[str]:
        with_all = self.minio.s3()
        listed = with_all.list_objects_v2(Bucket=self.store.split("/")[2], Prefix=prefix).get("Contents", [])
        with_all.close()
        return [one["Key"] for one in listed]


@pytest.fixture(scope="module")
def bucket(minio: Minio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    name, directory = minio.create_bucket(), tmp_path_factory.mktemp("iceberg")
    settings = ("--vending-role-arn", ROLE)
    store, environment = f"s3://{name}/log", minio.environment()
    with secured_gateway(directory, *settings, store=store, environment=environment) as (secured, _):
        yield Bucket(minio, name, secured)


def test_a_reader_with_its_own_credentials(bucket: Bucket) -> None:
    """Equal to what deltalake reads at the version, also after more commits."""
    given = {
        "s3.endpoint": bucket.minio.url,
        "s3.access-key-id": bucket.minio.access_key,
        "s3.secret-access-key": bucket.minio.secret_key,
        "s3.region": "us-east-1",
        "header.X-Iceberg-Access-Delegation": "",
        "token": bucket.secured.token("User:bootstrap-like")["token"],
    }
    bucket.secured.allow("User:bootstrap-like", "Read", "topic", bucket.topic)
    catalog = iceberg_catalog(bucket.secured.url, **given)
    for count in (3, 6):
        table = catalog.load_table(("topics", bucket.topic))
        assert "s3.secret-access-key" not in table.config
        delta = f"{bucket.store}/topics/{bucket.topic}"
        rows = assert_equal_at(table, delta, version_of(table), bucket.minio.environment())
        assert rows.num_rows == count
        bucket.produce(bucket.topic)


def test_credentials_come_with_the_table(bucket: Bucket) -> None:
    """They read the table and nothing else; giving them is audited; nothing keeps the answer."""
    bucket.secured.allow("User:vended", "Read", "topic", bucket.topic)
    catalog = iceberg_catalog(bucket.secured.url, token=bucket.secured.token("User:vended")["token"])
    table = catalog.load_table(("topics", bucket.topic))
    assert table.scan().to_arrow().num_rows >= 3
    other = bucket.keys(f"log/topics/{bucket.other}/segments/")[0]
    with pytest.raises(OSError, match=r"(?i)denied|forbidden|403"):
        table.io.new_input(f"s3://{bucket.store.split('/')[2]}/{other}").open().read()
    answer = bucket.secured.admin.http.get(
        f"/iceberg/v1/namespaces/topics/tables/{bucket.topic}",
        headers={"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"},
    )
    given = answer.json()
    assert answer.headers["cache-control"] == "no-store"
    (credential,) = given["storage-credentials"]
    assert credential["prefix"] == f"{bucket.store}/topics/{bucket.topic}/"
    assert credential["config"] == given["config"]

    def is_audited() -> bool:
        found = bucket.secured.admin.http.get("/v1/topics/__audit/partitions/0/records?offset=earliest")
        return found.is_success and '"vending' in found.text.replace("\\", "")

    bucket.secured.allow("User:bootstrap", "Read", "topic", "__audit")
    until(is_audited)
