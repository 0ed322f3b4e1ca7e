"""URLs of the gateway's own: one file, one caller, a quarter of an hour."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from gateway.access.caller import Caller
from gateway.delta_sharing.signed_files import FILES, VALID_S, GatewayUrls, granted, is_file_path
from tests.support.clocks import ManualClock

KEY = b"key"
CALLER = Caller("User:a", ("Group:g",), "token", "id", 5, secret="hash of a secret")


def parts(url: str) -> tuple[str, str, str, str]:
    """Topic, path, grant, signature."""
    split = urlsplit(url)
    topic, _, path = split.path.removeprefix(FILES).partition("/")
    query = parse_qs(split.query)
    return unquote(topic), unquote(path), query["grant"][0], query["signature"][0]


def test_a_url_is_for_its_file_and_says_nothing_secret() -> None:
    """The grant has the caller without its secret; nothing of it, nor topic or path, can be another."""
    clock = ManualClock()
    signed = GatewayUrls("http://h", KEY, "t.1", CALLER, clock).sign("segments/a b.parquet")
    topic, path, grant, signature = parts(signed.url)
    assert (topic, path) == ("t.1", "segments/a b.parquet")
    found = granted(KEY, topic, path, grant, signature)
    assert found is not None
    assert (found.caller, found.expires_at_ms) == (
        Caller("User:a", ("Group:g",), "token", "id", 5),
        signed.expires_at_ms,
    )
    assert 0 < signed.expires_at_ms - clock.now_ms() <= VALID_S * 1000 <= 900_000
    assert b"hash of a secret" not in urlsafe_b64decode(grant + "==")
    longer = urlsafe_b64encode(json.dumps([json.loads(urlsafe_b64decode(grant + "=="))[0], 10**15]).encode()).decode()
    for forged in (
        (KEY, "t.2", path, grant, signature),
        (KEY, topic, "segments/b.parquet", grant, signature),
        (KEY, topic, path, longer.rstrip("="), signature),
        (KEY, topic, path, grant, signature[:-1]),
        (KEY, topic, path, grant, ""),
        (KEY, topic, path, grant, "\u00e9"),
        (KEY, topic, path, grant, "\ud800"),
        (b"another key", topic, path, grant, signature),
    ):
        assert granted(*forged) is None, forged


def test_no_text_that_is_signed_means_another_grant() -> None:
    """A client names the path that it wants signed. One that holds a grant of its own opened the file for whoever that names,
    for ever, since base64 was read past what is none of it."""
    own = urlsafe_b64encode(
        json.dumps([{"principal": "User:root", "authentication": "none"}, 10**15]).encode()
    ).decode()
    path = f"segments/a.parquet\0{own}\0.parquet"
    signed = GatewayUrls("http://h", KEY, "t", CALLER, ManualClock()).sign(path)
    _, _, grant, signature = parts(signed.url)
    for forged in (f"{own}\0.parquet\0{grant}", f"{own}=\0.parquet\0{grant}", f"{own}", f"{own}.{grant}"):
        assert granted(KEY, "t", "segments/a.parquet", forged, signature) is None
    assert granted(KEY, "t", "segments/a", "%", signature) is None
    assert not is_file_path(path)


def test_a_grant_is_made_anew_as_time_passes() -> None:
    """Files that are signed later can be read as long as those that were signed first."""
    clock = ManualClock()
    urls = GatewayUrls("http://h", KEY, "t", CALLER, clock)
    first = urls.sign("segments/a.parquet")
    clock.pass_ms(60_000)
    assert urls.sign("segments/b.parquet").expires_at_ms == first.expires_at_ms + 60_000


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("segments/a.parquet", True),
        ("compacted/p=1/a.parquet", True),
        ("segments/../_delta_log/0.parquet", False),
        ("segments//a.parquet", False),
        ("_delta_log/00000000000000000000.checkpoint.parquet", False),
        ("segments/a.json", False),
        ("segments/a\0.parquet", False),
        ("segments/a\n.parquet", False),
        ("../segments/a.parquet", False),
    ],
)
def test_only_files_of_data_have_addresses(path: str, is_one: bool) -> None:
    """Whatever was signed: nothing else below a topic, and nothing beyond it."""
    assert is_file_path(path) == is_one
