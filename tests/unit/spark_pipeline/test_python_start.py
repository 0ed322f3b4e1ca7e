"""How Spark's Python processes start, in processes that are started as Spark starts them."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from spark_pipeline.registration import python_path

INSTALLED = Path(pyspark.__file__).parent
ARCHIVES = sorted(str(archive) for archive in (INSTALLED / "python" / "lib").glob("*.zip"))


def _printed(code: str, *paths: str) -> str:
    """What a new process prints that has these paths first, as Spark's workers have theirs."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert not done.stderr
    return done.stdout.strip()


WHERE = "import importlib.util; print(importlib.util.find_spec('pyspark').origin)"


def test_pyspark_is_the_installed_one() -> None:
    """Behind Spark's archives our directory is early enough; without it each process compiles what it imports of them."""
    assert ".zip" in _printed(WHERE, *ARCHIVES)
    assert _printed(WHERE, *ARCHIVES, python_path({})) == pyspark.__file__


def test_pyspark_is_the_installed_one_behind_a_link(tmp_path: Path) -> None:
    """Spark names its archives without the symbolic links by which this environment was called, or the other way round."""
    linked = tmp_path / "linked"
    linked.symlink_to(INSTALLED.parent)
    archives = [archive.replace(str(INSTALLED.parent), str(linked)) for archive in ARCHIVES]
    assert ".zip" in _printed(WHERE, *archives)
    assert _printed(WHERE, *archives, python_path({})) == pyspark.__file__


def test_what_looks_through_the_path_meets_no_archive() -> None:
    """As Spark's search for data sources: after ``invalidate_caches`` Python 3.13 can't tell what is in an archive."""
    walk = "import importlib, pkgutil; importlib.invalidate_caches(); print('py4j' in {m.name for m in pkgutil.iter_modules()})"
    assert _printed(walk, *ARCHIVES, python_path({})) == "True"
    assert _printed(f"import sys; print({{*sys.path}} & {{*{ARCHIVES}}})", *ARCHIVES, python_path({})) == "set()"


def test_the_directory_may_be_in_an_archive(tmp_path: Path) -> None:
    """So it is with ``--py-files``."""
    start = Path(python_path({}))
    with zipfile.ZipFile(tmp_path / "tidelog.zip", "w") as archive:
        archive.write(start / "sitecustomize.py", "spark_pipeline/python_start/sitecustomize.py")
    assert _printed(WHERE, *ARCHIVES, str(tmp_path / "tidelog.zip" / "spark_pipeline" / start.name)) == pyspark.__file__


def test_archives_of_another_spark_stay_where_they_are(tmp_path: Path) -> None:
    """Spark's own distribution has no installed twin of its archive, and a pyspark of pip's may be another version."""
    archive = tmp_path / "spark" / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    archive.symlink_to(INSTALLED / "python" / "lib" / "pyspark.zip")
    assert _printed("import sys; print(sys.path[1])", str(archive), python_path({})) == str(archive)


def test_another_sitecustomize_still_runs(tmp_path: Path) -> None:
    """Python runs the first that it finds; a coverage or tracing tool's may be the second."""
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['RAN'] = 'yes'\n")
    assert _printed("import os; print(os.environ['RAN'])", python_path({"PYTHONPATH": str(tmp_path)})) == "yes"


@pytest.mark.parametrize(("error", "is_quiet"), [("BrokenPipeError()", True), ("OSError('the disk')", False)])
def test_a_worker_that_java_has_left_ends_quietly(error: str, is_quiet: bool) -> None:
    """Spark's daemon prints what the last flush of a worker raised; other errors are still printed."""
    code = f"import traceback\ntry:\n    raise {error}\nexcept Exception:\n    traceback.print_exc()\n"
    environment = {**os.environ, "PYTHONPATH": python_path({})}
    command = [sys.executable, "-c", code, "pyspark.daemon"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert ("Traceback" not in done.stderr) is is_quiet
