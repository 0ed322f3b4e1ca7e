"""What Spark's Python processes are told of the store, without starting a session."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import spark_pipeline
from spark_pipeline.registration import PackageMissing, check_python, python_path, register, store_environment


def test_s3as_settings_become_what_the_store_reads() -> None:
    """Keys, endpoint and region by the names that the S3 client looks for; an endpoint without a scheme gets one."""
    settings = {
        "fs.s3a.access.key": "an-access-key",
        "fs.s3a.secret.key": "a-secret",
        "fs.s3a.endpoint": "127.0.0.1:9000",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.endpoint.region": "eu-central-1",
    }
    assert store_environment(settings.get) == {
        "AWS_ACCESS_KEY_ID": "an-access-key",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000",
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }


def test_nothing_said_is_nothing_told() -> None:
    """Then the processes look where AWS's tools do; S3A's default endpoint of AWS is no endpoint of its own."""
    assert store_environment({"fs.s3a.endpoint": ""}.get) == {}


def test_the_source_takes_with_it_what_its_processes_need_and_nothing_else_changes() -> None:
    """The store's credentials and how Python starts are for this source; the session's own environment comes back."""
    seen: list[dict[str, str]] = []
    before = {"PYTHONPATH": "others", "OTHER": "kept"}
    hadoop = SimpleNamespace(get={"fs.s3a.access.key": "an-access-key"}.get)
    context: Any = SimpleNamespace(
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop),
        environment=dict(before),
        defaultParallelism=3,
        master="local[3]",
        pythonExec="python3",
    )
    source = SimpleNamespace(register=lambda _: seen.append(dict(context.environment)))
    spark: Any = SimpleNamespace(sparkContext=context, dataSource=source, conf=SimpleNamespace(set=lambda *_: None))
    register(spark)
    (given,) = seen
    assert given["PYTHONPATH"] == os.pathsep.join([python_path({}), "others"])
    assert given["AWS_ACCESS_KEY_ID"] == "an-access-key"
    assert given["OTHER"] == "kept"
    assert given["PYTHONSAFEPATH"] == "1"
    assert context.environment == before
    assert context.pythonExec == sys.executable


def test_a_python_without_our_package_is_found_out_at_once(tmp_path: Path) -> None:
    """And not by a worker's stack trace; what the path brings along counts, and what is only on executors is not judged."""
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(PackageMissing, match="PYSPARK_PYTHON"):
        check_python(str(bare), "")
    check_python(str(bare), str(Path(spark_pipeline.__file__).parents[1]))
    check_python(str(tmp_path / "on-executors"), "")
