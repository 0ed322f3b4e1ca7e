"""ACLs in Kafka's numbers mean what ours mean, and what has no match is refused, never widened."""

from __future__ import annotations

import itertools
from typing import get_args

import pytest

from gateway.kafka.acl_codes import KafkaAcl, encode_acl, matches_filter, parse_acl
from log_format.access.acls import OPERATIONS, Acl, Acls, Pattern, Permission, ResourceType, acl_key
from log_format.errors import RequestRefused

LITERAL, PREFIXED, ANY, MATCH = 3, 4, 1, 2
EVERYTHING = KafkaAcl(ANY, None, ANY, None, None, ANY, ANY)


def _all_acls() -> list[Acl]:
    names: dict[ResourceType, str] = {"topic": "t", "group": "g", "transactional_id": "x", "cluster": "cluster"}
    return [
        Acl(principal, operation, kind, names[kind], pattern, permission)
        for principal, operation, kind, pattern, permission in itertools.product(
            ("User:alice", "Group:g", "Role:r", "*"),
            OPERATIONS,
            get_args(ResourceType),
            get_args(Pattern),
            get_args(Permission),
        )
        if kind != "subject" and (kind != "cluster" or pattern == "literal")
    ]


@pytest.mark.parametrize("acl", _all_acls(), ids=str)
def test_every_acl_of_ours_can_be_told_and_added_again(acl: Acl) -> None:
    """A tool that copies ACLs loses none and changes none."""
    assert parse_acl(encode_acl(acl)) == acl


def test_kafka_sees_no_acl_of_a_subject() -> None:
    """It has no number for them, so a filter that matches everything does not delete them."""
    of_subject = Acl("User:alice", "Read", "subject", "s")
    assert not matches_filter(of_subject, EVERYTHING)
    assert matches_filter(of_subject._replace(resource_type="topic"), EVERYTHING)


def test_the_cluster_and_everyone_have_kafkas_names() -> None:
    """Kafka's tools look for these names."""
    told = encode_acl(Acl("*", "Alter", "cluster", "cluster"))
    assert (told.resource, told.principal, told.host) == ("kafka-cluster", "User:*", "*")


GOOD = KafkaAcl(2, "t", LITERAL, "User:alice", "*", 3, 3)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (GOOD._replace(host="10.0.0.1"), "every host"),
        (GOOD._replace(operation=9), "ClusterAction"),
        (GOOD._replace(operation=10), "Describe on the topic"),
        (GOOD._replace(operation=12), "Write on the topic"),
        (GOOD._replace(operation=ANY), "no operation"),
        (GOOD._replace(operation=99), "no operation"),
        (GOOD._replace(resource_type=6), "delegation tokens"),
        (GOOD._replace(resource_type=ANY), "no resource type"),
        (GOOD._replace(pattern=MATCH), "no pattern"),
        (GOOD._replace(permission=ANY), "no permission"),
        (GOOD._replace(principal="alice"), "principal"),
        (GOOD._replace(principal="User:"), "principal"),
        (GOOD._replace(principal=None), "principal"),
        (GOOD._replace(resource="no/topic"), "name of the topic"),
        (GOOD._replace(resource=""), "name of the topic"),
        (GOOD._replace(resource_type=4, resource="other"), "kafka-cluster"),
        (GOOD._replace(resource_type=4, resource="kafka-cluster", pattern=PREFIXED), "name of the cluster"),
    ],
)
def test_what_has_no_match_is_refused_with_words(bad: KafkaAcl, words: str) -> None:
    """An ACL is never taken for a wider or narrower one."""
    with pytest.raises(RequestRefused, match=words):
        parse_acl(bad)


def test_a_filter_of_anything_names_all() -> None:
    """A list without conditions is the whole list."""
    assert all(matches_filter(acl, EVERYTHING) for acl in _all_acls())


@pytest.mark.parametrize("acl", _all_acls()[::7], ids=str)
def test_a_filter_of_all_members_names_one(acl: Acl) -> None:
    """A deletion by all members deletes no other ACL."""
    assert [one for one in _all_acls() if matches_filter(one, encode_acl(acl))] == [acl]


def test_match_names_what_reaches_the_resource_and_nothing_else() -> None:
    """The filter agrees with how rights are judged."""
    names = ("a", "ab", "abc", "b", "*")
    acls = [Acl("User:u", "Read", "topic", name, pattern) for name in names for pattern in get_args(Pattern)]
    acls = [acl for acl in acls if acl.resource != "*" or acl.pattern == "literal"]
    for asked in ("a", "ab", "abc", "b", "z"):
        found = [
            acl
            for acl in acls
            if matches_filter(acl, EVERYTHING._replace(resource_type=2, resource=asked, pattern=MATCH))
        ]
        judged = [acl for acl in acls if Acls({acl_key(acl): acl.bit}).allow(["User:u"], "Read", "topic", asked)]
        assert found == judged
