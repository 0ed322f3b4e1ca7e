"""What docs/deploy.md says to type leads from nothing to a record: secrets, the gateway that gets them, and its clients."""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
from pathlib import Path

from tests.support.gateway_process import running_gateway
from tests.support.tracked_files import ROOT

NAME = "tidelog.tidelog.svc"
KUBECTL = f"""#!{sys.executable}
# A cluster of secrets, which are directories; a port is forwarded after a while. All other commands succeed.
import re, shutil, sys, time
from pathlib import Path
asked = " ".join(sys.argv[1:])
if made := re.search(r"create secret generic (\\S+)", asked):
    directory = Path(__file__).parent / made[1]
    directory.mkdir()
    for key, file in re.findall(r"--from-file=(?:([\\w.-]+)=)?(\\S+)", asked):
        shutil.copy(file, directory / (key or file))
elif got := re.search(r'get secret (\\S+) -o go-template=\\{{\\{{index .data "([\\w.-]+)" \\| base64decode\\}}\\}}$', asked):
    print(end=(Path(__file__).parent / got[1] / got[2]).read_text())
elif "port-forward" in asked:
    time.sleep(0.5)
    (Path(__file__).parent / "forwarded").touch()
    print("Forwarding from 127.0.0.1:8080 -> 8080")
"""
CURL = """#!/bin/sh
# Refused, with curl's own exit code, until the port is forwarded.
test -e "$(dirname "$0")/forwarded" || exit 7
exec /usr/bin/curl "$@"
"""


def blocks(text: str) -> str:
    """The commands of a piece of the page."""
    return "\n".join(re.findall(r"(?ms)^```bash$(.*?)^```$", text))


def typed(script: str, directory: Path) -> str:
    """What the commands print; each must succeed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=directory, capture_output=True, text=True, timeout=120, check=False,
        env={"PATH": f"{directory}:{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(directory)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_from_nothing_to_the_first_record_in_kubernetes(tmp_path: Path) -> None:
    """A gateway starts with the secrets as the page makes them; curl and the command line produce and read there, and a program
    gets a token. Nothing is sent before the port is forwarded. Only the port is another, and localhost is the name, since a
    test can't write /etc/hosts."""
    for name, program in (("kubectl", KUBECTL), ("curl", CURL)):
        (tmp_path / name).write_text(program)
        (tmp_path / name).chmod(0o755)
    page = (ROOT / "docs/deploy.md").read_text().replace(NAME, "localhost")
    section = page.split("\n## Kubernetes\n")[1].split("\n## ")[0]
    typed(blocks(section.split("\n**By Helm**")[0]), tmp_path)
    access, tls = tmp_path / "tidelog-access", tmp_path / "tidelog-tls"
    secrets = ("--bootstrap-token-file", f"{access}/bootstrap-token", "--cluster-key-file", f"{access}/cluster-key")
    settings = (*secrets, "--tls-cert", f"{tls}/tls.crt", "--tls-key", f"{tls}/tls.key", "--auth", "on")
    trust = ssl.create_default_context(cafile=str(tls / "ca.crt"))
    with running_gateway("memory://first", tmp_path / "log", *settings, trust=trust) as gateway:
        first = blocks(section.split("\n### The first record in Kubernetes\n")[1].split("\n### ")[0])
        port = gateway.url.rpartition(":")[2]
        printed = typed(re.sub(r"(?m)^.*\| sudo tee.*$", "", first).replace(":8080", f":{port}"), tmp_path)
    assert '"value":"hello"' in printed.replace(" ", ""), printed
    assert re.search(r"(?m)^hello\nhello$", printed), "the command line reads both records"
    assert (tmp_path / "shop.token").read_text().startswith("tl_")
    made = [*tmp_path.glob("*.token"), tmp_path / "authorization"]
    assert {each.stat().st_mode & 0o077 for each in made} == {0}
    assert not [*tmp_path.glob("*.key")], "what is in the cluster is needed nowhere else"
