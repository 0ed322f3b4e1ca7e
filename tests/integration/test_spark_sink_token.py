"""``format("tidelog")`` writing through a gateway with ``auth=on``: the token stays with the driver's file."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.secured import secured_gateway
from tidelog import Acl, Admin, Consumer


def test_no_plan_and_no_progress_holds_the_token(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A stream and a batch write with ``tokenFile``: explain, the query's JSON, and its checkpoint hold no token."""
    (tmp_path / "gateway").mkdir()
    with secured_gateway(tmp_path / "gateway") as (secured, gateway):
        token = secured.token("User:spark")["token"]
        file = tmp_path / "token"
        file.write_text(token)
        with Admin(gateway.url, token=secured.admin.http.headers["Authorization"].removeprefix("Bearer ")) as admin:
            admin.create_topic("to")
            admin.add_acls(
                [
                    Acl(principal="User:spark", operation="Write", resource_type="topic", resource="to"),
                    Acl(principal="User:spark", operation="Read", resource_type="topic", resource="to"),
                    Acl(
                        principal="User:spark",
                        operation="Write",
                        resource_type="transactional_id",
                        resource="spark-",
                        pattern="prefix",
                    ),
                ]
            )
        option = {"gateway": gateway.url, "tokenFile": str(file), "topic": "to"}
        checkpoint = tmp_path / "checkpoint"
        records = spark.readStream.format("rate").option("rowsPerSecond", 5).load().selectExpr("string(value) as value")
        writer = records.writeStream.format("tidelog").options(**option).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(processingTime="1 second").start()
        try:
            with Consumer("to", bootstrap_servers=gateway.url, token_file=file) as consumer:
                assert consumer.poll(90_000)
            query.explain(extended=True)
            seen = [str(query.recentProgress), str(query.lastProgress), str(query.status)]
        finally:
            query.stop()
        batch = spark.createDataFrame([("a batch's",)], "value string")
        batch.write.format("tidelog").mode("append").options(**option).save()
        seen.append(batch._jdf.queryExecution().toString())
    printed = capfd.readouterr()
    seen += [printed.out, printed.err]
    seen += [path.read_bytes().decode("latin-1") for path in checkpoint.rglob("*") if path.is_file()]
    assert "Physical Plan" in printed.out
    assert token not in "".join(seen)
    assert token.split("_", 2)[2] not in "".join(seen)
