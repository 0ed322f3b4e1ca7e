"""Gateways of two versions on one bucket: one after another is replaced under load, and no client notices.

The older version is the newest release (a tag such as ``v1.2.3``) behind this commit, or, while there is none, the last commit
that is an hour older than this one and can be run; where the history is not there, this version itself. It is taken from git
and run from a directory of its own.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from log_format.clock import SystemClock
from log_format.errors import TidelogError
from log_format.inspection.verify import verify_topic
from log_format.stores import open_store
from tests.support.extracted import extract
from tests.support.gateway_process import GatewayProcess, running_gateways
from tests.support.registry import record
from tests.support.shared_bench import SharedBench
from tests.support.typed_topic import register_schema
from tidelog import Admin, Consumer, Producer

ROOT = Path(__file__).resolve().parents[2]
PRODUCERS = 2
RECORDS_BETWEEN = 10
"""Acknowledged by each producer between two steps of the upgrade."""
TRANSACTIONS_BETWEEN = 3
"""Committed by the copier meanwhile, each with offsets of its group."""
SECONDS_MAX = 90
PAUSE_S = 0.1
"""Of a producer between two records, and of the copier between two transactions: about as long as one takes."""


_RELEASE = re.compile(r"v\d+\.\d+\.\d+")
"""A tag of a release, and of no candidate for one."""


def _git(*arguments: str) -> bytes:
    command = ["git", "-c", "safe.directory=*", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=60).stdout


def older_commits() -> Iterator[str]:
    """What the older gateways may run, the first that does: between releases there are commits of half a change."""
    tags = (
        _git("tag", "--list", "v*", "--sort=-version:refname", "--merged", "HEAD", "--no-contains", "HEAD")
        .decode()
        .split()
    )
    seconds = int(_git("log", "-1", "--format=%ct").decode())
    commits = _git("rev-list", "-256", f"--before={seconds - 3600}", "HEAD").decode().split()
    yield from [tag for tag in tags if _RELEASE.fullmatch(tag)][:1]
    yield from (commits[(1 << step) - 1] for step in range(len(commits).bit_length()))
    yield "HEAD"


def _extracted(commit: str, directory: Path) -> Path:
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "gateway", "log_format"))) as archive:
        extract(archive, directory)
    return directory


@pytest.fixture(scope="module")
def before_journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the last version without journals; where the history does not go back so far, this one with that version's
    bound on a table's protocol."""
    directory = tmp_path_factory.mktemp("before_journals")
    first = _git("log", "-1", "--format=%H", "--diff-filter=A", "--", "log_format/journal/__init__.py").decode().strip()
    parents = _git("rev-list", "--parents", "-1", first).decode().split()[1:] if first else []
    if parents:
        return _extracted(parents[0], directory)
    features = _extracted("HEAD", directory) / "log_format/delta/features.py"
    text = features.read_text()
    for now in ("WRITER_VERSION: Final = 7", "_LEGACY_WRITER_VERSION: Final = 3"):
        assert f"\n{now}" in text
        text = text.replace(f"\n{now}", f"\n{now[:-1]}2")
    features.write_text(text)
    return directory


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the older version."""
    for commit in older_commits():
        directory = _extracted(commit, tmp_path_factory.mktemp("older"))
        command = [sys.executable, "-c", "import gateway.__main__"]
        environment = {**os.environ, "PYTHONPATH": str(directory)}
        tried = subprocess.run(command, cwd=directory, env=environment, capture_output=True, timeout=120, check=False)
        if tried.returncode == 0:
            return directory
    raise AssertionError("no commit can be run, not even this one")


@dataclass
class Gateways:
    """Processes on one store."""

    store_uri: str
    logs: Path
    running: list[GatewayProcess]

    def start(self, sources: Path, port: int = 0, **settings: str) -> str:
        """One more, of these sources; its URL once it is ready. Settings that the sources don't know are passed over. One of this
        version is a fork."""
        given = {f"TIDELOG_{name.upper()}": value for name, value in settings.items()}
        environment = {**os.environ, "PYTHONPATH": str(sources), **given}
        directory = None if sources == ROOT else sources
        if directory is not None:
            check = "import gateway, sys; assert gateway.__file__.startswith(sys.argv[1]), gateway.__file__"
            command = [sys.executable, "-c", check, str(sources)]
            subprocess.run(command, cwd=sources, env=environment, check=True, timeout=60)
        log = self.logs / f"{len(list(self.logs.iterdir()))}.log"
        options = ("--heartbeat-ms", "500", "--port", str(port))
        gateway = GatewayProcess(self.store_uri, log, *options, environment=environment, directory=directory)
        self.running.append(gateway)
        assert gateway.http.get("/readyz").status_code == 200
        return gateway.url

    def replace_oldest(self, sources: Path) -> None:
        """SIGTERM to the one that runs longest, which must drain and end well; then another at its address."""
        gateway = self.running.pop(0)
        assert gateway.end() == 0
        self.start(sources, gateway.port, journals="off")


@pytest.fixture
def gateways(s3_uri: str, tmp_path: Path) -> Iterator[Gateways]:
    """None yet, on an empty bucket."""
    logs = tmp_path / "logs"
    logs.mkdir()
    with running_gateways() as running:
        yield Gateways(s3_uri, logs, running)


class Load:
    """Producers that send record after record, each soon after the last one is acknowledged, and a copier: a member of a consumer
    group that writes what it reads to another topic, in transactions with its offsets. Until told to stop."""

    def __init__(self, urls: list[str]) -> None:
        self._urls = urls
        self._ending = threading.Event()
        self._all_is_sent = threading.Event()
        self.acknowledged: list[list[str]] = [[] for _ in range(PRODUCERS)]
        self.transactions: list[int] = []
        """How many records each has copied."""
        self.errors: list[TidelogError] = []
        self._sending = [self._started(partial(self._send, number)) for number in range(PRODUCERS)]
        self._copying = [self._started(self._copy)]

    def _started(self, work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=self._until_it_fails, args=(work,), daemon=True)
        thread.start()
        return thread

    def _until_it_fails(self, work: Callable[[], None]) -> None:
        try:
            work()
        except TidelogError as error:
            self.errors.append(error)

    def _send(self, number: int) -> None:
        with Producer(self._urls, linger_ms=0) as producer:
            while not self._ending.is_set():
                value = f"{number}:{len(self.acknowledged[number])}"
                producer.send("orders", value, key=str(number)).result(SECONDS_MAX)
                self.acknowledged[number].append(value)
                self._ending.wait(PAUSE_S)

    def _copy(self) -> None:
        with (
            Producer(self._urls, transactional_id="copier", linger_ms=0) as producer,
            Consumer("orders", group="copiers", bootstrap_servers=self._urls, enable_auto_commit=False) as consumer,
        ):
            while not self._all_is_sent.is_set() or sum(self.transactions) < sum(map(len, self.acknowledged)):
                records = consumer.poll(timeout_ms=200)
                if not records:
                    continue
                with producer.transaction():
                    for record in records:
                        producer.send("copied", record.value, key=record.key)
                    producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
                self.transactions.append(len(records))
                self._all_is_sent.wait(PAUSE_S)

    def _counts(self) -> list[int]:
        return [*map(len, self.acknowledged), len(self.transactions)]

    def go_on(self) -> None:
        """Return when each producer has had more records acknowledged and the copier has copied more, or one has failed."""
        more = [RECORDS_BETWEEN] * PRODUCERS + [TRANSACTIONS_BETWEEN]
        wanted = [count + least for count, least in zip(self._counts(), more, strict=True)]
        deadline = time.monotonic() + SECONDS_MAX
        while not self.errors and any(count < least for count, least in zip(self._counts(), wanted, strict=True)):
            assert time.monotonic() < deadline, self._counts()
            self._ending.wait(0.05)

    def end(self) -> None:
        """Stop; every request has had its answer, and all that was sent is copied."""
        for told, threads in ((self._ending, self._sending), (self._all_is_sent, self._copying)):
            told.set()
            for thread in threads:
                thread.join(SECONDS_MAX)
                assert not thread.is_alive()


def test_gateways_are_replaced_one_after_another(gateways: Gateways, older: Path) -> None:
    """Two older gateways give way to two of this version. Then, as when a release is taken back, older ones return.

    No request fails in the SDK. No record is lost or there twice, and each producer's records keep their order. The
    same holds for what a consumer group copies in transactions: its offsets and its records stay together. While an
    operator may take the release back, it keeps topics from journals (docs/operations.md, "Journals").
    """
    urls = [gateways.start(older), gateways.start(older)]
    with Admin(urls) as admin:
        for name in ("orders", "copied"):
            admin.create_topic(name, 2, config={"flush.ms": 20})
    load = Load(urls)
    try:
        load.go_on()
        for sources in (ROOT, ROOT, older):
            gateways.replace_oldest(sources)
            load.go_on()
    finally:
        load.end()
    assert load.errors == []
    count = sum(map(len, load.acknowledged))
    urls = [gateway.url for gateway in gateways.running]
    for topic in ("orders", "copied"):
        read = _read_all(urls, topic, count)
        for number, values in enumerate(load.acknowledged):
            assert [value for value in read if value.startswith(f"{number}:")] == values, topic
        assert verify_topic(open_store(gateways.store_uri), topic, clock=SystemClock()).ok
    with Admin(urls) as admin:
        assert admin.group_lag("copiers").total == 0


def _read_all(urls: list[str], topic: str, count: int) -> list[str]:
    read: list[str] = []
    with Consumer(topic, bootstrap_servers=urls, auto_offset_reset="earliest") as consumer:
        idle = 0
        while len(read) < count or idle < 2:
            found = consumer.poll(timeout_ms=500)
            read += [record.value.decode() for record in found if record.value is not None]
            idle = idle + 1 if not found else 0
            assert idle < 20, (len(read), count)
    return read


def _unlike(gateway: GatewayProcess, method: str, path: str, status: int, code: str, **more: object) -> None:
    """The call is refused with this code, and nothing happened."""
    answer = gateway.http.request(method, path, **more)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["error_code"]) == (status, code), answer.text
    assert answer.json()["may_have_happened"] is False


def test_no_topic_goes_to_a_journal_beside_an_older_gateway(gateways: Gateways, before_journals: Path) -> None:
    """Its heartbeat does not say that it serves such topics. When it is gone, they go."""
    gateways.start(before_journals, journals="off")
    gateways.start(ROOT)
    old, new = gateways.running
    deadline = time.monotonic() + SECONDS_MAX
    while len(new.http.get("/v1/cluster").json()["gateways"]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    wanted = {"name": "quiet", "config": {"commit.mode": "shared"}}
    _unlike(new, "POST", "/v1/topics", 503, "UNAVAILABLE", json=wanted)
    assert new.http.get("/v1/topics/quiet").status_code == 404
    assert old.end() == 0
    while (made := new.http.post("/v1/topics", json=wanted)).status_code == 503:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert made.json()["commit"]["mode"] == "shared"


def test_an_older_gateway_never_appends_beside_a_journal(
    gateways: Gateways, before_journals: Path, tmp_path: Path
) -> None:
    """One that the new gateway does not see, since it has another key, and that knows the topic with its own commits. It refuses
    the topic once that is at a journal, and also when the topic has left; its other topics go on."""
    key = tmp_path / "cluster.key"
    key.write_text("k" * 64)
    key.chmod(0o600)
    gateways.start(before_journals, forwarding="off", cluster_key_file=str(key))
    gateways.start(ROOT)
    old, new = gateways.running
    old.topic("quiet")
    old.topic("other")
    assert old.produce("quiet", "0").status_code == 200
    store = open_store(gateways.store_uri)

    def refuses() -> None:
        commits = [info.key for info in store.list("topics/quiet/_delta_log/")]
        body = {"records": [{"value": "lost"}]}
        for _ in range(2):
            _unlike(old, "POST", "/v1/topics/quiet/records", 500, "UNSUPPORTED_TABLE", json=body)
            _unlike(old, "GET", "/v1/topics/quiet/partitions/0/offsets", 500, "UNSUPPORTED_TABLE")
        assert [info.key for info in store.list("topics/quiet/_delta_log/")] == commits
        assert old.produce("other", "x").status_code == 200

    changed = new.http.patch("/v1/topics/quiet", json={"config": {"commit.mode": "shared"}}).json()
    assert changed["commit"]["mode"] == "shared", changed
    refuses()
    assert new.produce("quiet", "1").json()["partitions"][0]["base_offset"] == 1
    refuses()
    changed = new.http.patch("/v1/topics/quiet", json={"config": {"commit.mode": "own"}}).json()
    assert changed["commit"]["mode"] == "own", changed
    refuses()
    assert new.produce("quiet", "2").json()["partitions"][0]["base_offset"] == 2
    assert [value for _, value in new.read("quiet")] == ["0", "1", "2"]
    assert new.http.get("/v1/topics").json()["topics"][0]["name"] == "other"


READ_JOURNAL = """
import sys
from log_format.checkpoints.journal_log import JournalLogs
from log_format.clock import SystemClock
from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.stores import open_store

store = open_store(sys.argv[1])
state = JournalLogs(store, SystemClock()).get(0).refresh()
(topic,) = state.topics.by_id.values()
for ref, runs in state.runs.of(topic.topic_id).parts():
    for run in runs:
        place = JournalRunRef(0, ref, topic.topic_id, run.partition, run.base_offset)
        print(JournalReader(store, cache_bytes=1 << 20).read(place).column("value").to_pylist())
"""


def test_a_release_before_typed_topics_at_journals_reads_their_objects(tmp_path: Path) -> None:
    """It does not know by which schemas the records were judged, and gives the other topics of the object to their readers."""
    first = _git("log", "-1", "--format=%H", "--diff-filter=A", "--", "log_format/records/document_schemas.py").decode()
    parents = _git("rev-list", "--parents", "-1", first.strip()).decode().split()[1:] if first.strip() else []
    sources = _extracted(parents[0] if parents else "HEAD", tmp_path / "older")
    store = str(tmp_path / "store")
    register_schema(store, "t-value", record("Order", id="long"))
    shared = SharedBench(open_store(store))
    shared.create("t", value_schema="t-value")
    shared.flush({"t": [b'{"id":1}', b'{"id":2}']})
    objects = [info.key for info in shared.store.list("system/journals/0/segments/")]
    assert [b"tidelog.documents" in shared.store.get(key) for key in objects] == [True]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    command = [sys.executable, "-c", READ_JOURNAL, store]
    read = subprocess.run(command, cwd=sources, env=environment, capture_output=True, timeout=120, check=False)
    assert read.returncode == 0, read.stderr.decode()
    assert read.stdout.decode().split("\n")[0] == repr([b'{"id":1}', b'{"id":2}'])
