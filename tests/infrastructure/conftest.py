"""What tests of ``infra/terraform`` share: Terraform with the pinned AWS provider, from a mirror on this machine.

Neither credentials nor a network are needed. Without Terraform or the provider the tests are skipped, and say what is
missing; in continuous integration (``CI``) they fail. ``TIDELOG_TERRAFORM_PLUGINS`` names the mirror where it is in none of
the usual places: a directory of ``<host>/hashicorp/aws/<version>/<platform>``, as ``terraform providers mirror`` makes it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until

TERRAFORM = Path(__file__).resolve().parents[2] / "infra" / "terraform"
SECONDS_MAX = 240
USUAL_MIRRORS = ("~/.terraform.d/plugins", "/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins")
OFFLINE = """
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  skip_region_validation      = true
%s}
"""
"""In place of an example's own provider: it asks no service."""


def provider_version() -> str:
    """The one version that all modules pin."""
    found = {
        str(version)
        for path in TERRAFORM.rglob("versions.tf")
        for version in re.findall(r'source\s*= "hashicorp/aws"\s+version = "(.*)"', path.read_text())
    }
    (version,) = found
    return version


def find_mirror() -> Path | None:
    """A directory that has the pinned provider."""
    named = os.environ.get("TIDELOG_TERRAFORM_PLUGINS")
    usual = [*map(Path, map(os.path.expanduser, USUAL_MIRRORS)), *sorted(Path("/opt").glob("*"))]
    for directory in [Path(named)] if named else usual:
        if any(directory.glob(f"*/hashicorp/aws/{provider_version()}/*/terraform-provider-aws*")):
            return directory
    return None


def plain_environment() -> dict[str, str]:
    """This process's, without settings of Terraform or AWS. Garbage is collected seldom: these programs live for moments."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "AWS_"))}
    return {**kept, "GOGC": "400"}


class Workspace:
    """A copy of ``infra/terraform``, of which one folder is initialised and used."""

    def __init__(self, home: Path, folder: str, mirror: Path, provider: str) -> None:
        shutil.copytree(TERRAFORM, home, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
        self.directory = home / folder
        self._is_example = "examples" in Path(folder).parts
        self._mirror = mirror
        self._provider = provider

    def initialise(self, endpoints: str = "") -> None:
        """``terraform init``, with a provider that asks no service, or an emulator.

        For an example Terraform checks that the mirror has what all modules ask for, which reads 700 MB.
        """
        if self._is_example:
            versions = self.directory / "versions.tf"
            versions.write_text(
                re.sub(r'(?ms)^provider "aws" \{.*?^\}\n', "", versions.read_text()) + OFFLINE % endpoints
            )
        self.run("init", "-input=false", f"-plugin-dir={self._mirror}")

    def run(self, *arguments: str) -> str:
        """What a command of Terraform prints. It must succeed."""
        environment = plain_environment()
        if arguments[0] != "init" or not self._is_example:
            environment["TF_REATTACH_PROVIDERS"] = self._provider
        done = subprocess.run(
            ["terraform", arguments[0], *([] if arguments[0] == "show" else ["-no-color"]), *arguments[1:]],
            cwd=self.directory,
            env={**environment, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def plan(self, variables: dict[str, Any], *more: str) -> str:
        """What ``terraform plan`` says."""
        (self.directory / "test.auto.tfvars.json").write_text(json.dumps(variables))
        return self.run("plan", "-input=false", "-refresh=false", *more)

    def planned(self, variables: dict[str, Any]) -> list[dict[str, Any]]:
        """Each resource that would be made, as ``terraform show -json`` has it."""
        self.plan(variables, "-out=test.tfplan")
        plan = json.loads(self.run("show", "-json", "test.tfplan"))
        changes: list[dict[str, Any]] = plan["resource_changes"]
        return changes


@pytest.fixture(scope="session")
def provider_mirror() -> Path:
    """The directory of the pinned provider; there is Terraform, too."""
    mirror = find_mirror()
    missing = [
        what
        for what, is_there in {
            "terraform on PATH": shutil.which("terraform") is not None,
            f"a mirror of the AWS provider {provider_version()} (TIDELOG_TERRAFORM_PLUGINS)": mirror is not None,
        }.items()
        if not is_there
    ]
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"needed: {', '.join(missing)}")
    assert mirror is not None
    return mirror


@pytest.fixture(scope="session")
def provider(provider_mirror: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The provider, started once: how Terraform finds it. It is a program of 700 MB, which each command, and each run of a
    module's tests, would start for itself."""
    told = json.loads(subprocess.run(["terraform", "version", "-json"], capture_output=True, check=True).stdout)
    places = f"*/hashicorp/aws/{provider_version()}/{told['platform']}/terraform-provider-aws*"
    program = next(path for path in provider_mirror.glob(places) if os.access(path, os.X_OK))
    log = tmp_path_factory.mktemp("provider") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "-debug"], env=plain_environment(), stdout=output, stderr=subprocess.STDOUT
        )
    try:
        (found,) = until(lambda: re.findall("TF_REATTACH_PROVIDERS='(.*)'", log.read_text()), what="it does not start")
        yield found
    finally:
        process.send_signal(signal.SIGINT)  # it takes its socket along
        process.wait(SECONDS_MAX)


@pytest.fixture(scope="module")
def workspace(
    provider_mirror: Path, provider: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Workspace]:
    """Makes the copy in which a folder of ``infra/terraform`` is used; not initialised yet."""

    def make(folder: str) -> Workspace:
        return Workspace(tmp_path_factory.mktemp("terraform") / "copy", folder, provider_mirror, provider)

    return make
