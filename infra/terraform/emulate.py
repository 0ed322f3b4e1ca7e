"""Run ``terraform apply`` and ``destroy`` of the minimal example on an emulator of AWS: ``emulate.py MOTO MIRROR``.

``MOTO`` is the program ``moto_server``; ``MIRROR`` is a directory with the AWS provider. Autoscaling is left out: the emulator
does not support its tags. The result is checked with AWS's own client. After ``destroy`` the bucket must be gone. It takes some
two minutes, in which the provider waits for the load balancer and for the bucket's rules.
"""
# ruff: noqa: INP001, S106, S603, S607, T201 - a program of its own that starts others

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import boto3
import urllib3

TERRAFORM: Final = Path(__file__).resolve().parent
SERVICES: Final = ("cloudwatch", "ec2", "ecs", "elbv2", "iam", "logs", "s3", "sns", "sts")
TARGETS: Final = (
    "module.storage",
    "module.network",
    "module.maintenance",
    "module.gateway.aws_ecs_service.gateway",
    "module.gateway.aws_iam_role_policy.store",
    "module.gateway.aws_iam_role_policy.execution",
)
IMAGES: Final = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
VARIABLES: Final = {
    "bucket": "tidelog-emulated",
    "gateway_image": f"{IMAGES}/tidelog-gateway:0.1.0",
    "spark_image": f"{IMAGES}/tidelog-spark:0.1.0",
    "repository_arns": ["arn:aws:ecr:eu-central-1:123456789012:repository/tidelog-gateway"],
    "client_cidrs": ["198.51.100.7/32"],
    "force_destroy": True,
}
PROVIDER: Final = """
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  s3_use_path_style           = true
  endpoints {
%s
  }
}
"""
START_SECONDS_MAX: Final = 60
APPLY_SECONDS_MAX: Final = 600


def main(moto: str, mirror: str) -> int:
    """Create, check and destroy everything, and return 0 on success."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    emulator = subprocess.Popen([moto, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        _wait_for(url, emulator)
        with tempfile.TemporaryDirectory() as directory:
            _apply_and_destroy(Path(directory) / "copy", url, mirror)
    finally:
        emulator.terminate()
        emulator.wait()
    print("applied, looked at, destroyed")
    return 0


def _apply_and_destroy(copy: Path, url: str, mirror: str) -> None:
    shutil.copytree(TERRAFORM, copy, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
    example = copy / "examples" / "minimal"
    versions = example / "versions.tf"
    endpoints = "\n".join(f'    {service} = "{url}"' for service in SERVICES)
    without = re.sub(r'(?ms)^provider "aws" \{.*?^\}\n', "", versions.read_text())
    versions.write_text(without + PROVIDER % endpoints)
    (example / "emulated.auto.tfvars.json").write_text(json.dumps(VARIABLES))
    targets = [f"-target={target}" for target in TARGETS]
    _terraform(example, "init", f"-plugin-dir={mirror}")
    _terraform(example, "apply", "-auto-approve", *targets)
    _look(url)
    _terraform(example, "destroy", "-auto-approve")
    assert _client("s3", url).list_buckets()["Buckets"] == [], "the bucket outlived destroy"


def _look(url: str) -> None:
    """Check what a person would check in AWS's console."""
    bucket = str(VARIABLES["bucket"])
    s3, ecs = _client("s3", url), _client("ecs", url)
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    rules = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rules[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    services = {arn.rpartition("/")[2] for arn in ecs.list_services(cluster="tidelog")["serviceArns"]}
    assert services == {"tidelog-gateway", "tidelog-maintenance"}, services


def _client(service: str, url: str) -> Any:
    return boto3.client(  # type: ignore[call-overload]
        service, endpoint_url=url, region_name="eu-central-1", aws_access_key_id="none", aws_secret_access_key="none"
    )


def _wait_for(url: str, emulator: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    with urllib3.PoolManager(retries=False) as http:
        while time.monotonic() < deadline and emulator.poll() is None:
            try:
                http.request("GET", f"{url}/moto-api/", timeout=2)
            except urllib3.exceptions.HTTPError:
                time.sleep(0.1)
            else:
                return
    raise SystemExit("the emulator does not start")


def _terraform(directory: Path, command: str, *arguments: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "AWS_"))}
    done = subprocess.run(
        ["terraform", command, "-input=false", "-no-color", *arguments],
        cwd=directory, env={**environment, "CHECKPOINT_DISABLE": "1"}, capture_output=True, text=True,
        timeout=APPLY_SECONDS_MAX, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"terraform {command} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
