"""The table of schemas: what Delta readers see of it, what damages it, and what a hundred thousand schemas cost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import deltalake
import msgspec
import pytest

from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.delta.system_table import TableContents, documents_contents
from log_format.errors import CorruptData
from log_format.schemas.changes import Decide, PutConfig, PutMode, Register, compared
from log_format.schemas.decision import Decided, Outcome, SchemasDecision
from log_format.schemas.deletions import DeleteSubject, DeleteVersion
from log_format.schemas.refusals import RegistryRefused
from log_format.schemas.row import (
    TAG_SCHEMAS,
    ConfigRow,
    ModeRow,
    SchemaRow,
    SchemasChanges,
    VersionRow,
    decode_tag,
    encode_tag,
    rows,
)
from log_format.schemas.schema import Schema, SchemaReference, SchemaType
from log_format.schemas.state import SchemasState, changes_of, schemas_table
from log_format.stores.local import LocalStore


def _registered(state: SchemasState, subject: str, schema: Schema) -> SchemasState:
    decided = Register(subject=subject, schema=schema, compared=compared(state, subject)).decide(state, 0)
    assert isinstance(decided, Decided), decided
    return state.after((decided.changes,))


def test_any_delta_reader_sees_every_change(tmp_path: Path) -> None:
    """A row for each, in order of time; one without a document is gone."""
    log = TableLog(LocalStore(tmp_path), schemas_table(), SystemClock())
    ids = count()
    committer = Committer(log, new_id=lambda: f"{next(ids)}")
    for decision in (
        Register(subject="a", schema=Schema(text='"int"'), compared=compared(SchemasState(), "a")),
        PutConfig(row=ConfigRow(subject="", compatibility="FULL")),
        PutMode(row=ModeRow(subject="b", mode="READONLY")),
        DeleteVersion(subject="a", version=1, permanent=False),
        DeleteSubject(subject="a", permanent=True),
    ):
        (outcome,) = committer.commit(Decide([decision], lambda: f"x{next(ids)}")).result
        assert isinstance(outcome, Decided), outcome
    table = deltalake.DeltaTable(str(tmp_path / "system/schemas")).to_pyarrow_table()
    assert table.column_names == ["kind", "name", "document", "changed_at"]
    rows = [(row["kind"], row["name"], row["document"] is None) for row in table.to_pylist()]
    assert sorted(rows) == [
        ("config", "", False),
        ("mode", "b", False),
        ("schema", "1", False),
        ("version", "a/1", False),
        ("version", "a/1", False),
        ("version", "a/1", True),
    ]
    document = next(row["document"] for row in table.to_pylist() if row["kind"] == "schema")
    assert msgspec.json.decode(document) == {
        "id": 1,
        "context": "",
        "type": "AVRO",
        "text": '"int"',
        "references": [],
        "metadata": None,
        "rule_set": None,
    }


@pytest.mark.parametrize(
    "tag", ["", "{}", "[1]", '[{"schemas":[[1]]}]', '[{"schemas":[[1,"","XML",""]]}]', '[{"next_id":"x"}]', "!", "aaaa"]
)
def test_a_damaged_tag_is_corrupt(tag: str) -> None:
    """Ids are never given from what is not whole."""
    with pytest.raises(CorruptData):
        changes_of("rows/x.parquet", {"tidelog.schemas": tag})
    with pytest.raises(CorruptData):
        changes_of("rows/x.parquet", {})


def test_a_later_releases_members_are_passed_over() -> None:
    """So that gateways of two releases can share a store while it is upgraded."""
    (changes,) = decode_tag('[{"schemas":[[1,"","AVRO","t",[],null,null,"later"]],"versions":[["a",1,1]],"rules":[1]}]')
    assert changes.schemas == (SchemaRow(id=1, context="", type=SchemaType.AVRO, text="t"),)
    assert changes.versions == (VersionRow(subject="a", version=1, id=1),)


def test_references_come_in_the_order_in_which_they_are_needed() -> None:
    """Each once, after what it refers to itself; one that is not registered is named."""

    def refers(*subjects: str) -> tuple[SchemaReference, ...]:
        return tuple(SchemaReference(name=f"n{one}", subject=one, version=1) for one in subjects)

    state = SchemasState()
    for subject, needed in (("a", ""), ("b", "a"), ("c", "ab"), ("d", "cb")):
        state = _registered(state, subject, Schema(text=subject, references=refers(*needed)))
    top = Schema(text="top", references=refers("d", "a"))
    assert state.resolved(top) == (("na", "a"), ("nb", "b"), ("nc", "c"), ("nd", "d"))
    assert state.referring("a", 1) == [2, 3]
    with pytest.raises(RegistryRefused, match='subject "e" and version 1'):
        state.resolved(Schema(text="top", references=refers("e")))


def test_a_context_has_subjects_of_its_own() -> None:
    """A reference without a context is to the schema's own; settings hold for what is narrower and has none."""
    state = _registered(SchemasState(), ":.x:a", Schema(text="1"))
    state = _registered(state, "a", Schema(text="1"))
    state = _registered(
        state, ":.x:b", Schema(text="2", references=(SchemaReference(name="n", subject="a", version=1),))
    )
    assert (state.schema(1, ".x"), state.schema(1), state.schema(2)) == (Schema(text="1"), None, Schema(text="1"))
    assert (state.referring(":.x:a", 1), state.referring("a", 1)) == ([3], [])
    assert dict(state.contexts) == {"": 1, ".x": 2}
    for subject, level in (("", "NONE"), (":.x:", "FULL"), (":.x:a", "FORWARD")):
        decided = PutConfig(row=ConfigRow(subject=subject, compatibility=level)).decide(state, 0)
        assert isinstance(decided, Decided)
        state = state.after((decided.changes,))
    assert [state.config(one).compatibility for one in ("a", ":.x:b", ":.x:a")] == ["NONE", "FULL", "FORWARD"]


_LOAD = """
import sys, time
from pathlib import Path
from log_format.schemas.state import schemas_table
from log_format.clock import SystemClock
from log_format.delta.log import TableLog
from log_format.stores.local import LocalStore
def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))
TableLog(LocalStore(Path(sys.argv[2])), schemas_table(), SystemClock()).refresh()
log = TableLog(LocalStore(Path(sys.argv[1])), schemas_table(), SystemClock())
before, began = status("VmRSS"), time.process_time()
state = log.refresh()
print(len(state.schemas), time.process_time() - began, status("VmRSS") - before, state.memory_bytes // 1024)
"""


def _text(number: int) -> str:
    fields = [{"name": f"field_{one}", "type": ["null", "string"], "default": None} for one in range(8)]
    return msgspec.json.encode({"type": "record", "name": f"Order{number}", "fields": fields}).decode()


@dataclass(frozen=True)
class _Many:
    """A decision that registers so many schemas."""

    count: int
    subject: str = ""

    def decide(self, _state: SchemasState, _now_ms: int) -> Decided:
        numbers = range(self.count)
        schemas = tuple(SchemaRow(id=one + 1, context="", type=SchemaType.AVRO, text=_text(one)) for one in numbers)
        versions = tuple(VersionRow(subject=f"team-{one}.orders-value", version=1, id=one + 1) for one in numbers)
        return Decided(changes=SchemasChanges(schemas=schemas, versions=versions))


class _DecideOne(Decide):
    """A commit of one decision: no other is judged at the state after it, which takes longer to make than to write."""

    def judge(
        self, decisions: Sequence[SchemasDecision], state: SchemasState, now_ms: int
    ) -> tuple[list[Outcome], TableContents]:
        (outcome,) = (decision.decide(state, now_ms) for decision in decisions)
        assert isinstance(outcome, Decided)
        tags: dict[str, str | None] = {TAG_SCHEMAS: encode_tag([outcome.changes])}
        return [outcome], documents_contents(rows([outcome.changes]), now_ms, tags)


def test_a_hundred_thousand_schemas_take_200_mib(tmp_path: Path) -> None:
    """Of half a kilobyte each, from a table with one file, in a process of its own; the budget counts about what they take."""
    ids = count()
    for name, number in (("small", 10), ("large", 100_000)):
        (tmp_path / name).mkdir()
        log = TableLog(LocalStore(tmp_path / name), schemas_table(), SystemClock())
        committer = Committer(log, new_id=lambda: f"{next(ids)}")
        committer.commit(_DecideOne([_Many(number)], lambda: f"x{next(ids)}"))
    command = [sys.executable, "-c", _LOAD, str(tmp_path / "large"), str(tmp_path / "small")]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout.split()
    schemas, seconds, taken_kib, counted_kib = int(said[0]), float(said[1]), int(said[2]), int(said[3])
    assert schemas == 100_000
    assert seconds < 20
    assert taken_kib <= 200 * 1024, taken_kib
    assert 0.8 * counted_kib < taken_kib < 1.3 * counted_kib, (taken_kib, counted_kib)
