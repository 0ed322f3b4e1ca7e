"""``system/schemas`` against a plain model: ids are never given twice, a schema has one, and every way of reading agrees."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.layout import SCHEMAS_ROOT
from log_format.schemas.changes import Compact, Decide, DeleteConfig, PutConfig, PutMode, Register, compared
from log_format.schemas.decision import Decided, Outcome, SchemasDecision
from log_format.schemas.deletions import DeleteSubject, DeleteVersion
from log_format.schemas.refusals import RegistryRefused
from log_format.schemas.row import ConfigRow, ModeRow, decode_tag, encode_tag
from log_format.schemas.schema import Schema, SchemaReference
from log_format.schemas.state import SchemasState, schemas_table, snapshot
from log_format.schemas.subjects import split
from log_format.stores.memory import MemoryStore
from tests.support.clocks import ManualClock
from tests.support.followed_table import FollowedTable

SUBJECTS = ("a", "b", ":.ctx:a")
subjects = st.sampled_from(SUBJECTS)
texts = st.sampled_from(("1", "2", "3", "é4"))
registrations = st.tuples(st.just("register"), subjects, texts, st.one_of(st.none(), subjects))
deletions = st.tuples(
    st.sampled_from(("delete version", "delete subject")), subjects, st.sampled_from((None, 1, 2, 3)), st.booleans()
)
settings_steps = st.tuples(st.sampled_from(("config", "no config")), subjects, st.sampled_from(("NONE", "FULL")))
purges = st.tuples(st.just("purge"), subjects)
steps = st.one_of(purges, registrations, registrations, deletions, deletions, settings_steps)


@dataclass
class Model:
    """The registry as Confluent's documentation describes it, in the plainest way."""

    versions: dict[str, dict[int, list[Any]]] = field(default_factory=dict)
    """By subject and version: id, whether it is deleted."""
    ids: dict[tuple[str, Schema], int] = field(default_factory=dict)
    given: set[int] = field(default_factory=set)
    configs: dict[str, str] = field(default_factory=dict)

    def live(self, subject: str) -> dict[int, int]:
        """The versions that are not deleted."""
        return {version: one[0] for version, one in self.versions.get(subject, {}).items() if not one[1]}

    def referred(self, subject: str, version: int) -> bool:
        """Whether a schema that is somewhere not deleted refers to the version."""
        for (context, schema), schema_id in self.ids.items():
            refers = any(
                (
                    one.subject if one.subject.startswith(":.") or not context else f":{context}:{one.subject}",
                    one.version,
                )
                == (subject, version)
                for one in schema.references
            )
            if refers and any(
                schema_id in self.live(name).values() for name in self.versions if split(name)[0] == context
            ):
                return True
        return False

    def forget(self) -> None:
        """A schema is gone with its last version, deleted ones included."""
        kept = {(split(name)[0], one[0]) for name, known in self.versions.items() for one in known.values()}
        self.ids = {key: one for key, one in self.ids.items() if (key[0], one) in kept}
        self.versions = {name: known for name, known in self.versions.items() if known}


def _single(step: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """A subject is gone after two deletions."""
    if step[0] != "purge":
        return [step]
    return [("delete subject", step[1], None, False), ("delete subject", step[1], None, True)]


def _decision(step: tuple[Any, ...], state: SchemasState) -> SchemasDecision:
    what, subject, wish, *more = step
    if what == "register":
        refers = more[0]
        references = () if refers is None else (SchemaReference(name="r", subject=refers, version=1),)
        schema = Schema(text=wish, references=references)
        return Register(subject=subject, schema=schema, compared=compared(state, subject))
    if what == "delete version":
        return DeleteVersion(subject=subject, version=wish, permanent=more[0])
    if what == "delete subject":
        return DeleteSubject(subject=subject, permanent=more[0])
    if what == "config":
        return PutConfig(row=ConfigRow(subject=subject, compatibility=wish))
    return DeleteConfig(subject=subject)


def _modelled(model: Model, decision: SchemasDecision) -> object:
    """Do to the model what the decision should do; return what it answers, or the code of its refusal."""
    if isinstance(decision, Register):
        return _registered(model, decision)
    if isinstance(decision, DeleteVersion | DeleteSubject):
        return _deleted(model, decision)
    if isinstance(decision, PutConfig):
        model.configs[decision.subject] = str(decision.row.compatibility)
        return "set"
    return "set" if model.configs.pop(decision.subject, None) else 40401


def _registered(model: Model, decision: Register) -> object:
    context = split(decision.subject)[0]
    known_id = model.ids.get((context, decision.schema))
    known = [version for version, one in model.live(decision.subject).items() if one == known_id]
    if known:
        return known_id, known[-1]
    for one in decision.schema.references:
        subject = one.subject if one.subject.startswith(":.") or not context else f":{context}:{one.subject}"
        if one.version not in model.versions.get(subject, {}):
            return 42201
    schema_id = known_id or max(model.given, default=0) + 1
    assert known_id is not None or schema_id not in model.given
    model.given.add(schema_id)
    model.ids[context, decision.schema] = schema_id
    versions = model.versions.setdefault(decision.subject, {})
    version = max(versions, default=0) + 1
    versions[version] = [schema_id, False]
    return schema_id, version


def _deleted(model: Model, decision: DeleteVersion | DeleteSubject) -> object:
    versions, live = model.versions.get(decision.subject, {}), model.live(decision.subject)
    if not versions:
        return 40401
    if isinstance(decision, DeleteSubject):
        if decision.permanent and live:
            return 40405
        if not decision.permanent and not live:
            return 40404
        chosen = sorted(versions if decision.permanent else live)
    else:
        candidates = sorted(versions if decision.permanent else live)
        chosen = candidates[-1:] if decision.version is None else [decision.version]
        if not chosen or chosen[0] not in versions:
            return 40402
        if versions[chosen[0]][1] != decision.permanent:
            return 40406 if versions[chosen[0]][1] else 40407
    if any(model.referred(decision.subject, one) for one in chosen):
        return 42206
    for one in chosen:
        if decision.permanent:
            del versions[one]
        else:
            versions[one][1] = True
    if not model.live(decision.subject):
        model.configs.pop(decision.subject, None) if not decision.permanent or isinstance(
            decision, DeleteSubject
        ) else None
    model.forget()
    return tuple(chosen)


def _answer(outcome: Outcome) -> object:
    if isinstance(outcome, RegistryRefused):
        return int(outcome.registry_code)
    assert isinstance(outcome, Decided)
    if outcome.schema_id:
        return outcome.schema_id, outcome.version
    return outcome.versions or "set"


def _content(state: SchemasState) -> SchemasState:
    return replace(state, version=0, files={}, modification_time_ms=0)


def _shown(state: SchemasState) -> dict[str, dict[int, list[Any]]]:
    return {
        subject: {one.version: [one.id, one.is_deleted] for one in state.numbers(subject, deleted=True)}
        for subject in SUBJECTS
        if subject in state.subjects
    }


@given(
    st.lists(
        st.one_of(st.lists(steps, min_size=1, max_size=4), st.sampled_from(("compact", "checkpoint"))), max_size=30
    )
)
@settings(max_examples=300, deadline=None)
def test_the_registry_does_what_the_model_does(history: list[Any]) -> None:
    """Each answer, each version, each id. A follower, a log loaded anew, a rewrite and the snapshot agree, memory included."""
    table, model = FollowedTable(schemas_table, SCHEMAS_ROOT, _content, Compact), Model()
    for act in history:
        if isinstance(act, str):
            table.act(act)
        else:
            for step in (one for wish in act for one in _single(wish)):
                decision = _decision(step, table.state)
                (outcome,) = table.commit(Decide([decision], table.new_id))
                assert _answer(outcome) == _modelled(model, decision), step
        assert _shown(table.state) == model.versions
        table.assert_followed()
        for (context, schema), schema_id in model.ids.items():
            assert (table.state.schema(schema_id, context), table.state.id_of(schema, context)) == (schema, schema_id)
        assert len(table.state.schemas) == len(model.ids) == sum(table.state.contexts.values())
        assert {subject: row.compatibility for subject, row in table.state.configs.items()} == model.configs
    fresh = table.loaded_anew()
    anew = SchemasState().after(decode_tag(encode_tag([snapshot(fresh)])))
    assert _content(anew) == _content(fresh) == _content(table.state)
    assert dict(anew.ids) == dict(fresh.ids) == dict(table.state.ids)
    assert dict(anew.referrers) == dict(table.state.referrers)
    assert anew.memory_bytes == fresh.memory_bytes == table.state.memory_bytes
    assert (fresh.memory_bytes == 0) == (not model.versions and not model.configs)
    assert fresh.next_id == max(model.given, default=0) + 1


@given(st.lists(st.tuples(subjects, texts, st.booleans()), max_size=12))
@settings(max_examples=100, deadline=None)
def test_decisions_of_one_commit_see_those_before(wishes: list[tuple[str, str, bool]]) -> None:
    """As if each had a commit of its own, but for what was compared: it must be compared again."""
    store, ids = MemoryStore(), count()
    alone, together = SchemasState(), TableLog(store, schemas_table(), ManualClock())
    for subject, text, _ in wishes:
        decided = Register(subject=subject, schema=Schema(text=text), compared=compared(alone, subject)).decide(
            alone, 0
        )
        assert isinstance(decided, Decided)
        alone = alone.after((decided.changes,))
    committer = Committer(together, new_id=lambda: f"{next(ids)}")
    left = list(wishes)
    while left:
        state = together.state
        decisions = [
            Register(subject=subject, schema=Schema(text=text), compared=compared(state, subject))
            for subject, text, _ in left
        ]
        outcomes = committer.commit(Decide(decisions, lambda: f"x{next(ids)}")).result
        assert isinstance(outcomes[0], Decided), "the first is never refused"
        left = [wish for wish, outcome in zip(left, outcomes, strict=True) if not isinstance(outcome, Decided)]
    assert len(together.state.schemas) == len(alone.schemas)
    assert _live_texts(together.state) == _live_texts(alone)


def _live_texts(state: SchemasState) -> set[tuple[str, str]]:
    return {(subject, one.schema.text) for subject in state.subjects for one in state.versions(subject)}


def test_a_mode_forbids() -> None:
    """Nothing is registered where it is read-only; imports give ids, and nothing else does."""
    for mode in ("READONLY", "IMPORT"):
        decided = PutMode(row=ModeRow(subject="a", mode=mode)).decide(SchemasState(), 0)
        assert isinstance(decided, Decided)
        state = SchemasState().after((decided.changes,))
        refused = Register(subject="a", schema=Schema(text="1"), compared=compared(state, "a")).decide(state, 0)
        assert _answer(refused) == 42205
        other = Register(subject="b", schema=Schema(text="1"), compared=compared(state, "b"), schema_id=7)
        assert _answer(other.decide(state, 0)) == 42205
