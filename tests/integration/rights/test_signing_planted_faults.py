"""What is signed opens a file that its caller may read, for a quarter of an hour. Each of these tests can fail."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from gateway.audit.combined import CombinedEvents
from gateway.audit.event import AuditEvent, foreign_commit_event
from gateway.delta_sharing.signed_files import VALID_S, GatewayUrls
from log_format.clock import SystemClock
from log_format.delta.foreign import ForeignCommit
from tests.support.rights.world import World
from tests.support.secured import acl

READ: Final = [("Read", "topic", "{topic}")]
_TABLE: Final = "/iceberg/v1/namespaces/topics/tables/{topic}"


def _file(world: World, name: str) -> str:
    """Path of the one file of a topic, within its table."""
    topic = world.names[name]
    planned = world.admin("POST", f"/iceberg/v1/namespaces/topics/tables/{topic}/plan", {})
    path: str = planned["file-scan-tasks"][0]["data-file"]["file-path"]
    return path.partition(f"/topics/{topic}/")[2]


def _signed(
    world: World, path: str, *, topic: str = "{topic}", method: str = "GET", headers: Any = None
) -> httpx.Response:
    """What the signer answers the caller, of a path below the topic."""
    body = {"method": method, "uri": f"http://h/topics/{topic}/{path}", "headers": headers or {}, "region": "r"}
    return world.live.http(
        world.token, "POST", world.filled(_TABLE.replace("{topic}", topic)) + "/sign", world.filled(body)
    )


def _url(world: World, path: str) -> str:
    return _path_of(_signed(world, path))


def _get(world: World, url: str) -> int:
    """Status of a read without a credential."""
    return world.live.http(None, "GET", url).status_code


def only_files_of_the_table_are_signed(world: World) -> None:
    """Neither the log, nor what a path leads to, nor another topic's file; and no write."""
    own, other = _file(world, "topic"), _file(world, "other")
    world.grant(READ)
    assert _get(world, _url(world, own)) == 200
    log = "_delta_log/00000000000000000000.json"
    for path in (log, f"segments/../{log}", f"segments/../../{{other}}/{other}", f"segments/%2e%2e/{log}.parquet"):
        assert _signed(world, path).status_code == 403, path
    assert _signed(world, own, method="PUT").status_code == 403
    assert _signed(world, other, topic="{other}").status_code == 403


def a_right_that_is_taken_away_ends_urls(world: World) -> None:
    """The next signature and the next read, although the URL has minutes left."""
    own = _file(world, "topic")
    world.grant(READ)
    url = _url(world, own)
    assert _get(world, url) == 200
    world.grant([])
    assert _signed(world, own).status_code == 403
    assert _get(world, url) == 403


def a_signature_is_of_one_file_and_one_grant(world: World) -> None:
    """Nothing of a URL can be another: not its file, nor its topic, nor for whom it is and until when."""
    own, other = _file(world, "topic"), _file(world, "other")
    world.grant(READ)
    url = _url(world, own)
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    caller, ends_ms = json.loads(urlsafe_b64decode(query["grant"] + "=="))[:2]
    assert ends_ms <= SystemClock().now_ms() + VALID_S * 1000
    for_ever = urlsafe_b64encode(json.dumps([caller | {"principal": "User:bootstrap"}, 10**15]).encode()).decode()
    forged = [
        url.replace(query["grant"], for_ever.rstrip("=")),
        url.replace(own, "segments/another.parquet"),
        url.replace(own, other).replace(world.names["topic"], world.names["other"]),
    ]
    world.may_all()
    assert [_get(world, one) for one in forged] == [401] * 3
    assert _signed(world, f"{own}%00{for_ever}%00.parquet").status_code == 403


def a_signature_is_for_what_it_counts(world: World) -> None:
    """A HEAD costs nothing and reads nothing, a range is of these bytes and no others; a plan counts the files that it names."""
    own = _file(world, "topic")
    world.grant(READ)
    world.admin("PUT", f"/v1/access/quotas/{world.principal}", {"fetch_bytes_per_s": 100})
    head = _path_of(_signed(world, own, method="HEAD"))
    assert [world.live.http(None, method, head).status_code for method in ("HEAD", "GET")] == [200, 401]
    ranged = _path_of(_signed(world, own, headers={"Range": ["bytes=0-3"]}))
    read = [world.live.http(None, "GET", ranged, range=one).status_code for one in ("bytes=0-3", "bytes=0-4")]
    assert read == [206, 401]
    assert _get(world, ranged) == 401
    assert world.live.http(world.token, "POST", world.filled(_TABLE) + "/plan", {}).status_code == 200
    assert _signed(world, own).status_code == 429


def a_caller_in_debt_gets_nothing(world: World) -> None:
    """Whoever may read all of a file has read it."""
    own = _file(world, "topic")
    world.grant(READ)
    world.admin("PUT", f"/v1/access/quotas/{world.principal}", {"fetch_bytes_per_s": 100})
    assert _get(world, _url(world, own)) == 200
    assert _signed(world, own).status_code == 429
    assert world.live.http(world.token, "POST", world.filled(_TABLE) + "/plan", {}).status_code == 429


def what_is_signed_is_audited(world: World) -> None:
    """Who got how many URLs of which topic's files, by each of the calls that give some: one event each, with the number."""
    own = _file(world, "topic")
    world.grant(READ)
    for _ in range(3):
        _path_of(_signed(world, own))
    shared = f"/delta-sharing/shares/tidelog/schemas/topics/tables/{world.names['topic']}/query"
    for body in ({}, {}, {"startingVersion": 0}):
        assert world.live.http(world.token, "POST", shared, body).status_code == 200
    assert _audited(world) == {"sign": 3, "query": 3}


def _audited(world: World) -> dict[str, int]:
    """Number of signatures that the audit topic tells of the caller, by the last word of the route. All are of its topic."""
    recording = world.live.app.gateway.recording
    assert recording is not None

    async def written() -> None:
        recording._trail.tell_all()
        await recording.record_durably(_LAST)

    world.live.run(written())
    acls = {"acls": [acl("User:bootstrap", "Read", "topic", "__audit")]}
    world.live.admin("POST", "/v1/access/acls", acls)
    page = world.live.admin("GET", "/v1/topics/__audit/partitions/0/records?offset=earliest&max_records=10000")
    events = [json.loads(record["value"]) for record in page["records"]]
    found: dict[str, int] = {}
    for event in events:
        if (event["kind"], event["principal"]) == ("signature", world.principal):
            assert (event["operation"], event["resource"]) == ("Read", world.names["topic"])
            name = event["route"].rpartition("/")[2]
            found[name] = found.get(name, 0) + event["count"]
    return found


_LAST: Final = foreign_commit_event("none", ForeignCommit(version=0, program="", operation="", at_ms=1), 1)
"""An event that is written after all that came before."""


def _path_of(signed: httpx.Response) -> str:
    assert signed.status_code == 200, signed.text
    url: str = signed.json()["uri"]
    return url.removeprefix("http://127.0.0.1")


def _nothing(*_: Any, **__: Any) -> None:
    """Does not look."""


async def _nothing_later(*_: Any, **__: Any) -> None:
    """Does not look."""


def _of_path(key: bytes, topic: str, path: str, grant: str) -> str:
    """The grant is not signed."""
    del grant
    return hmac.digest(key, f"{topic}\0{path}".encode(), "sha256").hex()


def _of_grant(key: bytes, topic: str, path: str, grant: str) -> str:
    """The file is not signed."""
    del topic, path
    return hmac.digest(key, grant.encode(), "sha256").hex()


def _for_a_day(self: GatewayUrls) -> tuple[int, str]:
    ends_ms = self._clock.now_ms() + 86_400_000
    grant = json.dumps([{"principal": self._caller.principal, "authentication": "none"}, ends_ms])
    return ends_ms, urlsafe_b64encode(grant.encode()).decode().rstrip("=")


def _for_everything(self: GatewayUrls) -> tuple[int, str]:
    self._only = None
    return _grant(self)


def _once(self: CombinedEvents, event: AuditEvent) -> None:
    if self.is_new(event):
        _note(self, event)
        self.note_told(event)


_grant, _note = GatewayUrls._grant, CombinedEvents.note
_FILES: Final = "gateway.delta_sharing"
PLANTED: dict[str, tuple[Callable[[World], None], str, Any]] = {
    "the signer asks for no right": (only_files_of_the_table_are_signed, "gateway.iceberg.tables.require", _nothing),
    "the signer takes any path": (
        only_files_of_the_table_are_signed, "gateway.iceberg.signing._path_in_table", lambda _topic, path: path,
    ),
    "a path may lead elsewhere": (
        only_files_of_the_table_are_signed, "gateway.iceberg.signing.is_file_path", lambda path: "segments/" in path,
    ),
    "a URL is for whoever has it": (a_right_that_is_taken_away_ends_urls, f"{_FILES}.files._check_right", _nothing_later),
    "the grant is not signed": (a_signature_is_of_one_file_and_one_grant, f"{_FILES}.signed_files._mac", _of_path),
    "the file is not signed": (a_signature_is_of_one_file_and_one_grant, f"{_FILES}.signed_files._mac", _of_grant),
    "a URL lasts for a day": (a_signature_is_of_one_file_and_one_grant, f"{_FILES}.signed_files.GatewayUrls._grant", _for_a_day),
    "a path may have a zero byte": (
        a_signature_is_of_one_file_and_one_grant, "gateway.iceberg.signing.is_file_path", lambda _path: True,
    ),
    "a signature is for any request": (
        a_signature_is_for_what_it_counts, f"{_FILES}.signed_files.GatewayUrls._grant", _for_everything,
    ),
    "plans count nothing": (a_signature_is_for_what_it_counts, "gateway.iceberg.planning.charge_fetched_bytes", _nothing),
    "signatures are not audited": (what_is_signed_is_audited, "gateway.iceberg.signing.note_signatures", _nothing_later),
    "shared files are not audited": (what_is_signed_is_audited, "gateway.delta_sharing.tables.note_signatures", _nothing_later),
    "only the first of an answer is counted": (
        what_is_signed_is_audited, "gateway.audit.combined.CombinedEvents.note", _once,
    ),
    "signatures count nothing": (a_caller_in_debt_gets_nothing, "gateway.iceberg.signing._charge", _nothing_later),
}  # fmt: skip


@pytest.mark.parametrize(
    "scenario", dict.fromkeys(scenario for scenario, _, _ in PLANTED.values()), ids=lambda one: one.__name__
)
def test_what_is_signed_is_no_more_than_its_caller_may_read(world: World, scenario: Callable[[World], None]) -> None:
    """By the signer of Iceberg's clients, for a store that signs nothing itself."""
    scenario(world)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(world: World, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these scenarios can fail."""
    scenario, target, fault = PLANTED[name]
    monkeypatch.setattr(target, fault)
    with pytest.raises(AssertionError):
        scenario(world)
