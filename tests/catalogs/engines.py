"""Engines read one topic while it is written: each the same records, by number and CRC-32, at the same versions of its table.

The table is looked at ``LOOKS`` times, by PyIceberg, which makes the newest version a snapshot; deltalake reads each of these
versions from the bucket. Then each engine reads them by name, with a token of a caller that has no role on the bucket, while the
producer goes on. Each look has every record that was acknowledged before it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import delta_sharing
import polars
import pyarrow as pa

from tests.catalogs.lake import Lake
from tests.catalogs.programs.rows import Digest, digest
from tests.catalogs.trino import KEPT, is_there, s3_settings, trino
from tests.support.iceberg_reader import iceberg_catalog
from tests.support.waiting import until

PROGRAMS: Final = Path(__file__).parent / "programs"
LOOKS: Final = 3
LOOK_PAUSE_S: Final = 3.0
RECORDS_MIN: Final = 20
SECONDS_MAX: Final = 900
Found = Mapping[int, Digest]
"""What an engine read, by versions."""


def compare(lake: Lake, directory: Path) -> None:
    """Print what each engine reads, and raise ``AssertionError`` unless all agree."""
    until(lambda: lake.sent[0] >= RECORDS_MIN)
    looks = {}
    for _ in range(LOOKS):
        version, found = lake.looked()
        looks[version] = found
        time.sleep(LOOK_PAUSE_S)
    print(
        f"deltalake, versions and their rows: { {version: found.row_count for version, found in looks.items()} }",
        flush=True,
    )
    wrong = []
    for name, run in _engines(lake, directory).items():
        before = lake.sent[0]
        read = run(list(looks))
        said = "equal" if read == looks else f"NOT EQUAL: {read}"
        print(f"{name}: {said}, {lake.sent[0] - before} records came meanwhile", flush=True)
        wrong += [name] if read != looks else []
    assert not wrong, wrong


def _engines(lake: Lake, directory: Path) -> dict[str, Callable[[list[int]], Found]]:
    found: dict[str, Callable[[list[int]], Found]] = {
        "PyIceberg, by manifests": lambda versions: _by_pyiceberg(lake, versions),
        "PyIceberg, planned by the gateway": lambda versions: _by_pyiceberg(lake, versions, planned=True),
        "polars, by the Iceberg catalog": lambda versions: _by_polars(lake, versions),
        "pandas, by Delta Sharing": lambda versions: _by_sharing(lake, directory, versions),
        "DuckDB 1.5.5, by the Iceberg catalog": _program(lake, "duckdb_iceberg", "duckdb"),
        "DataFusion 55, by the Iceberg catalog": _program(lake, "datafusion_iceberg", "datafusion"),
    }
    jars = ",".join(map(str, sorted((KEPT / "jars-spark").glob("*.jar"))))
    for delegation in ("vended-credentials", "remote-signing"):
        more = {"JARS": jars, "DELEGATION": delegation}
        found[f"Spark 4.1, by the Iceberg catalog, {delegation}"] = _program(lake, "spark", "spark", **more)
    if (KEPT / "flink").is_dir():
        places = {"CLASSPATH": f"{KEPT / 'flink'}:{KEPT / 'jars-flink'}/*"}
        found["Flink 2.1, by the Iceberg catalog"] = _program(lake, "flink", None, **places)
    if is_there():
        found["Trino 476, by the Iceberg catalog"] = lambda versions: _by_trino(lake, directory, versions)
    return found


def _program(lake: Lake, name: str, interpreter: str | None, **more: str) -> Callable[[list[int]], Found]:
    """Return a call that runs a program on the topic. It gets no credential but the token."""
    return program(name, interpreter, URL=lake.secured.url, TOKEN=lake.token, TOPIC=lake.topic, **more)


def program(name: str, interpreter: str | None, **given: str) -> Callable[[list[int]], Found]:
    """Return a call that runs a program of ``programs`` with an interpreter of its own (None: any), and what is given to it."""
    python = "python3" if interpreter is None else str(KEPT / interpreter / "bin" / "python")

    def run(versions: list[int]) -> Found:
        return {version: Digest(count, crc) for version, count, crc in run_program(python, name, versions, given)}

    return run


def run_program(python: str, name: str, versions: Sequence[int], given: Mapping[str, str]) -> list[list[Any]]:
    """Run a program of ``PROGRAMS`` on these versions; return its lines that are lists in JSON. ``given``: its environment."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "JAVA_HOME", "LANG") if key in os.environ}
    command = [python, str(PROGRAMS / f"{name}.py"), *map(str, versions)]
    made = subprocess.run(
        command, env=kept | dict(given), capture_output=True, text=True, check=False, timeout=SECONDS_MAX
    )
    assert made.returncode == 0, f"{name}: {made.stderr[-3_000:]}"
    return [json.loads(line) for line in made.stdout.splitlines() if line.startswith("[")]


def _of_arrow(rows: pa.Table) -> Digest:
    columns = [rows.column(name).to_pylist() for name in ("partition", "offset", "timestamp", "key", "value")]
    return digest(zip(*columns, strict=True))


def _by_pyiceberg(lake: Lake, versions: list[int], *, planned: bool = False) -> Found:
    more = {"scan-planning-mode": "server"} if planned else {}
    catalog = iceberg_catalog(lake.secured.url, token=lake.token, **more)
    table = catalog.load_table(("topics", lake.topic))
    return {version: _of_arrow(table.scan(snapshot_id=version).to_arrow()) for version in versions}


def _by_polars(lake: Lake, versions: list[int]) -> Found:
    table = iceberg_catalog(lake.secured.url, token=lake.token).load_table(("topics", lake.topic))
    return {
        version: _of_arrow(
            polars.scan_iceberg(table, snapshot_id=version, reader_override="pyiceberg").collect().to_arrow()
        )
        for version in versions
    }


def profile(lake: Lake, directory: Path) -> str:
    """Return the path of a profile file of Delta Sharing with the lake's token, in the directory."""
    place = directory / "tidelog.share"
    said = {"shareCredentialsVersion": 1, "endpoint": f"{lake.secured.url}/delta-sharing", "bearerToken": lake.token}
    place.write_text(json.dumps(said))
    return str(place)


def _by_sharing(lake: Lake, directory: Path, versions: list[int]) -> Found:
    url = f"{profile(lake, directory)}#tidelog.topics.{lake.topic}"
    found = {}
    for version in versions:
        frame = delta_sharing.load_as_pandas(url, version=version)
        names = ("partition", "offset", "timestamp", "key", "value")
        found[version] = digest(zip(*(pa.Array.from_pandas(frame[name]).to_pylist() for name in names), strict=True))
    return found


def _by_trino(lake: Lake, directory: Path, versions: list[int]) -> Found:
    catalog = {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": f"{lake.secured.url}/iceberg",
        "iceberg.rest-catalog.security": "OAUTH2",
        "iceberg.rest-catalog.oauth2.token": lake.token,
        "iceberg.rest-catalog.vended-credentials-enabled": "true",
        **s3_settings(lake.minio.url),
    }
    with trino(directory, {"tidelog": catalog}) as server:
        return _program(lake, "trino", None, TRINO=server.url)(versions)
