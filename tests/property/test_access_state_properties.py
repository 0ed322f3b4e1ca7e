"""``system/access`` is what its tags say: however it is read, rewritten or checkpointed, the same callers may do the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.access.acls import (
    OPERATIONS,
    Acl,
    Acls,
    Operation,
    Pattern,
    Permission,
    ResourceType,
    acl_key,
    entry_acls,
)
from log_format.access.changes import (
    AccessDecision,
    AddAcls,
    AppliedDecision,
    Compact,
    CreateToken,
    Decide,
    DeleteAcls,
    DeleteRole,
    DeleteToken,
    PutQuota,
    PutRole,
    RotateToken,
)
from log_format.access.row import CredentialRow, QuotaRow, RoleRow, Secret, decode_tag, encode_tag
from log_format.access.state import AccessState, access_table, snapshot
from log_format.layout import ACCESS_ROOT
from tests.support.followed_table import FollowedTable

names = st.sampled_from(("a", "ab", "b", "*", "_", "__", "__a"))
acls = st.builds(
    Acl,
    st.sampled_from(("User:a", "Group:a", "Role:a", "*")),
    st.sampled_from(get_args(Operation)),
    st.sampled_from(get_args(ResourceType)),
    names,
    st.sampled_from(get_args(Pattern)),
    st.sampled_from(get_args(Permission)),
)
judged = st.builds(
    Acl,
    st.sampled_from(("User:a", "*")),
    st.sampled_from(("Read", "Describe", "All", "Write")),
    st.sampled_from(("topic", "group")),
    names,
    st.sampled_from(get_args(Pattern)),
    st.sampled_from(get_args(Permission)),
)
"""Few enough that several are about one question."""
steps = st.one_of(
    st.tuples(st.just("create"), names),
    st.tuples(st.just("rotate"), names),
    st.tuples(st.just("revoke"), names),
    st.tuples(st.just("role"), names),
    st.tuples(st.just("no role"), names),
    st.tuples(st.just("quota"), names),
    st.tuples(st.just("acls"), st.lists(acls, min_size=1, max_size=4)),
    st.tuples(st.just("no acls"), st.sampled_from(OPERATIONS)),
)


def _secret(created_ms: int) -> Secret:
    return Secret(sha256="ab" * 32, created_at_ms=created_ms, expires_at_ms=1 << 50)


def _decision(step: tuple[str, Any], number: int) -> AccessDecision:
    what, wish = step
    if what == "create":
        secrets = (_secret(number),)
        groups, principal = ("Group:g",), f"User:{wish}"
        return CreateToken(
            row=CredentialRow(
                id=wish, principal=principal, groups=groups, description="d", created_at_ms=number, secrets=secrets
            )
        )
    decisions: dict[str, Any] = {
        "rotate": lambda: RotateToken(id=wish, secret=_secret(number), overlap_ms=number),
        "revoke": lambda: DeleteToken(id=wish),
        "role": lambda: PutRole(row=RoleRow(role=wish, members=("User:a",) * (number % 3))),
        "no role": lambda: DeleteRole(role=wish),
        "quota": lambda: PutQuota(row=QuotaRow(principal=f"User:{wish}", connections=number)),
        "acls": lambda: AddAcls(acls=tuple(wish)),
        "no acls": lambda: DeleteAcls(matches=lambda acl: acl.operation == wish),
    }
    made: AccessDecision = decisions[what]()
    return made


def _content(state: AccessState) -> AccessState:
    return replace(state, version=0, files={}, modification_time_ms=0)


@given(st.lists(st.one_of(st.lists(steps, min_size=1, max_size=4), st.sampled_from(("compact", "checkpoint", "pass")))))
@settings(max_examples=100)
def test_every_way_of_reading_gives_the_same(history: list[Any]) -> None:
    """A follower, a log loaded anew with and without checkpoints, a rewrite, and the snapshot of a state all agree, and count
    the same memory. The log has all changes of the decisions that share a commit."""
    table, ids = FollowedTable(access_table, ACCESS_ROOT, _content, Compact), count()
    for act in history:
        if isinstance(act, str):
            table.act(act)
        else:
            before = table.state
            outcomes = table.commit(Decide([_decision(step, next(ids)) for step in act], table.new_id))
            changes = [one.changes for one in outcomes if isinstance(one, AppliedDecision) and one.changes]
            assert _content(table.state) == _content(before.after(changes))
        table.assert_followed()
    fresh = table.loaded_anew()
    anew = AccessState().after(decode_tag(encode_tag([snapshot(fresh)])))
    assert _content(anew) == _content(fresh)
    assert anew.memory_bytes == fresh.memory_bytes == table.state.memory_bytes
    assert (fresh.memory_bytes == 0) == (_content(fresh) == _content(AccessState()))


def _plainly(entries: set[Acl], principals: tuple[str, ...], operation: str, kind: str, resource: str) -> str:
    """What the contract's sentences say, one ACL after another."""
    found = "default"
    for acl in entries:
        if acl.principal not in principals or acl.resource_type != kind:
            continue
        if acl.pattern == "prefix":
            names_it = resource.startswith(acl.resource)
        else:
            names_it = acl.resource == resource or (acl.resource == "*" and not resource.startswith("__"))
        if not names_it or (resource.startswith("__") and not acl.resource.startswith("__")):
            continue
        implied = (
            {"Read", "Write", "Delete", "Alter"} if operation == "Describe" and acl.permission == "allow" else set()
        )
        if acl.operation in {operation, "All"} | implied:
            if acl.permission == "deny":
                return "deny"
            found = "allow"
    return found


@given(
    st.lists(st.tuples(st.sampled_from((True, True, False)), judged), max_size=12),
    st.lists(st.sampled_from(("User:a", "Group:a", "Role:a", "*")), unique=True),
    st.sampled_from(("Read", "Describe", "All")),
    st.sampled_from(("topic", "group")),
    st.sampled_from(("a", "ab", "abc", "b", "*", "_a", "__a", "__ab")),
)
@settings(max_examples=500)
def test_acls_say_what_the_contract_says(
    history: list[tuple[bool, Acl]], principals: list[str], operation: Operation, kind: ResourceType, resource: str
) -> None:
    """The compiled look-up agrees with going through all ACLs, also after some were removed; and so does the quick answer."""
    compiled, entries = Acls({}), set[Acl]()
    for is_added, acl in history:
        key = acl_key(acl)
        before = compiled.entries.get(key, 0)
        compiled = compiled.with_changes({key: before | acl.bit if is_added else before & ~acl.bit})
        (entries.add if is_added else entries.discard)(acl)
    assert {acl for key, bits in compiled.entries.items() for acl in entry_acls(key, bits)} == entries
    found = compiled.judge(principals, operation, kind, resource)
    said = "default" if found.by is None else found.by.permission
    assert said == _plainly(entries, tuple(principals), operation, kind, resource)
    assert found.allowed == (said == "allow") == compiled.allow(principals, operation, kind, resource)
    assert found.by is None or found.by in entries
