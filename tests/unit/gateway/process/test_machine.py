"""What a process may use: the least of affinity, memory and the limits of its control groups, of either version."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.process.machine import Machine

GIB = 1 << 30


def limited(root: Path, membership: str, files: dict[str, str]) -> Machine:
    """A machine of 16 cores and 64 GiB whose process has this ``/proc/self/cgroup``."""
    for name, text in {"proc/self/cgroup": membership, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return Machine.with_limits(root, cores=16, memory_bytes=64 * GIB)


def test_without_control_groups_all_counts(tmp_path: Path) -> None:
    """No such files, or limits that say none."""
    assert Machine.with_limits(tmp_path, cores=16, memory_bytes=64 * GIB) == Machine(cores=16, memory_bytes=64 * GIB)
    files = {"sys/fs/cgroup/a/cpu.max": "max 100000", "sys/fs/cgroup/a/memory.max": "max"}
    assert limited(tmp_path, "0::/a", files) == Machine(cores=16, memory_bytes=64 * GIB)


def test_the_least_of_all_groups_above_counts(tmp_path: Path) -> None:
    """Version 2: a service in a slice, whose limits hold for it, too."""
    files = {
        "sys/fs/cgroup/system.slice/cpu.max": "250000 100000",
        "sys/fs/cgroup/system.slice/memory.max": str(8 * GIB),
        "sys/fs/cgroup/system.slice/log.service/cpu.max": "max 100000",
        "sys/fs/cgroup/system.slice/log.service/memory.max": str(2 * GIB),
    }
    found = limited(tmp_path, "0::/system.slice/log.service", files)
    assert found == Machine(cores=2.5, memory_bytes=2 * GIB)


@pytest.mark.parametrize("path", ["/", "/docker/0123456789abcdef"])
def test_a_container_sees_its_own_group_at_the_top(tmp_path: Path, path: str) -> None:
    """Version 2, and the host's path of version 1, which is not there inside."""
    files = {"sys/fs/cgroup/cpu.max": "150000 100000", "sys/fs/cgroup/memory.max": str(GIB)}
    assert limited(tmp_path, f"0::{path}", files) == Machine(cores=1.5, memory_bytes=GIB)


def test_version_one(tmp_path: Path) -> None:
    """Each controller has a hierarchy of its own. Without limits it says -1, and a number beyond any memory."""
    membership = "12:memory:/docker/a\n5:cpu,cpuacct:/docker/a\n1:name=systemd:/docker/a"
    none = {
        "sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu/docker/a/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes": "9223372036854771712",
    }
    assert limited(tmp_path, membership, none) == Machine(cores=16, memory_bytes=64 * GIB)
    some = {
        "sys/fs/cgroup/cpu/docker/a/cpu.cfs_quota_us": "400000",
        "sys/fs/cgroup/memory/docker/a/memory.limit_in_bytes": str(3 * GIB),
    }
    assert limited(tmp_path, membership, none | some) == Machine(cores=4, memory_bytes=3 * GIB)


def test_of_this_process_something_is_known() -> None:
    """On the machine that runs this test."""
    machine = Machine.current()
    assert machine.cores > 0
    assert machine.memory_bytes > 1 << 20
