"""The store goes away and comes back: refusals meanwhile, and everything goes on with no restart."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.gateway_process import StartGateway
from tests.support.minio import Minio
from tests.support.senders import Senders, check_log
from tests.support.waiting import eventually

pytestmark = pytest.mark.minio

PARTITIONS = 3
IN_FLIGHT_SECONDS = 0.5
"""A request that began so short a time after the store went may still have caught a connection's last moment."""


@pytest.mark.parametrize(
    ("away", "back", "seconds"),
    # Longer than the gateway itself waits for its store (10 s), so that nothing is left of what began before.
    [
        pytest.param("kill", "start", 13, id="killed for 13 s"),
        pytest.param("freeze", "thaw", 10, id="hanging for 10 s"),
    ],
)
def test_the_store_goes_away(
    own_minio: Minio,
    start_gateway: StartGateway,
    send: Callable[..., Senders],
    away: str,
    back: str,
    seconds: float,
) -> None:
    """503 with ``Retry-After`` while it is away, for reads, too (504 only for what was in flight); G1, G2, G3, G8 throughout;
    the same process goes on by itself as soon as the store is back.
    """
    gateway = start_gateway(f"s3://log/{away}", environment=own_minio.environment())
    gateway.topic("log", PARTITIONS, flush_ms=10)
    senders = send([gateway.url], "log", PARTITIONS, 6)
    assert eventually(lambda: senders.acknowledged_since(0) > 50)
    gone = time.monotonic()
    getattr(own_minio, away)()
    try:
        with ThreadPoolExecutor() as pool:
            calls = [
                pool.submit(gateway.http.get, "/readyz"),
                pool.submit(gateway.fetch, "log"),
                pool.submit(gateway.produce, "log", "refused"),
            ]
            assert gateway.http.get("/healthz").status_code == 200
            refusals = [call.result() for call in calls]
        time.sleep(max(0.0, gone + seconds - time.monotonic()))
    finally:
        back_again = time.monotonic()
        getattr(own_minio, back)()
    for refusal in refusals:
        assert (refusal.status_code, refusal.json()["error_code"]) == (503, "UNAVAILABLE")
        assert int(refusal.headers["retry-after"]) >= 1
    assert eventually(lambda: gateway.http.get("/readyz").status_code == 200, 15)
    assert eventually(lambda: senders.acknowledged_since(back_again) > 50, 20), gateway.log()[-3000:]
    sent = senders.stop()
    assert gateway.process.poll() is None
    check_log([gateway.read("log", partition) for partition in range(PARTITIONS)], sent)
    assert {one.status for one in sent} <= {200, 503, 504}
    refused = [one for one in sent if one.status == 503]
    assert all(one.answer["error_code"] == "UNAVAILABLE" and int(one.retry_after or 0) >= 1 for one in refused)
    assert all(one.began < gone + IN_FLIGHT_SECONDS for one in sent if one.status == 504)


def test_a_gateway_that_starts_before_its_store(own_minio: Minio, start_gateway: StartGateway) -> None:
    """It starts, says that it is not ready, refuses with 503, and serves as soon as the store is there."""
    own_minio.kill()
    try:
        gateway = start_gateway("s3://log/late", environment=own_minio.environment())
        assert gateway.http.get("/healthz").status_code == 200
        for answer in (gateway.http.get("/readyz"), gateway.http.post("/v1/topics", json={"name": "log"})):
            assert (answer.status_code, answer.json()["error_code"]) == (503, "UNAVAILABLE")
            assert int(answer.headers["retry-after"]) >= 1
    finally:
        own_minio.start()
    assert eventually(lambda: gateway.http.get("/readyz").status_code == 200, 15)
    gateway.topic("log")
    assert gateway.produce("log", "a").status_code == 200
    assert gateway.read("log") == [(0, "a")]


def test_credentials_that_only_read(own_minio: Minio, start_gateway: StartGateway) -> None:
    """A gateway that may read the bucket and no more starts, is ready, serves reads, and refuses writes with 503."""
    writer = start_gateway("s3://log/read-only", environment=own_minio.environment())
    writer.topic("log")
    assert writer.produce("log", "a", "b").status_code == 200
    keys = own_minio.client("sts").assume_role(
        RoleArn="arn:aws:iam::any:role/reader",
        RoleSessionName="reader",
        Policy='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:GetObject","s3:ListBucket"],'
        '"Resource":["arn:aws:s3:::log","arn:aws:s3:::log/*"]}]}',
    )["Credentials"]
    reader = start_gateway(
        "s3://log/read-only",
        environment=own_minio.environment(
            AWS_ACCESS_KEY_ID=keys["AccessKeyId"],
            AWS_SECRET_ACCESS_KEY=keys["SecretAccessKey"],
            AWS_SESSION_TOKEN=keys["SessionToken"],
        ),
    )
    assert reader.http.get("/readyz").status_code == 200
    for _ in range(2):
        refusal = reader.produce("log", "refused")
        assert (refusal.status_code, refusal.json()["error_code"]) == (503, "UNAVAILABLE"), refusal.text
        assert int(refusal.headers["retry-after"]) >= 1
        assert refusal.json()["may_have_happened"] is False
    assert reader.http.post("/v1/topics", json={"name": "another"}).status_code == 503
    assert writer.produce("log", "c").status_code == 200
    assert reader.read("log") == [(0, "a"), (1, "b"), (2, "c")]


def test_a_bucket_that_does_not_exist(own_minio: Minio) -> None:
    """Nothing that waiting mends: one line with the store's name, and the status of wrong settings."""
    command = [sys.executable, "-m", "gateway", "--store", "s3://no-such-bucket/log", "--port", "0"]
    environment = {**os.environ, **own_minio.environment()}
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr.count(b"\n")) == (2, b"", 1), ended.stderr
    assert b"s3://no-such-bucket/log takes no objects: the bucket does not exist" in ended.stderr
