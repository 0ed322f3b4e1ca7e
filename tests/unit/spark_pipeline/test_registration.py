"""What Spark's Python processes are told of the store, without starting a session."""

from __future__ import annotations

from spark_pipeline.registration import store_environment


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
