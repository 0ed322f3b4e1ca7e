"""The control groups of ``make kubernetes``, below which pods are."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

NODE: dict[str, Any] = runpy.run_path(str(Path(__file__).resolve().parents[3] / "infra/cluster/node.py"))


@pytest.mark.parametrize(
    ("kernel", "given"),
    [
        ("cpuset cpu io memory hugetlb pids rdma misc\n", "+cpu +cpuset +hugetlb +memory +pids"),
        ("cpuset cpu io memory pids\n", "+cpu +cpuset +memory +pids"),
    ],
)
def test_kubelet_finds_what_it_demands_of_its_group(tmp_path: Path, kernel: str, given: str) -> None:
    """Version 2: the root gives its groups what kubelet demands, but nothing that the kernel lacks, which would fail."""
    (tmp_path / "cgroup.controllers").write_text(kernel)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory")
    NODE["make_groups"](tmp_path)
    assert (tmp_path / "cgroup.subtree_control").read_text() == given
    assert (tmp_path / NODE["GROUP"]).is_dir()


def test_with_version_1_each_kind_of_resource_has_a_group_and_version_2_beside_it_stays(tmp_path: Path) -> None:
    """A group takes the processors of its hierarchy; what is mounted of version 2 is told nothing."""
    for kind, name, text in (("cpuset", "cpuset.cpus", "0-1"), ("unified", "cgroup.subtree_control", "")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "cgroup.procs").touch()
        (tmp_path / kind / name).write_text(text)
    (tmp_path / "unified/cgroup.controllers").write_text("hugetlb")
    group = tmp_path / "cpuset" / NODE["GROUP"]
    group.mkdir()  # the kernel makes a group's files with it
    (group / "cpuset.cpus").touch()
    NODE["make_groups"](tmp_path)
    assert (group / "cpuset.cpus").read_text() == "0-1"
    assert (tmp_path / "unified/cgroup.subtree_control").read_text() == ""
    assert (tmp_path / "unified" / NODE["GROUP"]).is_dir()
