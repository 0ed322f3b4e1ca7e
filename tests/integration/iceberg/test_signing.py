"""Files read without a credential of the store, by requests that the gateway signs: in a bucket and in a directory."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

import boto3
import botocore
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from pyiceberg.io.fsspec import S3V4RestSigner
from pyiceberg.table import Table

from tests.support.iceberg_reader import iceberg_catalog
from tests.support.minio import Minio
from tests.support.secured import Secured, secured_gateway

USER: Final = "User:signed"
SIGNED: Final = {"header.X-Iceberg-Access-Delegation": "remote-signing", "scan-planning-mode": "server"}


class Signed:
    """A gateway with ``auth=on``, a topic with records that a user may read, and one that it may not."""

    def __init__(self, secured: Secured, store: str) -> None:
        self.secured, self.store = secured, store
        self.topic, self.other = secured.topic(), secured.topic()
        for name in (self.topic, self.other):
            records = [{"key": f"k{number}", "value": number} for number in range(3)]
            assert secured.admin.http.post(f"/v1/topics/{name}/records", json={"records": records}).is_success
        self.token: str = secured.token(USER)["token"]

    def load(self) -> Table:
        """The table, for a client without credentials of the store."""
        self.secured.allow(USER, "Read", "topic", self.topic)
        found: Table = iceberg_catalog(self.secured.url, token=self.token, **SIGNED).load_table(("topics", self.topic))
        return found

    def sign(self, uri: str, *, topic: str | None = None, method: str = "GET") -> httpx.Response:
        """The signer's answer to the user."""
        body = {"region": "us-east-1", "method": method, "uri": uri, "headers": {}}
        path = f"/iceberg/v1/namespaces/topics/tables/{topic or self.topic}/sign"
        headers = {"authorization": f"Bearer {self.token}"}
        return httpx.post(f"{self.secured.url}{path}", json=body, headers=headers)


def signing_client(table: Table) -> Any:
    """An S3 client as PyIceberg's ``FsspecFileIO`` makes it: it signs nothing itself, and asks the signer."""
    properties = table.io.properties
    settings = Config(
        signature_version=botocore.UNSIGNED, s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}
    )
    client = boto3.client(
        "s3", endpoint_url=properties["s3.endpoint"], region_name=properties["s3.region"], config=settings
    )
    client.meta.events.register_last("before-sign.s3", S3V4RestSigner(properties))
    return client


def rows_of(table: Table, client: Any) -> list[dict[str, Any]]:
    """All rows of a table, each file read by HEAD and two ranges."""
    found = []
    for task in table.scan().plan_files():
        split = urlsplit(task.file.file_path)
        place = {"Bucket": split.netloc, "Key": split.path[1:]}
        size = client.head_object(**place)["ContentLength"]
        assert size == task.file.file_size_in_bytes
        data = b"".join(
            client.get_object(**place, Range=span)["Body"].read() for span in ("bytes=0-99", f"bytes=100-{size - 1}")
        )
        found.append(pq.read_table(io.BytesIO(data)))
    rows: list[dict[str, Any]] = pa.concat_tables(found).to_pylist()
    return rows


@pytest.fixture(scope="module", params=["directory", "bucket"])
def signed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Signed]:
    directory = tmp_path_factory.mktemp("signed")
    if request.param == "directory":
        with secured_gateway(directory) as (secured, _):
            yield Signed(secured, "s3://tidelog")
        return
    minio: Minio = request.getfixturevalue("minio")
    store = f"s3://{minio.create_bucket()}/log"
    with secured_gateway(directory, store=store, environment=minio.environment()) as (secured, _):
        yield Signed(secured, store)


def test_a_table_is_read_by_signed_requests(signed: Signed) -> None:
    """PyIceberg's signer, without any credential of the store; the table says how, and to nobody who did not ask."""
    table = signed.load()
    assert table.location() == f"{signed.store}/topics/{signed.topic}"
    assert not any("access-key" in name for name in table.config)
    rows = rows_of(table, signing_client(table))
    assert sorted(row["offset"] for row in rows) == [0, 1, 2]
    plain = iceberg_catalog(signed.secured.url, token=signed.token).load_table(("topics", signed.topic))
    assert "s3.signer" not in plain.config


def test_only_reads_of_the_tables_files_are_signed(signed: Signed) -> None:
    """No listing, no write, no file of another table or of the log, whatever the address looks like."""
    table = signed.load()
    (task,) = table.scan().plan_files()
    endpoint, place = table.config["s3.endpoint"], urlsplit(task.file.file_path)
    good = f"{endpoint}/{place.netloc}{place.path}"
    assert signed.sign(good).is_success
    for method in ("PUT", "DELETE", "POST"):
        assert signed.sign(good, method=method).status_code == 403
    root = good.partition(f"/{signed.topic}/")[0]
    refused = [
        f"{good}?acl",
        f"{good}?uploads",
        f"{endpoint}/{place.netloc}?list-type=2&prefix=topics",
        good.replace(signed.topic, signed.other),
        f"{root}/{signed.topic}/_delta_log/00000000000000000000.json",
        f"{root}/{signed.topic}/segments/../../{signed.other}/segments/f.parquet",
        f"{root}/{signed.topic}/segments/%2e%2e/f.parquet",
        f"{root}/{signed.topic}/staged/f.parquet",
        good.replace(".parquet", ".parquet%00W10=%00.parquet"),
        f"{root}/{signed.topic}/_iceberg/../segments/f.avro",
        f"{root}/{signed.topic}/_iceberg/f\n.avro",
    ]
    for uri in refused:
        assert signed.sign(uri).status_code == 403, uri
    assert signed.sign(good.replace(signed.topic, signed.other), topic=signed.other).status_code == 403


def test_only_names_of_topics_are_signed_for(signed: Signed) -> None:
    """A right on all names that begin alike is none on what such a name leads to, in a store that resolves paths."""
    signed.load()
    signed.secured.allow(USER, "Read", "topic", signed.topic, pattern="prefix")
    for name in (f"{signed.topic}/../{signed.other}", f"{signed.topic}/../../system/journals/0", f"{signed.topic}\0"):
        answer = signed.sign(f"http://h/topics/{name}/segments/f.parquet", topic=quote(name, safe=""))
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NoSuchTableException"), name


def test_a_right_that_is_taken_away_ends_reading(signed: Signed) -> None:
    """No request is signed any more, although the client has the table and the addresses."""
    table = signed.load()
    tasks = list(table.scan().plan_files())
    client = signing_client(table)
    split = urlsplit(tasks[0].file.file_path)
    client.head_object(Bucket=split.netloc, Key=split.path[1:])
    signed.secured.forget(USER)
    with pytest.raises(Exception, match="Failed to sign request 403") as refused:
        client.head_object(Bucket=split.netloc, Key=split.path[1:])
    assert not isinstance(refused.value, ClientError)
