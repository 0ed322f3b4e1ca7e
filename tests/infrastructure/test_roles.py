"""The policy of each role is enough for its work and for no more: on a MinIO that enforces the very documents that Terraform
attaches, gateway, maintenance, readers and jobs that write do what they are for, and are refused the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from log_format.clock import SystemClock
from log_format.inspection.diagnosis import diagnose
from log_format.inspection.finding import Verdict
from log_format.inspection.verify import verify_topic
from log_format.stores.s3 import S3Store
from tests.support.waiting import eventually
from tidelog import Admin, Consumer, Producer

POLICIES = Path(__file__).resolve().parents[2] / "infra/terraform/modules/access/policies"
PREFIX = "deep/log"
RECORDS = 20


@dataclass(frozen=True, slots=True)
class Roles:
    """A bucket, and credentials that may do in it what a role's policy says."""

    bucket: str
    environment: dict[str, str]

    @property
    def store_uri(self) -> str:
        return f"s3://{self.bucket}/{PREFIX}"

    def credentials(self, role: str) -> dict[str, str]:
        """Temporary ones, whose policy is the role's document."""
        document = (POLICIES / f"{role}.json.tftpl").read_text()
        for name, value in {"bucket_arn": f"arn:aws:s3:::{self.bucket}", "prefix": PREFIX}.items():
            document = document.replace(f"${{{name}}}", value)
        assert "${" not in document
        client = boto3.client("sts", **self._arguments())
        answer = client.assume_role(
            RoleArn=f"arn:aws:iam::123456789012:role/{role}",
            RoleSessionName=role,
            Policy=document,
            DurationSeconds=3600,
        )
        client.close()
        given = answer["Credentials"]
        return {
            "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
            "AWS_SESSION_TOKEN": given["SessionToken"],
        }

    def client(self, role: str | None = None) -> Any:
        """boto3's client of S3: a role's, or the administrator's."""
        return boto3.client("s3", **self._arguments({} if role is None else self.credentials(role)))

    def session(self, role: str) -> boto3.Session:
        """boto3's session of a role."""
        arguments = self._arguments(self.credentials(role))
        del arguments["endpoint_url"]
        return boto3.Session(**arguments)

    def process_environment(self, role: str) -> dict[str, str]:
        """For a process that has nothing but the role's credentials."""
        return {**os.environ, **self.environment, **self.credentials(role)}

    def _arguments(self, credentials: dict[str, str] | None = None) -> dict[str, Any]:
        found = {**self.environment, **(credentials or {})}
        return {
            "endpoint_url": found["AWS_ENDPOINT_URL"],
            "region_name": found["AWS_REGION"],
            "aws_access_key_id": found["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": found["AWS_SECRET_ACCESS_KEY"],
            "aws_session_token": found.get("AWS_SESSION_TOKEN"),
        }


@pytest.fixture(scope="module")
def roles(minio: Any) -> Roles:
    """A bucket whose log a gateway with its role alone has written: a topic with records, a group's offsets, a deleted topic."""
    found = Roles(minio.create_bucket(), minio.environment())
    environment = found.process_environment("gateway")
    command = [sys.executable, "-m", "gateway", "--store", found.store_uri, "--port", "0", "--log-level", "warning"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().decode().split(" listens on ")[1].split()[0]
        _use(url)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    lines = [json.loads(line) for line in errors.splitlines()]
    # The segments of the deleted topic, which it may not delete, and which maintenance will.
    expected = ("left to the collector", "failed at topics/gone/segments/")
    assert [line for line in lines if not any(words in line["event"] for words in expected)] == []
    return found


def _use(url: str) -> None:
    with Admin(url) as admin, Producer(url, transactional_id="roles") as producer:
        for name in ("orders", "gone", "appended"):
            admin.create_topic(name, 2)
        admin.create_topic("quiet", 1, {"commit.mode": "shared"})
        for number in range(RECORDS):
            with producer.transaction():
                producer.send("orders", str(number), key=str(number))
        with producer.transaction():
            producer.send("gone", "x")
            producer.send("quiet", "x")
        admin.delete_topic("gone")
    with Consumer("orders", bootstrap_servers=url) as consumer:
        read = 0
        while read < RECORDS:
            read += len(consumer.poll(timeout_ms=1000))
    with Admin(url) as admin:
        admin.create_topic("later", 1)
    late = {"records": [{"value": "late", "deliver_after_ms": 200}]}
    assert httpx.post(f"{url}/v1/topics/later/records", json=late).is_success
    with Consumer("later", bootstrap_servers=url) as consumer:
        assert eventually(lambda: consumer.poll(timeout_ms=1000))
    offsets = [{"topic": "orders", "partition": 0, "offset": 1}]
    assert httpx.put(f"{url}/v1/groups/g/offsets", json={"offsets": offsets}).status_code == 200


def refused(call: Callable[..., Any], **arguments: Any) -> bool:
    """Whether the store forbids it."""
    try:
        call(**arguments)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    return False


@pytest.fixture(scope="module")
def segment(roles: Roles) -> str:
    """The key of a segment that the log names."""
    client = roles.client()
    listed = client.list_objects_v2(Bucket=roles.bucket, Prefix=f"{PREFIX}/topics/orders/segments/")["Contents"]
    key: str = listed[0]["Key"]
    return key


def test_a_gateway_does_its_work_and_deletes_no_segment(roles: Roles, segment: str) -> None:
    """Topics, transactions, groups and reads worked (the fixture); it may not delete a segment, nor touch what is no log."""
    client = roles.client("gateway")
    assert client.get_object(Bucket=roles.bucket, Key=segment)["ContentLength"] > 0
    assert refused(client.delete_object, Bucket=roles.bucket, Key=segment)
    assert refused(client.delete_object, Bucket=roles.bucket, Key=f"{PREFIX}/topics/orders/_delta_log/{0:020d}.json")
    assert not refused(client.delete_object, Bucket=roles.bucket, Key=f"{PREFIX}/topics/later/scheduled/id/objects/x")
    assert refused(client.put_object, Bucket=roles.bucket, Key="elsewhere", Body=b"")
    assert refused(client.put_object, Bucket=roles.bucket, Key=f"{PREFIX}/elsewhere", Body=b"")
    assert refused(client.get_object, Bucket=roles.bucket, Key="elsewhere")
    assert refused(client.delete_bucket, Bucket=roles.bucket)


def test_a_reader_reads_everything_and_writes_nothing(
    roles: Roles, segment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job with the reader's role sees every record and proves the topic; it can't write, delete, or see system objects."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", roles.environment["AWS_ENDPOINT_URL"])
    store = S3Store(roles.bucket, PREFIX, session=roles.session("reader"))
    report = verify_topic(store, "orders", clock=SystemClock())
    assert (report.ok, report.record_count) == (True, RECORDS)
    client = roles.client("reader")
    journal = f"{PREFIX}/system/journals/0"
    assert client.get_object(Bucket=roles.bucket, Key=f"{journal}/_delta_log/{0:020d}.json")["ContentLength"] > 0
    assert refused(client.put_object, Bucket=roles.bucket, Key=f"{journal}/segments/x.parquet", Body=b"")
    assert refused(client.put_object, Bucket=roles.bucket, Key=f"{PREFIX}/topics/orders/segments/x", Body=b"")
    assert refused(client.delete_object, Bucket=roles.bucket, Key=segment)
    assert refused(client.get_object, Bucket=roles.bucket, Key=f"{PREFIX}/system/cluster.json")


SINK = """
import sys, pyarrow as pa
from spark_pipeline.sink.options import parse_sink_options
from spark_pipeline.sink.writers import BatchWriter
store, rows = sys.argv[1], pa.RecordBatch.from_pydict({"key": [b"1", b"2"], "value": [b"from", b"Spark"]})
options = {"store": store, "topic": "appended", "txnAppId": "job", "txnVersion": "1"}
for _ in range(2):
    writer = BatchWriter(parse_sink_options(options, streaming=False))
    writer.commit([writer.write(iter([rows]))])
"""
"""What Spark calls of the sink for one batch, which is written twice."""


def test_a_job_that_writes_appends_and_does_nothing_else(roles: Roles, segment: str, tmp_path: Path) -> None:
    """With the writer's role the sink appends a batch, once; it can't delete what topics are made of, change what a reader starts
    from, touch the offsets of groups, or pass for a gateway."""
    done = subprocess.run(
        [sys.executable, "-c", SINK, roles.store_uri],
        env=roles.process_environment("writer"), cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    client, administrator = roles.client("writer"), roles.client()
    staged = administrator.list_objects_v2(Bucket=roles.bucket, Prefix=f"{PREFIX}/system/transactions/staged/")
    assert staged["KeyCount"] == 0
    log = f"{PREFIX}/topics/appended/_delta_log"
    assert client.get_object(Bucket=roles.bucket, Key=f"{log}/{1:020d}.json")["ContentLength"] > 0
    assert refused(client.delete_object, Bucket=roles.bucket, Key=segment)
    journal = f"{PREFIX}/system/journals/0"
    client.put_object(Bucket=roles.bucket, Key=f"{journal}/segments/x.parquet", Body=b"")
    assert refused(client.delete_object, Bucket=roles.bucket, Key=f"{journal}/segments/x.parquet")
    assert refused(client.put_object, Bucket=roles.bucket, Key=f"{journal}/_delta_log/_last_checkpoint", Body=b"")
    for below in (f"topics/appended/_delta_log/{1:020d}.json", f"system/transactions/_delta_log/{0:020d}.json"):
        assert refused(client.delete_object, Bucket=roles.bucket, Key=f"{PREFIX}/{below}")
    for below in (
        "topics/appended/_delta_log/_last_checkpoint",
        f"topics/appended/_delta_log/{1:020d}.checkpoint.parquet",
        "topics/appended/compacted/x.parquet",
        "system/consumer_offsets/_delta_log/x.json",
        "system/gateways/a.json",
        "elsewhere",
    ):
        assert refused(client.put_object, Bucket=roles.bucket, Key=f"{PREFIX}/{below}", Body=b""), below
    assert refused(
        client.get_object, Bucket=roles.bucket, Key=f"{PREFIX}/system/consumer_offsets/_delta_log/{0:020d}.json"
    )


def test_maintenance_does_its_work_and_leaves_gateways_alone(roles: Roles, tmp_path: Path) -> None:
    """A round with maintenance's role fails with no topic; of system objects it can only fence the tables and write how a
    transaction ended, and it can't delete a heartbeat."""
    done = subprocess.run(
        [sys.executable, "-m", "compaction", "--store", roles.store_uri, "--workers", "local", "--once", "--json"],
        env=roles.process_environment("maintenance"), cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["failed_topics"] for event in events if event["event"] == "round"] == [0]
    client = roles.client("maintenance")
    assert refused(client.put_object, Bucket=roles.bucket, Key=f"{PREFIX}/system/cluster.json", Body=b"")
    assert refused(client.delete_object, Bucket=roles.bucket, Key=f"{PREFIX}/system/gateways/a.json")
    assert refused(client.delete_object, Bucket=roles.bucket, Key="elsewhere")
    assert refused(client.put_object, Bucket=roles.bucket, Key=f"{PREFIX}/system/consumer_offsets/offsets/x", Body=b"")
    for below in (
        "topics/orders/_cleaned",
        "topics/orders/_delta_log",
        "topics/orders/compacted",
        "topics/orders/segments",
        "system/journals/0/_cleaned",
        "system/journals/0/_delta_log",
        "system/journals/0/segments",
        "system/transactions/_cleaned",
        "system/transactions/_delta_log",
        "system/transactions/decisions",
        "system/consumer_offsets/_cleaned",
        "system/consumer_offsets/_delta_log",
        "system/access/_cleaned",
        "system/access/_delta_log",
    ):
        key = f"{PREFIX}/{below}/probe"
        client.put_object(Bucket=roles.bucket, Key=key, Body=b"")
        client.delete_object(Bucket=roles.bucket, Key=key)


@pytest.mark.parametrize(
    ("role", "bad"),
    [
        ("gateway", set()),
        ("reader", {"write", "transactions"}),
        ("maintenance", {"write"}),
        ("writer", {"write"}),
    ],
)
def test_the_doctor_tells_roles_apart(roles: Roles, role: str, bad: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """``tidelog doctor`` finds nothing wrong with the gateway's role, and says of the others that they can't write; of a reader
    and a job that writes also what they can't read."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", roles.environment["AWS_ENDPOINT_URL"])
    store = S3Store(roles.bucket, PREFIX, session=roles.session(role))
    ids: Iterator[str] = (f"probe-{role}-{number}" for number in range(10))
    findings = list(diagnose(store, SystemClock(), lambda: next(ids)))
    assert {each.what for each in findings if each.verdict is Verdict.BAD} == bad
