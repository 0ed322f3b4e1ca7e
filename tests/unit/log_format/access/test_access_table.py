"""The table of access: what Delta readers see of it, what damages it, and what a hundred thousand ACLs cost."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from pathlib import Path

import deltalake
import msgspec
import pytest

from log_format.access.acls import Acl, Pattern
from log_format.access.changes import AddAcls, CreateToken, Decide, DeleteToken, PutQuota, PutRole, RotateToken
from log_format.access.row import CredentialRow, QuotaRow, RoleRow, Secret, decode_tag
from log_format.access.state import access_table, decode_changes
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.errors import CorruptData, TidelogError
from log_format.stores.local import LocalStore

TOKEN = CredentialRow(
    id="abcdefgh",
    principal="User:alice",
    groups=("Group:w",),
    description="",
    created_at_ms=1,
    secrets=(Secret(sha256="ab" * 32, created_at_ms=1, expires_at_ms=2),),
)


def test_any_delta_reader_sees_every_change(tmp_path: Path) -> None:
    """A row for each, in order of time; one without a document is gone."""
    log = TableLog(LocalStore(tmp_path), access_table(), SystemClock())
    ids = count()
    committer = Committer(log, new_id=lambda: f"{next(ids)}")

    def new_id() -> str:
        return f"x{next(ids)}"

    committer.commit(
        Decide(
            [
                CreateToken(row=TOKEN),
                PutRole(row=RoleRow(role="r", members=("User:a",))),
                AddAcls(
                    acls=(Acl("User:a", "Read", "topic", "t"), Acl("User:a", "Write", "topic", "t", "literal", "deny"))
                ),
                PutQuota(row=QuotaRow(principal="*", connections=5)),
            ],
            new_id,
        )
    )
    committer.commit(Decide([DeleteToken(id=TOKEN.id)], new_id))
    table = deltalake.DeltaTable(str(tmp_path / "system/access")).to_pyarrow_table()
    assert table.column_names == ["kind", "name", "document", "changed_at"]
    rows = {(row["kind"], row["name"], row["document"] is None) for row in table.to_pylist()}
    assert rows == {
        ("credential", "abcdefgh", False),
        ("credential", "abcdefgh", True),
        ("role", "r", False),
        ("acl", "User:a\ntopic\nliteral\nt", False),
        ("quota", "*", False),
    }
    document = next(row["document"] for row in table.to_pylist() if row["kind"] == "quota")
    assert msgspec.json.decode(document)["connections"] == 5


def test_a_second_rotation_ends_the_oldest_secret() -> None:
    """At most two live, the newest first, and an overlap prolongs nothing."""
    log = TableLog(LocalStore(Path("/nonexistent")), access_table(), SystemClock())
    state = log.state.after(())
    row = msgspec.structs.replace(TOKEN, secrets=(Secret(sha256="0", created_at_ms=0, expires_at_ms=1_000),))
    for decision, now_ms in (
        (CreateToken(row=row), 0),
        (RotateToken(id=row.id, secret=Secret(sha256="1", created_at_ms=1, expires_at_ms=900), overlap_ms=5_000), 100),
        (RotateToken(id=row.id, secret=Secret(sha256="2", created_at_ms=2, expires_at_ms=800), overlap_ms=50), 200),
    ):
        decided = decision.decide(state, now_ms)
        assert not isinstance(decided, TidelogError)
        state = state.after((decided.changes,))
    assert [(one.sha256, one.expires_at_ms) for one in state.credentials[row.id].secrets] == [("2", 800), ("1", 250)]


@pytest.mark.parametrize("tag", ["", "{}", "[1]", '[{"credentials":[[1]]}]', '[{"acls":{"a":"x"}}]', "!", "aaaa"])
def test_a_damaged_tag_is_corrupt(tag: str) -> None:
    """Rights are never read from what is not whole."""
    with pytest.raises(CorruptData):
        decode_changes("rows/x.parquet", {"tidelog.access": tag})
    with pytest.raises(CorruptData):
        decode_changes("rows/x.parquet", {})


def test_a_later_releases_members_are_passed_over() -> None:
    """So that gateways of two releases can share a store while it is upgraded."""
    (changes,) = decode_tag('[{"roles":[["r",["User:a"],"later"]],"policies":[1]}]')
    assert changes.roles == (RoleRow(role="r", members=("User:a",)),)


_LOAD = """
import sys, time
from pathlib import Path
from log_format.access.state import access_table
from log_format.clock import SystemClock
from log_format.delta.log import TableLog
from log_format.stores.local import LocalStore
def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
TableLog(LocalStore(Path(sys.argv[2])), access_table(), SystemClock()).refresh()
log = TableLog(LocalStore(Path(sys.argv[1])), access_table(), SystemClock())
Path("/proc/self/clear_refs").write_text("5")
before, began = status("VmRSS"), time.process_time()
state = log.refresh()
print(len(state.acls.entries), time.process_time() - began, status("VmHWM") - before, state.memory_bytes // 1024)
"""


def test_a_hundred_thousand_acls_load_in_a_second_and_50_mb(tmp_path: Path) -> None:
    """From the commits that made them, in a process of its own; the budget counts about what they take."""
    patterns: tuple[Pattern, Pattern] = ("literal", "prefix")
    acls = [
        Acl(f"User:service-{one % 5_000:05d}", "Read", "topic", f"team-{one // 20}.events.{one}", patterns[one % 2])
        for one in range(100_000)
    ]
    ids = count()
    for name, some in (("small", acls[:10]), ("large", acls)):
        (tmp_path / name).mkdir()
        log = TableLog(LocalStore(tmp_path / name), access_table(), SystemClock())
        committer = Committer(log, new_id=lambda: f"{next(ids)}")
        for first in range(0, len(some), 10_000):
            decision = AddAcls(acls=tuple(some[first : first + 10_000]))
            committer.commit(Decide([decision], lambda: f"x{next(ids)}"))
    command = [sys.executable, "-c", _LOAD, str(tmp_path / "large"), str(tmp_path / "small")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout.split()
    entries, seconds, peak_kib, counted_kib = int(said[0]), float(said[1]), int(said[2]), int(said[3])
    assert entries == 100_000
    assert seconds < 1.0
    assert peak_kib < 50_000
    assert counted_kib > peak_kib * 0.6
