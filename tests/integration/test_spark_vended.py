"""Spark reads by credentials that a gateway vends: ``format("tidelog")`` by options, and a session that has no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.minio import Minio
from tests.support.secured import secured_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # noqa: F401 - tests that name it share a worker

pytestmark = pytest.mark.spark

ROLE = "arn:aws:iam::123456789012:role/vended"
PROGRAM = """
import json, sys
from pathlib import Path
from spark_pipeline import read_topic, session
from spark_pipeline.vended import VendedStore
from spark_pipeline.way import Way

store, gateway, token_file, one, other, own = sys.argv[1:]
vended = VendedStore(store, gateway, token_file, (one,))
spark = session(store, master="local[1]", vended=vended, config={"spark.driver.memory": "1g"})
options = {"store": store, "gateway": gateway, "tokenFile": token_file}
by_options = spark.read.format("tidelog").options(**options)
found = {
    "options": [row.value.decode() for row in by_options.option("subscribe", one).load().select("value").collect()],
    "delta": [row.value.decode() for row in read_topic(spark, store, one, way=Way.DELTA).select("value").collect()],
    "refused": [],
}
plan = by_options.option("subscribe", one).load()._jdf.queryExecution().toString()
for reader in (by_options.option("subscribe", other), spark.read.format("delta")):
    try:
        reader.load(*[f"{store}/topics/{other}"] * (reader is not by_options)).collect()
        found["refused"].append(False)
    except Exception as error:
        found["refused"].append(True)
token = Path(token_file).read_text().strip()
found["leaked"] = token in plan or token in str(spark.sparkContext.getConf().getAll())
Path(own).write_text(json.dumps(found))
"""


def test_a_session_and_a_source_read_by_vended_credentials(minio: Minio, tmp_path: Path) -> None:
    """The process has no credentials of its own, so that every read goes by vended ones; other topics are refused."""
    store = f"s3://{minio.create_bucket()}/log"
    settings = ("--vending-role-arn", ROLE)
    with secured_gateway(tmp_path, *settings, store=store, environment=minio.environment()) as (secured, _):
        one, other = secured.topic(), secured.topic()
        for name in (one, other):
            body = {"records": [{"value": f"{name}-{number}"} for number in range(3)]}
            assert secured.admin.http.post(f"/v1/topics/{name}/records", json=body).status_code == 200
        _, reader = secured.caller(("Read", "topic", one))
        token_file, program, found = tmp_path / "token", tmp_path / "program.py", tmp_path / "found.json"
        token_file.write_text(reader.headers["authorization"].removeprefix("Bearer ") + "\n")
        program.write_text(PROGRAM)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {"AWS_EC2_METADATA_DISABLED": "true", "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, str(program), store, secured.url, str(token_file), one, other, str(found)],
            env=environment, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        told = json.loads(found.read_text())
        expected = [f"{one}-{number}" for number in range(3)]
        assert (sorted(told["options"]), sorted(told["delta"])) == (expected, expected)
        assert told["refused"] == [True, True]
        assert told["leaked"] is False
        assert token_file.read_text().strip() not in done.stdout + done.stderr
