"""Apply both examples to an emulated AWS, plan again without a change, and destroy them: ``emulate.py PYTHON MIRROR [JUDGE]``.

``PYTHON`` is one that moto is installed for; ``MIRROR`` is a directory with the AWS provider; ``JUDGE`` one into which npm has
put the judge of policies. The result is checked with AWS's own client, and each role's rights by ``rights.py``. After ``destroy``
nothing of the example may be there. Left out: the directory bucket, which the emulator does not have. It takes some ten minutes,
in which the provider waits for load balancers and for the bucket's rules.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import boto3
import urllib3
from rights import ACCOUNT, Question, judged, of_an_administrator, of_execution, of_key, of_store

TERRAFORM: Final = Path(__file__).resolve().parent
SERVICES: Final = (
    "appautoscaling", "budgets", "cloudwatch", "ec2", "ecr", "ecs", "elbv2", "emrserverless", "iam", "logs", "s3", "scheduler",
    "sns", "sts",
)  # fmt: skip
IMAGES: Final = f"{ACCOUNT}.dkr.ecr.eu-central-1.amazonaws.com"
REPOSITORIES: Final = ("tidelog-gateway", "tidelog-spark", "tidelog-emr")
LOGS, SCRIPTS = "tidelog-emulated-logs", "tidelog-emulated-scripts"
COMMON: Final = {
    "bucket": "tidelog-emulated",
    "gateway_image": f"{IMAGES}/tidelog-gateway:0.1.0",
    "spark_image": f"{IMAGES}/tidelog-spark:0.1.0",
    "repository_arns": [f"arn:aws:ecr:eu-central-1:{ACCOUNT}:repository/{name}" for name in REPOSITORIES],
    "client_cidrs": ["198.51.100.7/32"],
    "host_name": "log.example.com",
}
OF_EXAMPLE: Final[dict[str, dict[str, Any]]] = {
    "minimal": {"force_destroy": True},
    "production": {
        "collector_image": f"{IMAGES}/collector:0.43.3",
        "emr_image": f"{IMAGES}/tidelog-emr:0.1.0",
        "log_bucket": LOGS,
        "scripts_bucket": SCRIPTS,
        "emails": ["on-call@example.com"],
        "jobs": {"delays": {"script": "delays.py", "schedule": "rate(1 hour)"}},
        "jobs_append": True,
    },
}
SERVICE_ROLES: Final = {
    "minimal": {"gateway", "gateway-execution", "maintenance", "maintenance-execution"},
    "production": {"gateway", "gateway-execution", "maintenance", "maintenance-schedule", "job", "schedule"},
}
FORGOTTEN: Final = {
    "aws_ecs_service": {"availability_zone_rebalancing", "health_check_grace_period_seconds"},
    "aws_emrserverless_application": {"architecture", "image_configuration"},
    "aws_vpc_security_group_egress_rule": {"description"},
    "aws_vpc_security_group_ingress_rule": {"description"},
}
"""Attributes that the emulator takes and does not show again: a plan that changes only these counts as empty."""
PROVIDER: Final = """
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  s3_use_path_style           = true
  endpoints {
%s
  }
}
"""
START_SECONDS_MAX: Final = 60
APPLY_SECONDS_MAX: Final = 1200


class Emulated:
    """Emulator of AWS, with what an account's owner creates before the first apply."""

    def __init__(self, url: str) -> None:
        self.url = url

    def client(self, service: str) -> Any:
        """Return AWS's own client of the service."""
        return boto3.client(  # type: ignore[call-overload]
            service,
            endpoint_url=self.url,
            region_name="eu-central-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",
        )

    def prepared(self, example: str) -> dict[str, Any]:
        """Create a certificate, secrets, repositories, a key and buckets; return the example's variables."""
        secrets = self.client("secretsmanager")
        found = COMMON | OF_EXAMPLE[example]
        found["certificate_arn"] = self.client("acm").request_certificate(DomainName="log.example.com")[
            "CertificateArn"
        ]
        for name in ("cluster_key", "bootstrap_token"):
            found[f"{name}_secret_arn"] = secrets.create_secret(Name=name, SecretString="x")["ARN"]
        for name in REPOSITORIES:
            self.client("ecr").create_repository(repositoryName=name)
        if example == "production":
            found["kms_key_arn"] = self.client("kms").create_key()["KeyMetadata"]["Arn"]
            s3 = self.client("s3")
            for bucket in (LOGS, SCRIPTS):
                s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
            s3.put_bucket_policy(Bucket=LOGS, Policy=json.dumps(TAKES_LOGS))
        return found

    def roles(self) -> dict[str, tuple[dict[str, Any], ...]]:
        """Return each role's policies by its name without ``tidelog-``. All must be in the role itself."""
        iam = self.client("iam")
        found = {}
        for role in iam.list_roles()["Roles"]:
            name = role["RoleName"]
            assert not iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"], name
            names = iam.list_role_policies(RoleName=name)["PolicyNames"]
            documents = [iam.get_role_policy(RoleName=name, PolicyName=each)["PolicyDocument"] for each in names]
            found[name.removeprefix("tidelog-")] = tuple(documents)
        return found

    def key_policy(self, key_arn: str) -> dict[str, Any]:
        """Return the key's policy: KMS's own default, which leaves all to the roles' policies."""
        found: dict[str, Any] = json.loads(
            self.client("kms").get_key_policy(KeyId=key_arn, PolicyName="default")["Policy"]
        )
        return found

    def bucket_policy(self) -> dict[str, Any]:
        """Return the policy of the log's bucket."""
        found: dict[str, Any] = json.loads(self.client("s3").get_bucket_policy(Bucket=COMMON["bucket"])["Policy"])
        return found


TAKES_LOGS: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "logging.s3.amazonaws.com"},
            "Action": "s3:PutObject",
            "Resource": f"arn:aws:s3:::{LOGS}/*",
        }
    ],
}


class Example:
    """Copy of ``infra/terraform`` in which one example is used against the emulator."""

    def __init__(self, name: str, copy: Path, emulated: Emulated, mirror: str) -> None:
        shutil.copytree(TERRAFORM, copy, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
        self.name, self._emulated = name, emulated
        self._directory = copy / "examples" / name
        versions = self._directory / "versions.tf"
        endpoints = "\n".join(f'    {service} = "{emulated.url}"' for service in SERVICES)
        without = re.sub(r'(?ms)^provider "aws" \{.*?^\}\n', "", versions.read_text())
        versions.write_text(without + PROVIDER % endpoints)
        self.variables = emulated.prepared(name)
        (self._directory / "emulated.auto.tfvars.json").write_text(json.dumps(self.variables))
        self.run("init", f"-plugin-dir={mirror}")

    def run(self, command: str, *arguments: str) -> str:
        """Run Terraform, which must succeed, and return its output."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "AWS_"))}
        done = subprocess.run(
            ["terraform", command, *([] if command == "show" else ["-input=false"]), "-no-color", *arguments],
            cwd=self._directory, env={**environment, "CHECKPOINT_DISABLE": "1"}, capture_output=True, text=True,
            timeout=APPLY_SECONDS_MAX, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"terraform {command} failed:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
        return done.stdout

    def is_as_planned(self) -> None:
        """Check that a second plan changes nothing but FORGOTTEN."""
        self.run("plan", "-out=second")
        plan = json.loads(self.run("show", "-json", "second"))
        changes = {
            each["address"]: wrong
            for each in plan["resource_changes"]
            if each["change"]["actions"] not in (["no-op"], ["read"])
            and (wrong := _changed(each["change"]) - FORGOTTEN.get(each["type"], set()))
        }
        assert not changes, f"a second apply of {self.name} would change {changes}"

    def unprotected(self) -> None:
        """Allow the load balancer to be deleted, as a person has to before ``destroy``."""
        main = self._directory / "main.tf"
        main.write_text(re.sub(r"is_protected( +)= true", r"is_protected\1= false", main.read_text()))
        self.run("apply", "-auto-approve")


def _changed(change: dict[str, Any]) -> set[str]:
    """Return the attributes that a planned change of a resource touches, or its actions if it is created or deleted."""
    if change["actions"] != ["update"]:
        return {"/".join(change["actions"])}
    before, after, unknown = change["before"], change["after"], change["after_unknown"]
    return {name for name in {*after, *unknown} if unknown.get(name) or before.get(name) != after.get(name)}


@contextmanager
def emulator(python: str) -> Iterator[Emulated]:
    """Run a new emulator until the end of the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, str(TERRAFORM / "emulator.py"), "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}", process)
        yield Emulated(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()


def _look(emulated: Emulated, example: str) -> None:
    """Check what a person would check in the console."""
    bucket = COMMON["bucket"]
    s3, ecs = emulated.client("s3"), emulated.client("ecs")
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    rules = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    algorithm = rules[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]
    assert algorithm == ("aws:kms" if example == "production" else "AES256")
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    services = {arn.rpartition("/")[2] for arn in ecs.list_services(cluster="tidelog")["serviceArns"]}
    expected = {"tidelog-gateway"} | ({"tidelog-maintenance"} if example == "minimal" else set())
    assert services == expected, services
    targets = emulated.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="ecs")
    assert [each["ResourceId"] for each in targets["ScalableTargets"]] == ["service/tidelog/tidelog-gateway"]


def _questions(emulated: Emulated, example: Example, job: str) -> Iterator[Question]:
    """Return what the roles are asked. ``job``: the kind of the role of jobs, writer or reader."""
    roles, policy, variables = emulated.roles(), emulated.bucket_policy(), example.variables
    assert set(roles) == SERVICE_ROLES[example.name], set(roles)
    store = {"gateway": "gateway", "maintenance": "maintenance"} | ({"job": job} if "job" in roles else {})
    for name, role in store.items():
        yield from of_store(role, roles[name], COMMON["bucket"], policy)
        if "kms_key_arn" in variables:
            yield from of_key(
                role, roles[name], variables["kms_key_arn"], emulated.key_policy(variables["kms_key_arn"])
            )
    yield from of_an_administrator(COMMON["bucket"], policy)
    secrets = {variables["cluster_key_secret_arn"]: True, variables["bootstrap_token_secret_arn"]: True}
    other = f"arn:aws:secretsmanager:eu-central-1:{ACCOUNT}:secret:other-AbCdEf"
    images = dict.fromkeys(variables["repository_arns"], True)
    images[f"arn:aws:ecr:eu-central-1:{ACCOUNT}:repository/other"] = False
    for name in roles:
        if name.endswith("-execution"):
            own = dict.fromkeys(secrets, name == "gateway-execution") | {other: False}
            yield from of_execution(name, roles[name], own, images)


def _judge(emulated: Emulated, example: Example, tools: Path, job: str) -> None:
    questions = list(_questions(emulated, example, job))
    wrong = judged(questions, tools)
    assert not wrong, f"{len(wrong)} of {len(questions)} answers are wrong:\n" + "\n".join(wrong[:20])
    print(f"{example.name}: {len(questions)} questions about rights, with a {job}'s job where there is one", flush=True)


def main(python: str, mirror: str, tools: str | None = None) -> int:
    """Return 0 when everything was created, was right, and was gone again."""
    for name in OF_EXAMPLE:
        with emulator(python) as emulated, tempfile.TemporaryDirectory() as directory:
            example = Example(name, Path(directory) / "copy", emulated, mirror)
            example.run("apply", "-auto-approve")
            _look(emulated, name)
            example.is_as_planned()
            if tools is not None:
                _judge(emulated, example, Path(tools), "writer")
            if name == "production":
                example.variables["jobs_append"] = False
                example.run("apply", "-auto-approve", "-var=jobs_append=false")
                if tools is not None:
                    _judge(emulated, example, Path(tools), "reader")
                example.unprotected()
            example.run("destroy", "-auto-approve")
            left = {each["Name"] for each in emulated.client("s3").list_buckets()["Buckets"]} - {LOGS, SCRIPTS}
            assert not left | set(emulated.roles()), f"outlived destroy: {left}, {set(emulated.roles())}"
            print(f"{name}: applied, looked at, planned again without a change, destroyed", flush=True)
    return 0


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


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
