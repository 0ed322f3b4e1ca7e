"""Topics by Delta Sharing: its own client reads the rows that a Delta reader finds at the same version, and nobody else does."""

from __future__ import annotations

import hmac
import json
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import delta_sharing
import httpx
import pytest

from gateway.access.caller import Caller
from gateway.delta_sharing.signed_files import PURPOSE, VALID_S, GatewayUrls
from log_format.cluster.identity import load_cluster
from log_format.stores import open_store
from tests.support.clocks import LaterClock
from tests.support.http_api import Json
from tests.support.minio import Minio
from tests.support.shared_tables import DESCRIBE, READ, TABLES, SharedTables, shared_tables, values_of
from tests.support.waiting import until
from tidelog import Admin

HOUR_MS = 3_600_000
OLD_MS = 1_000_000_000_000


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedTables]:
    """In a directory."""
    with shared_tables(tmp_path_factory.mktemp("sharing")) as made:
        yield made


@pytest.fixture(scope="module")
def in_bucket(minio: Minio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedTables]:
    """In a bucket."""
    store = f"s3://{minio.create_bucket()}/log"
    with shared_tables(tmp_path_factory.mktemp("sharing"), store, minio.environment()) as made:
        yield made


def compare(tables: SharedTables) -> None:
    """Own commits and a journal's, acknowledged a moment ago; by both formats, at the newest version and an older one."""
    for mode in ("own", "shared"):
        topic = tables.topic(2, **{"commit.mode": mode})
        tables.produce(topic, *(f"a{number}" for number in range(30)))
        older = tables.version(topic)
        tables.produce(topic, *(f"b{number}" for number in range(20)))
        for is_delta in (False, True):
            found = tables.by_client(topic, use_delta_format=is_delta)
            assert found == tables.by_delta(topic, tables.version(topic)), (mode, is_delta)
            assert found[0] == 50
        found = tables.by_client(topic, version=older)
        assert found == tables.by_delta(topic, older)
        assert found[0] == 30
        assert tables.by_client(topic, limit=7)[0] == 7


def test_the_client_reads_what_a_delta_reader_finds(tables: SharedTables) -> None:
    """In a directory, where the gateway signs."""
    compare(tables)


@pytest.mark.minio
def test_the_client_reads_what_a_delta_reader_finds_in_a_bucket(in_bucket: SharedTables) -> None:
    """In a bucket, where the store's own signed URLs end within 15 minutes and no byte goes through the gateway."""
    compare(in_bucket)
    topic = in_bucket.topic()
    in_bucket.produce(topic, "v")
    (line,) = in_bucket.lines(topic)
    assert urlsplit(line["url"]).netloc != urlsplit(in_bucket.secured.url).netloc
    assert "X-Amz-Expires=900" in line["url"]
    assert values_of(in_bucket.read(line["url"])) == ["v"]
    assert httpx.get(line["url"].replace("/segments/", "/segments/x"), trust_env=False).status_code == 403


def cloned(tables: SharedTables) -> tuple[str, str]:
    """A clone whose source is deleted, and the URL of its one file that a caller got who could never read the source."""
    source, clone = tables.topic(**{"deleted.file.retention.ms": 0}), f"t-{uuid.uuid4().hex}"
    tables.produce(source, "a", "b")
    body = {"name": clone, "config": {"erase.grace.ms": 0, "deleted.file.retention.ms": None}}
    answer = tables.secured.admin.http.post(f"/v1/topics/{source}:clone", json=body)
    assert answer.status_code == 201, answer.text
    _, _, http, profile = tables.reader((*READ, clone))
    assert tables.ask(source, client=http).status_code == 403
    assert len(delta_sharing.load_as_pandas(f"{profile}#tidelog.topics.{clone}")) == 2
    (line,) = [json.loads(text) for text in tables.ask(clone, client=http).text.splitlines()[2:]]
    url = line["file"]["url"]
    assert values_of(tables.read(url)) == ["a", "b"]
    assert f"/{clone}/" in url
    assert source not in url
    assert httpx.get(url.replace(clone, source), trust_env=False).status_code in (401, 403)
    _, _, of_source, _ = tables.reader((*READ, source))
    assert tables.ask(clone, client=of_source).status_code == 403
    assert tables.secured.admin.http.delete(f"/v1/topics/{source}").status_code == 204
    tables.maintain(collect=True)
    assert [*open_store(tables.gateway.store).list(f"topics/{source}/segments/")] == []
    assert values_of(tables.read(url)) == ["a", "b"]
    assert tables.by_client(clone) == tables.by_delta(clone, tables.version(clone))
    assert tables.by_client(clone)[0] == 2
    return clone, url


def test_a_clone_is_read_by_its_own_name(tables: SharedTables) -> None:
    """Its URLs name files of its own, so a caller without a right on the source reads it, and the source's caller does not; also
    once the source is deleted. A record that is erased in the clone is in no answer, and in no file that an older URL opens."""
    clone, url = cloned(tables)
    erasure = {"keys": ["k-a"]}
    assert tables.secured.admin.http.post(f"/v1/topics/{clone}/erasures", json=erasure).status_code == 202
    tables.maintain(collect=True)
    assert httpx.get(url, trust_env=False).status_code == 404
    (line,) = tables.lines(clone)
    assert tables.read(line["url"]).column("value").to_pylist() == [None, b"b"]


@pytest.mark.minio
def test_a_clone_in_a_bucket_is_read_by_its_own_name(
    in_bucket: SharedTables, minio: Minio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Presigned URLs of the store name the clone's files: no signature opens one of the source."""
    for name, value in minio.environment().items():
        monkeypatch.setenv(name, value)
    cloned(in_bucket)


def test_archived_rows_are_in_the_answer(tables: SharedTables) -> None:
    """Rows that have left the log and stay in the table, beside those that are in the log."""
    topic = tables.topic(**{"retention.ms": HOUR_MS, "table.retention.ms": -1})
    for number in range(4):
        body = {"records": [{"value": f"old{number}", "timestamp": OLD_MS}]}
        assert tables.secured.admin.http.post(f"/v1/topics/{topic}/records", json=body).status_code == 200
    tables.produce(topic, "new")
    tables.maintain()
    described = tables.secured.admin.http.get(f"/v1/topics/{topic}").json()
    assert described["partitions"][0]["log_start_offset"] == 4
    found = sorted(value for line in tables.lines(topic) for value in values_of(tables.read(line["url"])))
    assert found == ["new", "old0", "old1", "old2", "old3"]
    assert tables.by_client(topic) == tables.by_delta(topic, tables.version(topic))


def test_a_typed_topic_has_its_columns(tables: SharedTables) -> None:
    """Values that are left out are read by their columns, which came in two versions of a schema; by both formats. Files without
    a row of an amount are left out."""
    subject, first = f"s-{uuid.uuid4().hex}", '{"name": "amount", "type": "long"}'
    more = '{"name": "note", "type": ["null", "string"], "default": null}'
    config: dict[str, Any] = {"value.schema": subject, "value.keep": "false"}
    topic = ""
    for number, members in enumerate((first, f"{first}, {more}")):
        schema = {"schema": f'{{"type": "record", "name": "R", "fields": [{members}]}}'}
        admin = tables.secured.admin.http
        assert admin.post(f"/registry/subjects/{subject}/versions", json=schema).is_success
        topic = topic or tables.topic(**config)
        document = {"amount": number} | ({"note": "n"} if number else {})
        tables.produce(topic, json.dumps(document))
    for is_delta in (False, True):
        profile = f"{tables.profile}#tidelog.topics.{topic}"
        frame = delta_sharing.load_as_pandas(profile, use_delta_format=is_delta).sort_values("offset")
        assert [row["amount"] for row in frame["data"]] == [0, 1]
        assert frame["data"].iloc[1]["note"] == "n"
        assert frame["value"].isna().all()
    assert len(tables.lines(topic)) == 2
    (line,) = tables.lines(topic, {"predicateHints": ["data.amount > 0"]})
    assert tables.read(line["url"]).column("data").to_pylist() == [{"amount": 1, "note": "n"}]


def test_a_topic_with_dots_is_a_table(tables: SharedTables) -> None:
    """Its dots are written %2E, in lists and by clients; other spellings reach it, too."""
    body = {"name": "orders.eu.v1", "partition_count": 1, "config": {"flush.ms": 1}}
    assert tables.secured.admin.http.post("/v1/topics", json=body).status_code == 201
    tables.produce("orders.eu.v1", "v")
    listed = tables.http.get(TABLES).json()["items"]
    assert "orders%2Eeu%2Ev1" in [table["name"] for table in listed]
    assert tables.by_client("orders%2Eeu%2Ev1")[0] == 1
    for spelling in ("orders.eu.v1", "orders%252Eeu%252ev1"):
        assert tables.http.get(f"{TABLES}/{spelling}/version").status_code == 200


def test_changes_by_version(tables: SharedTables) -> None:
    """Each version's new files, from the first to the last that is asked for; a version of the future is refused."""
    topic = tables.topic()
    for value in ("a", "b", "c"):
        tables.produce(topic, value)
    head = tables.version(topic)
    added = tables.lines(topic, {"startingVersion": head - 1}, "add")
    assert [(line["version"], values_of(tables.read(line["url"]))) for line in added] == [
        (head - 1, ["b"]),
        (head, ["c"]),
    ]
    (only,) = tables.lines(topic, {"startingVersion": head - 1, "endingVersion": head - 1}, "add")
    assert only["version"] == head - 1
    assert tables.ask(topic, {"startingVersion": head + 1}).status_code == 400
    (delta,) = tables.http.post(
        f"{TABLES}/{topic}/query",
        json={"startingVersion": head},
        headers={"delta-sharing-capabilities": "responseformat=delta"},
    ).text.splitlines()[2:]
    assert json.loads(delta)["file"]["deltaSingleAction"]["add"]["dataChange"] is True


def test_changes_come_in_pages(tables: SharedTables) -> None:
    """Each change once, up to the version that was newest at the first page; the same lines as in one answer."""
    topic = tables.topic()
    for value in ("a", "b", "c"):
        tables.produce(topic, value)
    altered = tables.secured.admin.http.patch(f"/v1/topics/{topic}", json={"config": {"retention.bytes": 1 << 40}})
    assert altered.is_success, altered.text
    tables.produce(topic, "d")
    whole = [line["id"] for line in tables.lines(topic, {"startingVersion": 0}, "add")]
    body: Json | None = {"startingVersion": 0, "maxFiles": 3}
    found, sizes = list[str](), list[int]()
    while body is not None:
        answer = tables.ask(topic, body)
        assert (answer.status_code, answer.headers["delta-table-version"]) == (200, "0")
        lines = [json.loads(line) for line in answer.text.splitlines()]
        added = [line["add"]["id"] for line in lines if "add" in line]
        sizes.append(len(added))
        found += added
        tables.produce(topic, "later")
        token = lines[-1].get("endStreamAction", {}).get("nextPageToken")
        body = None if token is None else {"startingVersion": 0, "maxFiles": 3, "pageToken": token}
    assert (found, sizes) == (whole, [3, 1])
    page = tables.ask(topic, {"startingVersion": 0, "maxFiles": 1}).text.splitlines()[-1]
    token = json.loads(page)["endStreamAction"]["nextPageToken"]
    for wrong in ({}, {"startingVersion": 1}, {"startingVersion": 0, "endingVersion": 1}):
        assert tables.ask(topic, {**wrong, "pageToken": token}).status_code == 400, wrong


def test_times_name_versions(tables: SharedTables) -> None:
    """The version of a time, and the first one from a time on."""
    topic = tables.topic()
    tables.produce(topic, "a")
    head = tables.version(topic)
    since = {"startingTimestamp": "2001-01-01T00:00:00Z"}
    assert tables.http.get(f"{TABLES}/{topic}/version", params=since).headers["delta-table-version"] == "0"
    assert tables.ask(topic, {"timestamp": "2999-01-01T00:00:00Z"}).headers["delta-table-version"] == str(head)
    assert tables.ask(topic, {"timestamp": "2001-01-01T00:00:00Z"}).status_code == 410
    for body in ({"timestamp": "yesterday"}, {"timestamp": "2026-01-01T00:00:00Z", "version": 0}):
        answer = tables.ask(topic, body)
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "INVALID_PARAMETER_VALUE")


def test_hints_leave_files_out(tables: SharedTables) -> None:
    """Files that can't have a row that counts, by offsets; a limit takes no more files than it needs."""
    topic = tables.topic()
    for number in range(5):
        tables.produce(topic, *(f"{number}-{each}" for each in range(10)))
    below = (
        {"op": "column", "name": "offset", "valueType": "long"},
        {"op": "literal", "value": "10", "valueType": "long"},
    )
    predicate = json.dumps({"op": "lessThan", "children": below})
    assert len(tables.lines(topic)) == 5
    assert len(tables.lines(topic, {"jsonPredicateHints": predicate})) == 1
    assert len(tables.lines(topic, {"predicateHints": ["offset >= 40", "offset <> 3"]})) == 1
    assert len(tables.lines(topic, {"predicateHints": ["nonsense of any kind"]})) == 5
    assert len(tables.lines(topic, {"limitHint": 11})) == 2
    assert len(tables.lines(topic, {"limitHint": 11, "jsonPredicateHints": predicate})) == 1


def test_files_come_in_pages(tables: SharedTables) -> None:
    """Each file once, at one version, although records come between two pages. Only the last page has no token."""
    topic = tables.topic()
    for number in range(7):
        tables.produce(topic, f"{number}")
    wanted = {line["id"] for line in tables.lines(topic)}
    version, found, sizes = tables.version(topic), list[str](), list[int]()
    body: Json | None = {"maxFiles": 3}
    while body is not None:
        answer = tables.ask(topic, body)
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert int(answer.headers["delta-table-version"]) == version
        files = [line["file"]["id"] for line in lines if "file" in line]
        sizes.append(len(files))
        found += files
        tables.produce(topic, "later")
        token = lines[-1].get("endStreamAction", {}).get("nextPageToken")
        body = None if token is None else {"maxFiles": 3, "pageToken": token}
    assert sizes == [3, 3, 1]
    assert len(found) == 7
    assert set(found) == wanted
    assert len(tables.lines(topic, {"maxFiles": 1_000_000})) == 10
    valid = {"pageToken": "WzEsWzEsImEiXV0"}
    for wrong in ({"maxFiles": 0}, {"pageToken": "e30"}, {"pageToken": "\u00e9"}, valid | {"startingVersion": 1}):
        assert tables.ask(topic, wrong).status_code == 400, wrong


def test_a_share_shows_what_its_caller_may_describe_and_gives_what_it_may_read(tables: SharedTables) -> None:
    """Describe lists a topic and gives no file; without any right it is not listed; an unknown share does not exist."""
    topic, other = tables.topic(), tables.topic()
    tables.produce(topic, "v")
    _, principal, http, _ = tables.reader((*DESCRIBE, topic))
    assert [table["name"] for table in http.get(TABLES).json()["items"]] == [topic]
    for call in ("version", "metadata"):
        answer = http.get(f"{TABLES}/{topic}/{call}")
        assert (answer.status_code, answer.json()["errorCode"]) == (403, "UNAUTHORIZED")
    assert tables.ask(topic, client=http).status_code == 403
    assert tables.ask(other, client=http).status_code == 403
    assert http.get("/delta-sharing/shares/another/schemas").status_code == 404
    tables.secured.allow(principal, *READ, topic)
    until(lambda: tables.ask(topic, client=http).status_code == 200)
    assert httpx.get(f"{tables.secured.url}/delta-sharing/shares", trust_env=False).status_code == 401
    until(lambda: tables.secured.events(kind="denial", principal=principal, resource=other))


def test_a_url_opens_its_file_for_its_caller_only(tables: SharedTables) -> None:
    """Not with another file's signature, nor another grant, nor a path out of the files; ranges are as asked for."""
    topic = tables.topic()
    tables.produce(topic, "a")
    tables.produce(topic, "b")
    one, other = (line["url"] for line in tables.lines(topic))
    assert sorted(values_of(tables.read(one)) + values_of(tables.read(other))) == ["a", "b"]
    path, _, query = one.partition("?")
    forged = [
        f"{other.partition('?')[0]}?{query}",
        path,
        one[:-1] + ("0" if one[-1] != "0" else "1"),
        one.replace("grant=", "grant=A"),
        f"{path.rpartition('/')[0]}/../_delta_log/00000000000000000000.json?{query}",
        one.replace(topic, tables.topic()),
    ]
    for url in forged:
        answer = httpx.get(url, trust_env=False)
        assert answer.status_code in (401, 404), url
        assert "PAR1" not in answer.text
    whole = httpx.get(one, trust_env=False).content
    for asked, wanted in (("bytes=-4", b"PAR1"), ("bytes=0-3", b"PAR1"), (f"bytes={len(whole) - 8}-", whole[-8:])):
        answer = httpx.get(one, headers={"range": asked}, trust_env=False)
        assert (answer.status_code, answer.content) == (206, wanted)
    assert httpx.get(one, headers={"range": f"bytes={len(whole)}-"}, trust_env=False).status_code == 416
    assert int(httpx.head(one, trust_env=False).headers["content-length"]) == len(whole)


def test_a_url_ends_after_a_quarter_of_an_hour(tables: SharedTables) -> None:
    """By the gateway's clock: one that was signed longer ago opens nothing, whoever has the right."""
    topic = tables.topic()
    tables.produce(topic, "v")
    path = urlsplit(tables.lines(topic)[0]["url"]).path.partition(f"{topic}/")[2]
    cluster = load_cluster(open_store(tables.gateway.store), lambda: uuid.uuid4().hex)
    key = hmac.digest(cluster.producer_key, PURPOSE, "sha256")
    caller = Caller(tables.caller, authentication="token", token_id=tables.token_id)
    clock = LaterClock()
    for age_s, status in ((VALID_S - 60, 200), (VALID_S + 1, 401)):
        clock.ahead_ms = -age_s * 1000
        urls = GatewayUrls(tables.secured.url, key, topic, caller, clock)
        assert httpx.get(urls.sign(path).url, trust_env=False).status_code == status


def test_a_right_that_is_taken_away_ends_queries_and_urls(tables: SharedTables) -> None:
    """Within five seconds there is no answer, and what was signed before opens nothing; the same with a token."""
    topic = tables.topic()
    tables.produce(topic, "v")
    for take in ("right", "token"):
        token_id, principal, http, _ = tables.reader((*READ, topic))
        answer = tables.ask(topic, client=http)
        url = json.loads(answer.text.splitlines()[2])["file"]["url"]
        assert httpx.get(url, trust_env=False).status_code == 200
        if take == "right":
            tables.secured.forget(principal)
        else:
            tables.secured.admin.http.delete(f"/v1/access/tokens/{token_id}")
        refused = 403 if take == "right" else 401
        until(lambda: tables.ask(topic, client=http).status_code == refused, seconds=5)  # noqa: B023
        assert httpx.get(url, trust_env=False).status_code == refused


def test_a_share_with_a_name(tables: SharedTables) -> None:
    """Its profile reads its topics, under its own name and the common one, and no others; deleted, it reads nothing."""
    shared, other = tables.topic(), tables.topic()
    tables.produce(shared, "v")
    token = str(tables.secured.admin.http.headers["Authorization"]).removeprefix("Bearer ")
    with Admin(tables.secured.url, token=token) as admin:
        made = admin.create_share("partners", [shared, "nothing-begins-so-*"])
        profile = tables.directory / "partners.share"
        profile.write_text(json.dumps(made.profile()))
        assert [(one.name, one.topics) for one in admin.list_shares()] == [("partners", made.topics)]
        client = delta_sharing.SharingClient(str(profile))
        assert {(one.share, one.name) for one in client.list_all_tables()} == {
            ("partners", shared),
            ("tidelog", shared),
        }
        for share in ("partners", "tidelog"):
            assert len(delta_sharing.load_as_pandas(f"{profile}#{share}.topics.{shared}")) == 1
        http = tables.secured.client(made.token)
        assert tables.ask(other, client=http).status_code == 403
        assert tables.http.get("/delta-sharing/shares/partners").status_code == 404
        assert admin.delete_share("partners")
        until(lambda: tables.ask(shared, client=http).status_code == 401, seconds=5)
        assert admin.list_shares() == []
        assert not admin.delete_share("partners")
