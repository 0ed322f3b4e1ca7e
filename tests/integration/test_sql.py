"""SQL at a gateway in use: what a hostile statement gets, what others feel of it, and what is left of its process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from gateway.process.sql_statement import restrict_process, statement_command, statement_environment
from gateway.sql.settings import PROCESS_BYTES
from gateway.sql.task import CPU_S_MAX
from tests.support.command_runs import runner
from tests.support.gateway_process import GatewayProcess, running_gateway
from tests.support.secured import secured_gateway
from tests.support.waiting import until

HEALTH_S_MAX = 0.25
LOOK_SECONDS = 0.03
COUNT = 1_000
STARTED_CPU_S_MAX = 5
"""Of a processor, for the libraries of a statement's process, on a busy machine."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """With a topic ``t`` of two partitions and 1,000 records; its environment has a secret."""
    directory = tmp_path_factory.mktemp("sql")
    secret = {"AWS_SECRET_ACCESS_KEY": "hidden"}
    with running_gateway(directory / "store", directory / "log", environment=secret) as started:
        made = started.http.post("/v1/topics", json={"name": "t", "partition_count": 2, "config": {"flush.ms": 0}})
        assert made.status_code == 201
        records = [
            {"key": f"k{n % 7}", "value": json.dumps({"n": n}), "timestamp": 1_700_000_000_000 + n}
            for n in range(COUNT)
        ]
        assert started.http.post("/v1/topics/t/records", json={"records": records}).status_code == 200
        yield started


def asked(gateway: GatewayProcess, sql: str) -> httpx.Response:
    return httpx.post(f"{gateway.url}/v1/sql", json={"sql": sql}, timeout=100, trust_env=False)


def processes(gateway: GatewayProcess) -> list[psutil.Process]:
    """Of statements."""

    def is_one(process: psutil.Process) -> bool:
        try:
            return "gateway.process.sql_statement" in process.cmdline()
        except psutil.Error:  # it has just ended
            return False

    return [each for each in psutil.Process(gateway.process.pid).children() if is_one(each)]


@contextmanager
def healthy(gateway: GatewayProcess) -> Iterator[None]:
    """Meanwhile ``/healthz`` answers in time. The median of five looks around the slowest is judged: a machine may pause."""
    took: list[float] = []
    ended = threading.Event()

    def look() -> None:
        with httpx.Client(base_url=gateway.url, trust_env=False, timeout=30) as client:
            while not ended.is_set():
                began = time.monotonic()
                assert client.get("/healthz").status_code == 200
                took.append(time.monotonic() - began)
                ended.wait(LOOK_SECONDS)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
    medians = [sorted(took[first : first + 5])[2] for first in range(len(took) - 4)]
    assert max(medians) < HEALTH_S_MAX


def test_a_hog_of_a_processor_ends_and_is_felt_by_no_one(gateway: GatewayProcess) -> None:
    """As others. The limit that its process has set itself is seen, and then made shorter, for a test."""
    sql = "with recursive x as (select 1 as a from t union all select a + 1 from x) select count(*) from x where a < 0"
    with ThreadPoolExecutor(1) as pool, healthy(gateway):
        answer = pool.submit(asked, gateway, sql)
        process = running(gateway)
        until(lambda: process.rlimit(psutil.RLIMIT_CPU)[0] != psutil.RLIM_INFINITY)
        limits = process.rlimit(psutil.RLIMIT_CPU)
        assert CPU_S_MAX <= limits[0] == limits[1] < CPU_S_MAX + STARTED_CPU_S_MAX
        shorter = limits[0] - CPU_S_MAX + 2
        process.rlimit(psutil.RLIMIT_CPU, (shorter, shorter))
        began = time.monotonic()
        refused_by_a_limit(gateway, answer.result())
    assert time.monotonic() - began > 0.5


@pytest.mark.parametrize(
    "sql",
    [
        "select value, range from t, range(100000000) order by random()",
        "select repeat(value, 100000000) from t",
        "select sleep_ms(600000) from t",
    ],
    ids=["sorts", "has large values", "waits"],
)
def test_a_hog_ends_and_is_felt_by_no_one(gateway: GatewayProcess, sql: str) -> None:
    """It is refused with words by its limits of memory and of time. ``/healthz`` answers meanwhile, and no process is left."""
    began = time.monotonic()
    with healthy(gateway):
        answer = asked(gateway, sql)
    assert time.monotonic() - began < 100
    refused_by_a_limit(gateway, answer)


def refused_by_a_limit(gateway: GatewayProcess, answer: httpx.Response) -> None:
    """With words; nothing is left of its process, and the next statement is answered."""
    assert (answer.status_code, answer.json()["error_code"]) == (400, "INVALID_REQUEST"), answer.text
    assert "SET " not in answer.text
    assert processes(gateway) == []
    assert asked(gateway, "select count(*) from t").json()["rows"] == [[COUNT]]


def test_a_huge_answer_is_cut(gateway: GatewayProcess) -> None:
    """It costs no more than what is sent of it."""
    with healthy(gateway):
        answer = asked(gateway, "select a.* from t a, t b, range(1000000000000)")
    assert answer.status_code == 200
    assert (len(answer.json()["rows"]), answer.json()["more"]) == (1_000, True)
    assert processes(gateway) == []


def test_eight_at_once(gateway: GatewayProcess) -> None:
    """One after the other, each in a process of its own; others go on."""
    counts: list[int] = []
    with ThreadPoolExecutor(8) as pool, healthy(gateway):
        answers = [pool.submit(asked, gateway, "select count(*) from t") for _ in range(8)]
        while not all(answer.done() for answer in answers):
            counts.append(len(processes(gateway)))
            time.sleep(LOOK_SECONDS)
    results = [answer.result() for answer in answers]
    assert {result.status_code for result in results} <= {200, 503}, [result.text for result in results]
    assert [result for result in results if result.status_code == 200]
    assert max(counts) <= 1
    assert processes(gateway) == []


def running(gateway: GatewayProcess) -> psutil.Process:
    """The process of the statement that runs."""
    until(lambda: processes(gateway))
    return processes(gateway)[0]


def test_a_process_yields_to_its_gateway_and_hears_no_ctrl_c(gateway: GatewayProcess) -> None:
    """As a reader of history: a nice value counts in the gateway's session alone, and a terminal's keys reach a process group."""
    own = gateway.process.pid
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(asked, gateway, "select sleep_ms(600000) from t")
        process = running(gateway)
        until(lambda: os.getpgid(process.pid) == process.pid)
        until(lambda: process.nice() == min(19, os.getpriority(os.PRIO_PROCESS, own) + 10))
        assert os.getsid(process.pid) == os.getsid(own)
        assert os.getpgid(own) != process.pid
        process.kill()
        assert answer.result().status_code == 400


def test_a_process_that_is_killed_is_told(gateway: GatewayProcess) -> None:
    """By the system where memory is short, say. The next statement is answered."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(asked, gateway, "select sleep_ms(600000) from t")
        running(gateway).kill()
        assert answer.result().status_code == 400
        assert "was ended" in answer.result().json()["detail"]
    assert asked(gateway, "select count(*) from t").status_code == 200


def test_a_caller_that_goes_away_ends_its_process(gateway: GatewayProcess) -> None:
    """At once: others wait for their turn."""
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{gateway.url}/v1/sql", json={"sql": "select sleep_ms(600000) from t"}, timeout=3, trust_env=False)
    until(lambda: not processes(gateway), 10)
    assert asked(gateway, "select count(*) from t").status_code == 200


def spent(process: psutil.Process) -> float | None:
    """Seconds of a processor; None where it is gone."""
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.cpu_times().user
    except psutil.NoSuchProcess:
        return None


def test_no_process_outlives_its_gateway(tmp_path: Path) -> None:
    """However the gateway ends: its statement ends at once, and not by its own limits."""
    with running_gateway(tmp_path / "store", tmp_path / "log") as started:
        started.http.post("/v1/topics", json={"name": "t", "config": {"flush.ms": 0}})
        started.http.post("/v1/topics/t/records", json={"records": [{"value": "v"}]})
        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(asked, started, "select count(*) from t, range(100000000000)")
            left = running(started)
            until(lambda: left.status() == psutil.STATUS_RUNNING and left.cpu_times().user > 0.5, 60)
            started.kill()
            with pytest.raises(httpx.HTTPError):
                lost.result()
        until(lambda: (seconds := spent(left)) is None or seconds > CPU_S_MAX / 2, 60)
        assert spent(left) is None


def test_a_process_knows_no_secret_and_holds_little(gateway: GatewayProcess) -> None:
    """It has none of its gateway's environment but what Python needs; it yields; its memory is bounded by the system; and it has
    no library that it has no use of."""
    libraries: set[str] = set()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(asked, gateway, "select list(value) from (select value from t, range(100000))")
        process, peak = running(gateway), 0
        environment = process.environ()
        while not answer.done():
            try:
                peak = max(peak, process.memory_info().rss)
                nice = process.nice()
                libraries |= {each.path for each in process.memory_maps()}
            except psutil.NoSuchProcess:
                break
            time.sleep(LOOK_SECONDS)
        assert answer.result().json()["error_code"] == "INVALID_REQUEST"
    assert "hidden" not in str(environment)
    assert not [name for name in environment if name.startswith(("TIDELOG_", "AWS_"))]
    assert nice >= 10
    assert [name for name in ("duckdb", "pandas") if any(name in path for path in libraries)] == ["duckdb"]
    assert 0 < peak < PROCESS_BYTES


def test_the_system_refuses_what_a_statement_has_no_need_of(tmp_path: Path) -> None:
    """Whatever DuckDB would do: behind the fence no file is opened, no socket made, nothing written, no program started."""
    tried = f"""
import os, resource, socket, subprocess
from gateway.process.sql_statement import restrict_process
written = os.open({str(tmp_path / "x")!r}, os.O_CREAT | os.O_WRONLY)
restrict_process()
def fails(what):
    try:
        what()
    except OSError:
        return
    os.write(2, b"it was let")
    os._exit(1)
fails(lambda: open("/etc/passwd"))
fails(lambda: open({str(tmp_path / "y")!r}, "w"))
fails(lambda: socket.socket())
fails(lambda: os.write(written, b"x"))
fails(lambda: subprocess.run(["/bin/true"]))
try:
    held = bytearray(1 << 30)
except MemoryError:
    os._exit(42)
"""
    ended = subprocess.run([sys.executable, "-c", tried], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (42, b"")
    assert restrict_process.__module__ == statement_command()[-1]
    assert set(statement_environment({"PATH": "p", "TIDELOG_TOKEN": "t"})) & {"PATH", "TIDELOG_TOKEN"} == {"PATH"}


def test_topics_are_read_with_their_right(tmp_path: Path) -> None:
    """403 for each one that the caller may not read, wherever the statement has it, and whether it is there or not."""
    with secured_gateway(tmp_path) as (secured, _):
        for topic in ("mine", "other"):
            secured.admin.http.post("/v1/topics", json={"name": topic, "config": {"flush.ms": 0}})
            secured.admin.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": topic}]})
        principal, api = secured.user()
        secured.allow(principal, "Read", "topic", "mine")
        for sql in (
            "select * from other",
            "select * from mine, other",
            "select (select max(value) from other) from mine",
            "select * from mine where value in (from other select value)",
            "with mine as (select * from other) select * from mine",
            "select * from mine semi join other using (partition)",
            "select * from mine union all by name from other",
            'select * from mine, "not-there"',
        ):
            problem = api.refused(api.http.post("/v1/sql", json={"sql": sql}), 403, "UNAUTHORIZED")
            assert problem["resource"] in ("other", "not-there")
        assert api.http.post("/v1/sql", json={"sql": "select value from mine"}).json()["rows"] == [["mine"]]


@pytest.mark.parametrize(
    "sql",
    [
        'select * from t order by partition, "offset" limit 20',
        "select key, count(*), sum((value->>'n')::int), max(timestamp) from t group by 1 order by 1",
        "select count(*) filter (where value_bytes = value::blob), any_value(headers) from t",
        "with big as (select * from t where (value->>'n')::int > 990) select b.* from big b order by all",
        "select 'nan'::double, 1.5::decimal(4, 1), now() > max(timestamp), interval 2 hour, [1], {'a': 1} from t",
        "select unnest([1, 2]), (select count(*) from t)",
    ],
)
def test_the_command_line_answers_the_same(gateway: GatewayProcess, sql: str) -> None:
    """Row for row, by the columns' names."""
    told = runner(gateway.url)("sql", sql, "--json")
    assert told.exit_code == 0, told.stderr
    answer = asked(gateway, sql).json()
    names = [column["name"] for column in answer["columns"]]
    assert [dict(zip(names, row, strict=True)) for row in answer["rows"]] == [
        json.loads(line) for line in told.stdout.splitlines()
    ]


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    """404, with words."""
    with running_gateway(tmp_path / "store", tmp_path / "log", "--sql", "off") as started:
        answer = started.http.post("/v1/sql", json={"sql": "select 1"})
        assert (answer.status_code, answer.json()["error_code"]) == (404, "NOT_FOUND")
        assert "setting sql" in answer.json()["detail"]
