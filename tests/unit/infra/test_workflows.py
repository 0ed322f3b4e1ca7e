"""What a workflow runs with our rights can't be exchanged by moving a tag."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

WORKFLOWS = Path(__file__).resolve().parents[3] / ".github"
USES = re.compile(r"^\s*(?:-\s+)?[\"']?uses[\"']?\s*:\s*(?P<action>.*?)\s*$", re.MULTILINE)
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def unpinned(text: str) -> list[str]:
    """The actions of a workflow that are not named by commit, with the version behind. Those of this repository are."""
    actions = [found["action"] for found in USES.finditer(text)]
    return [each for each in actions if not each.startswith("./") and not PINNED.fullmatch(each)]


def test_every_action_is_named_by_its_commit() -> None:
    """A person sees the version, the runner takes the commit."""
    files = [*WORKFLOWS.rglob("*.yml"), *WORKFLOWS.rglob("*.yaml")]
    assert sum(len(USES.findall(file.read_text())) for file in files) >= 8
    assert {file.name: found for file in files if (found := unpinned(file.read_text()))} == {}


def test_what_is_not_pinned_is_found() -> None:
    """Tags, branches, short commits and images are; a pin without its version is found, too."""
    commit = "0123456789" * 4
    bad = ["a/b@v4", "a/b@main", f"a/b@{commit[:7]} # v4.0.0", f"a/b@{commit}", "docker://alpine:3", '"a/b@v1"']
    text = "".join(f"      - uses: {each}\n" for each in bad)
    assert unpinned(text) == bad
    assert unpinned(f"    - uses: a/b/c@{commit} # v1.2.3\n      uses: ./local\n") == []


def test_what_runs_for_real_has_a_workflow_and_is_no_part_of_the_tests() -> None:
    """Each target that a matrix names is one of the Makefile's, and ``make test`` does not wait for it."""
    makefile = (WORKFLOWS.parent / "Makefile").read_text()
    job = yaml.safe_load((WORKFLOWS / "workflows/infra.yml").read_text())["jobs"]["run"]
    targets = job["strategy"]["matrix"]["target"]
    needed = dict(re.findall(r"^([a-z-]+):(?: (.*?))? ##", makefile, re.MULTILINE))
    assert targets == ["docker", "kubernetes"]
    assert [target for target in targets if target not in needed] == []
    assert not set(targets) & set(needed["test"].split())
