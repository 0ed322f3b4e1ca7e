"""The program behind ``tidelog catalog``, and its runs beside maintenance, with a Unity Catalog by HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from compaction.__main__ import main as maintain
from compaction.catalogs.__main__ import main
from compaction.catalogs.catalog import CatalogUnavailable
from compaction.catalogs.network_words import network_words
from compaction.catalogs.unity import UnityCatalog
from compaction.catalogs.watch import LOOK_EVERY_MS, SYNC_EVERY_MS, CatalogWatch
from log_format.stores import open_store
from tests.support.catalog_bench import CatalogBench, MemoryCatalog
from tests.support.fake_unity import FakeUnity, fake_unity

SECRET = "dapi-0123456789abcdef"


@pytest.fixture
def unity() -> Iterator[FakeUnity]:
    """A catalog that asks for a token."""
    with fake_unity() as served:
        served.token = SECRET
        yield served


@pytest.fixture
def bench(tmp_path: Path) -> CatalogBench:
    """A directory with the topic ``orders``."""
    made = CatalogBench(store=open_store(str(tmp_path / "log")))
    made.create("orders")
    return made


def arguments(unity: FakeUnity, bench: CatalogBench, *more: str) -> list[str]:
    """The options that name the store and the catalog."""
    return ["--store", bench.store.uri, "--unity", unity.url, "--catalog", "main", "--schema", "events", *more]


def test_sync_and_status_say_what_is_done_and_what_is_to_do(
    unity: FakeUnity, bench: CatalogBench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status ends with 1 while a table is missing, outdated or somebody else's; a dry run changes nothing."""
    monkeypatch.setenv("TIDELOG_UNITY_TOKEN", SECRET)
    bench.create("taken")
    unity.tables["taken"] = {"name": "taken", "storage_location": "s3://elsewhere/taken"}

    def states() -> dict[str, str]:
        main(["status", *arguments(unity, bench, "--json")])
        return {row["table"]: row["state"] for row in json.loads(capsys.readouterr().out)["tables"]}

    assert main(["sync", *arguments(unity, bench, "--dry-run")]) == 1  # the name that is taken
    assert unity.tables.keys() == {"taken"}
    assert states() == {"orders": "missing", "taken": "not ours"}
    assert main(["sync", *arguments(unity, bench)]) == 1
    assert states() == {"orders": "current", "taken": "not ours"}
    bench.alter("orders", flush_ms=10)
    bench.delete("taken")
    assert states() == {"orders": "outdated"}
    assert main(["sync", *arguments(unity, bench)]) == 0
    assert main(["status", *arguments(unity, bench)]) == 0
    assert "current            orders" in capsys.readouterr().out
    bench.delete("orders")
    assert states() == {"orders": "of a deleted topic"}
    bench.create("orders")
    assert states() == {"orders": "of a former topic"}


def test_a_token_is_read_from_a_file_and_never_said(
    unity: FakeUnity, bench: CatalogBench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither where the catalog takes it, nor where the catalog refuses it and repeats it, nor where it gives no answer."""
    file = tmp_path / "token"
    file.write_text(SECRET + "\n")
    given = ("--unity-token-file", str(file))
    assert main(["sync", *arguments(unity, bench, *given, "--json")]) == 0
    unity.token = "another"
    assert main(["sync", *arguments(unity, bench, *given)]) == 1
    said = capsys.readouterr()
    assert "401" in said.err
    assert "still valid" in said.err
    catalog = UnityCatalog("http://127.0.0.1:1", "main", "events", token=SECRET)
    with pytest.raises(CatalogUnavailable) as away:
        list(catalog.list_tables())
    assert SECRET not in said.out + said.err + str(away.value) + repr(vars(away.value)) + catalog.label


@pytest.mark.parametrize("content", ["", "two words", "caf\u00e9", "line\nline"])
def test_what_is_no_token_is_refused_before_a_request(
    unity: FakeUnity, bench: CatalogBench, tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A header could not carry it; the message names the file, not what it has."""
    file = tmp_path / "token"
    file.write_text(content)
    assert main(["sync", *arguments(unity, bench, "--unity-token-file", str(file))]) == 1
    said = capsys.readouterr().err
    assert str(file) in said
    assert not content or content not in said
    assert unity.calls == []


@pytest.mark.parametrize(
    ("catalog", "why"),
    [
        (["--unity", "http://127.0.0.1:1", "--catalog", "main", "--schema", "events"], "Connection refused"),
        (["--unity", "http://no-host.invalid", "--catalog", "main", "--schema", "events"], "Name or service not known"),
        (["--hive", "thrift://127.0.0.1:1/events"], "Connection refused"),
    ],
    ids=["unity", "no such host", "hive"],
)
def test_a_catalog_that_cannot_be_reached_is_said_in_one_line(
    bench: CatalogBench,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    catalog: list[str],
    why: str,
) -> None:
    """In the system's words, without those of libraries, which name their objects, say it several times, with tracebacks."""
    assert main(["status", "--store", bench.store.uri, *catalog]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert "events" in line
    assert line.endswith(f": {why}")
    assert not any(word in line for word in ("Connection(", "Errno", "[("))
    assert not caplog.records


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "HTTPConnectionPool(host='h', port=1): Read timed out. (read timeout=30.0)",
            "Read timed out. (read timeout=30.0)",
        ),
        ("<urllib3.connection.HTTPSConnection(host='h', port=1)>: no route", "no route"),
        ("[Errno 113] No route to host", "No route to host"),
        ("Could not connect to any of the hosts", "Could not connect to any of the hosts"),
    ],
)
def test_objects_of_libraries_are_not_named(said: str, words: str) -> None:
    """Whatever the library says before its words."""
    assert network_words(Exception(said)) == words


@pytest.mark.parametrize("url", ["uc.example", "ftp://uc.example", f"https://user:{SECRET}@uc.example"])
def test_an_address_with_a_password_is_refused_and_not_repeated(url: str) -> None:
    """It would be in every message and in the list of processes."""
    with pytest.raises(ValueError, match="--unity is no address") as refused:
        UnityCatalog(url, "main", "events")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("page", [b"<html>log in</html>", b"[]", b"", b'{"tables": [{"properties": 1}]}'])
def test_what_is_no_answer_of_a_catalog_is_not_taken_for_an_empty_one(
    unity: FakeUnity, bench: CatalogBench, page: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proxy's page with status 200 is not a listing without tables, nor a table that was made."""
    unity.token = None
    unity.page = page or b" "
    assert main(["sync", *arguments(unity, bench)]) == 1
    assert ("can't be read" if b"tables" in page else "is this the address") in capsys.readouterr().err
    assert unity.calls == ["GET "]


def test_a_table_that_is_altered_stays_the_same_where_the_server_can_alter(
    unity: FakeUnity, bench: CatalogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its id, so rights on it stay; a server before 0.5.0 has another table then."""
    monkeypatch.setenv("TIDELOG_UNITY_TOKEN", SECRET)
    ids = []
    for flush_ms in (None, 10, 20):
        if flush_ms is not None:
            bench.alter("orders", flush_ms=flush_ms)
        assert main(["sync", *arguments(unity, bench)]) == 0
        assert unity.tables["orders"]["properties"].get("tidelog.flush.ms") == (flush_ms and str(flush_ms))
        ids.append(unity.tables["orders"]["table_id"])
        unity.can_alter = flush_ms is None
    assert ids[0] == ids[1] != ids[2]


def test_a_round_of_maintenance_syncs_too(
    unity: FakeUnity, bench: CatalogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``tidelog maintain --once --unity …`` leaves the topics in the catalog, and ends with 1 if the catalog is away."""
    monkeypatch.setenv("TIDELOG_UNITY_TOKEN", SECRET)
    once = [*arguments(unity, bench), "--once", "--workers", "local"]
    assert maintain(once) == 0
    assert unity.tables.keys() == {"orders"}
    unity.is_away = True
    assert maintain(once) == 1


def test_a_new_topic_is_shown_within_a_minute_and_other_news_within_minutes() -> None:
    """Each look lists the topics; a run follows a new topic or a run that failed, otherwise it comes every five minutes."""
    bench, catalog = CatalogBench(), MemoryCatalog()
    watch = CatalogWatch(bench.sync_to(catalog), bench.clock, bench.report)
    watch.step()
    bench.create("orders")
    assert LOOK_EVERY_MS < 60_000
    watch.step()
    assert catalog.tables.keys() == {"orders"}
    bench.alter("orders", flush_ms=10)
    bench.create("clicks")
    catalog.calls_left = 0
    watch.step()
    assert bench.report.events[-1][0] == "failed"
    catalog.calls_left = None
    watch.step()
    assert catalog.tables.keys() == {"orders", "clicks"}
    bench.delete("orders")
    watch.step()
    assert catalog.tables.keys() == {"orders", "clicks"}
    bench.clock.pass_ms(SYNC_EVERY_MS)
    watch.step()
    assert catalog.tables.keys() == {"clicks"}


def test_a_table_that_another_run_drops_at_the_same_time(unity: FakeUnity, bench: CatalogBench) -> None:
    """A server that then answers by an error does not end the run, as long as the table is gone."""
    catalog = UnityCatalog(unity.url, "main", "events", token=SECRET)
    assert bench.sync_to(catalog).run().done["create"] == 1
    unity.fails_to_drop = True
    with pytest.raises(CatalogUnavailable, match="another transaction"):
        catalog.drop("orders")
    unity.fails_to_drop = False
    catalog.drop("orders")
    assert list(catalog.list_tables()) == []
