"""What a session is told about S3, without starting one."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError

from spark_pipeline.jars import JarsUnavailable
from spark_pipeline.read import table_path
from spark_pipeline.session import s3_settings, session


def test_credentials_are_never_among_the_settings() -> None:
    """Spark prints and serves its settings; keys stay in the environment, where the AWS SDK finds them."""
    environment = {
        "AWS_ACCESS_KEY_ID": "an-access-key",
        "AWS_SECRET_ACCESS_KEY": "a-secret",
        "AWS_SESSION_TOKEN": "a-token",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
    }
    text = repr(s3_settings(environment))
    assert not [secret for secret in ("an-access-key", "a-secret", "a-token") if secret in text]


@pytest.mark.parametrize(("endpoint", "ssl"), [("http://127.0.0.1:9000", "false"), ("https://store.example", "true")])
def test_an_endpoint_is_addressed_by_path(endpoint: str, ssl: str) -> None:
    """S3-compatible stores have no DNS name for each bucket."""
    settings = s3_settings({"AWS_ENDPOINT_URL": endpoint})
    assert settings["spark.hadoop.fs.s3a.endpoint"] == endpoint
    assert settings["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert settings["spark.hadoop.fs.s3a.connection.ssl.enabled"] == ssl


def test_aws_itself_is_left_to_the_sdk() -> None:
    """Without an endpoint nothing is said that would keep S3A from the region's own."""
    settings = s3_settings({"AWS_REGION": "eu-central-1"})
    assert settings["spark.hadoop.fs.s3a.endpoint.region"] == "eu-central-1"
    assert not {"spark.hadoop.fs.s3a.endpoint", "spark.hadoop.fs.s3a.path.style.access"} & settings.keys()


def test_the_s3_endpoint_wins_over_the_general_one() -> None:
    """The order in which AWS's own tools look."""
    settings = s3_settings({"AWS_ENDPOINT_URL": "http://general:1", "AWS_ENDPOINT_URL_S3": "http://special:1"})
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://special:1"


def test_a_store_of_another_kind_is_refused_before_anything_starts() -> None:
    """A typing error in a URI costs no JVM."""
    with pytest.raises(ValueError, match="a store is a directory or s3://"):
        session("gs://bucket/prefix")


@pytest.mark.parametrize(
    ("store", "path"),
    [
        ("s3://bucket/some prefix", "s3://bucket/some prefix/topics/t"),
        ("s3a://bucket/prefix/", "s3a://bucket/prefix/topics/t"),
        ("file:///a%20b", "file:/a b/topics/t"),
        ("/a b", "file:/a b/topics/t"),
    ],
)
def test_tables_are_found_where_the_store_puts_them(store: str, path: str) -> None:
    """Hadoop takes paths as they are written, while a store's file URI is percent-encoded."""
    assert table_path(store, "t") == path


@pytest.mark.parametrize("is_there", [True, False])
def test_spark_submit_without_jars_is_one_sentence(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    """Under spark-submit Java runs already; where it has no Delta, it is said how to start it."""

    def load(name: str) -> None:
        if not is_there:
            raise Py4JJavaError(name, SimpleNamespace(_target_id="o1", _gateway_client=None))

    loader = SimpleNamespace(getContextClassLoader=lambda: SimpleNamespace(loadClass=load))
    thread = SimpleNamespace(currentThread=lambda: loader)
    java = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(Thread=thread)))
    module = import_module("spark_pipeline.session")  # the package's name of it is the function
    monkeypatch.setattr(module, "SparkContext", SimpleNamespace(_ensure_initialized=lambda: None, _jvm=java))
    with nullcontext() if is_there else pytest.raises(JarsUnavailable, match=r"spark-submit --jars"):
        module._check_jars()
