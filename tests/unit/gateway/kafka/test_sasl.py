"""One credential comes out of a SASL message, or the one refusal."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.authentication import Unauthenticated
from gateway.kafka.sasl import MECHANISMS, MESSAGE_BYTES_MAX, Mechanism, credential_of


@pytest.mark.parametrize("user", [b"", b"alice", b"User:alice", "jürgen".encode()])
def test_plain_brings_the_credential_as_password_under_any_name(user: bytes) -> None:
    """The credential tells the principal, the user name does not."""
    assert credential_of("PLAIN", b"\0" + user + b"\0tl_secret") == b"tl_secret"
    assert credential_of("PLAIN", user + b"\0" + user + b"\0tl_secret") == b"tl_secret"


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,a=alice,\x01auth=bearer a.b.c\x01\x01",
        b"n,,\x01host=h\x01port=1\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a.b.c\x01traceId=1\x01\x01",
    ],
)
def test_oauthbearer_brings_a_jwt(message: bytes) -> None:
    """As Java's, librdkafka's and others' clients write it."""
    assert credential_of("OAUTHBEARER", message) == b"a.b.c"


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"\0alice"),
        ("PLAIN", b"\0alice\0"),
        ("PLAIN", b"\0alice\0a\0b"),
        ("PLAIN", b"\0alice\0" + b"x" * MESSAGE_BYTES_MAX),
        ("OAUTHBEARER", b""),
        ("OAUTHBEARER", b"\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer \x01\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer a.b.c\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Basic a.b.c\x01\x01"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer a.b.c\x01auth=Bearer d.e.f\x01\x01"),
        ("OAUTHBEARER", b"p=tls-unique,,\x01auth=Bearer a.b.c\x01\x01"),
    ],
)
def test_anything_else_is_the_one_refusal(mechanism: Mechanism, message: bytes) -> None:
    """What was wrong is not told."""
    with pytest.raises(Unauthenticated):
        credential_of(mechanism, message)


@given(mechanism=st.sampled_from(MECHANISMS), message=st.binary(max_size=200))
def test_any_bytes_bring_a_credential_or_are_refused(mechanism: Mechanism, message: bytes) -> None:
    """No message raises anything else."""
    with contextlib.suppress(Unauthenticated):
        assert credential_of(mechanism, message)
