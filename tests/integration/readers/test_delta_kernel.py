"""Delta's Java kernel, on which other connectors are built, sees log, archive, pins and clones as other readers do.

It comes with Spark's jars. The tables are those of ``tests/golden/tables``: rows have left the log, a key is erased, a version is
pinned, and a clone was made.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable

from spark_pipeline.jars import JarSet, ensure_jars

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[2] / "golden" / "tables" / "1"
PINNED = 6

Rows = list[tuple[int, int, bytes | None, bytes | None]]


def read_by_kernel(*versions: tuple[Path, int | None]) -> list[Rows]:
    """The rows of each version of a table, sorted; None: the newest."""
    jars = [*map(str, ensure_jars(JarSet.DELTA)), f"{Path(pyspark.__file__).parent}/jars/*"]
    arguments = [
        text for path, version in versions for text in (str(path), "newest" if version is None else str(version))
    ]
    program = str(Path(__file__).with_name("ReadByKernel.java"))
    done = subprocess.run(
        ["java", "-XX:+UseSerialGC", "-cp", ":".join(jars), program, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Rows] = [[]]
    for line in done.stdout.splitlines():
        if line == "end":
            found.append([])
            continue
        partition, offset, *texts = line.split(" ")
        key, value = (None if text == "-" else bytes.fromhex(text[1:]) for text in texts)
        found[-1].append((int(partition), int(offset), key, value))
    return [sorted(rows, key=lambda row: row[:2]) for rows in found[:-1]]


def read_by_deltalake(path: Path, version: int | None) -> Rows:
    """The same by deltalake."""
    table = DeltaTable(path, version=version).to_pyarrow_table()
    columns = (table.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
    return sorted(zip(*columns, strict=True), key=lambda row: row[:2])


def test_the_kernel_reads_every_row_of_every_version(tmp_path: Path) -> None:
    """Log and archive as one table, without what is erased; a pinned version whose neighbours in the log are gone; a clone whose
    source is gone."""
    source, alone = tmp_path / "store", tmp_path / "alone"
    shutil.copytree(GOLDEN, source)
    shutil.copytree(GOLDEN / "topics" / "copy", alone)
    shutil.copytree(GOLDEN / "topics" / "t", tmp_path / "gap")
    for commit in (tmp_path / "gap" / "_delta_log").glob("*.json"):
        if int(commit.stem) != PINNED:
            commit.unlink()
    versions = [(source / "topics" / "t", None), (tmp_path / "gap", PINNED), (alone, None)]
    found = read_by_kernel(*versions)
    assert found == [read_by_deltalake(path, version) for path, version in versions]
    assert [len(rows) for rows in found] == [7, 5, 5]
    assert [value for *_, key, value in found[0] if key == b"anna"] == [None, b"anna-later", None]
