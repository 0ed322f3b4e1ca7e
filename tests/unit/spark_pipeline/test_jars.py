"""The jars' cache: pinned, verified, all or nothing, and quiet once filled."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spark_pipeline import jars
from spark_pipeline.jars import Jar, JarSet, JarsUnavailable, ensure_jars, jars_directory, locked_jars, parse_lock
from spark_pipeline.java import JavaMissing, java_executable


def pin(name: str, content: bytes) -> Jar:
    return Jar("org.example", name, "1.0", hashlib.sha256(content).hexdigest())


def fake_java(directory: Path, script: str) -> None:
    """A `java` that says it is version 17 and otherwise runs the script, with the work directory of the fetch as $work."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && { echo \'openjdk version "17.0.1"\' >&2; exit 0; }\n'
        'for word in "$@"; do pattern=$word; done\nwork=$(dirname "$(dirname "$pattern")")\n' + script
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return tmp_path / "java"


@pytest.fixture
def one_jar(monkeypatch: pytest.MonkeyPatch) -> Jar:
    jar = pin("one", b"content")
    monkeypatch.setattr(jars, "locked_jars", lambda jar_set: (jar,))
    return jar


def test_the_lock_pins_every_jar_once_and_s3_includes_delta() -> None:
    """What is fetched is decided by the project: each jar has one version and a checksum, and S3's set reads Delta too."""
    delta, s3 = locked_jars(JarSet.DELTA), locked_jars(JarSet.S3)
    assert set(delta) < set(s3)
    assert len({(jar.group, jar.artifact) for jar in s3}) == len(s3)
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in s3)
    named = {f"{jar.group}:{jar.artifact}:{jar.version}" for jar in s3}
    assert {"io.delta:delta-spark_4.2_2.13:4.4.0", "org.apache.hadoop:hadoop-aws:3.5.0"} <= named


def test_nothing_is_pinned_that_spark_ships() -> None:
    """A jar that Spark has is never loaded from here, so fetching it would be for nothing, and hide which version runs."""
    shipped = [path.name for path in jars._ivy_jar().parent.glob("*.jar")]
    for jar in locked_jars(JarSet.S3):
        same = [
            name for name in shipped if name.startswith(f"{jar.artifact}-") and name[len(jar.artifact) + 1].isdigit()
        ]
        assert not same, f"{jar.artifact} comes with Spark as {same}"


@pytest.mark.parametrize(
    "text",
    [
        "org.example:one:1.0 " + "0" * 64,
        "[delta]\norg.example:one " + "0" * 64,
        "[delta]\norg.example:one:1.0 abc",
        "[delta]\norg.example::1.0 " + "0" * 64,
    ],
)
def test_a_malformed_lock_is_refused_by_line(text: str) -> None:
    """A slip in the lock is found where it is, not as a failed download."""
    with pytest.raises(ValueError, match="line"):
        parse_lock(text)


def test_a_fetch_fills_the_cache_once(tmp_path: Path, java_home: Path, one_jar: Jar) -> None:
    """The second call sends no request: it does not even start Java."""
    fake_java(java_home, f'mkdir -p "$work/jars"; printf content > "$work/jars/{one_jar.file_name}"\n')
    (path,) = ensure_jars(JarSet.S3, root=tmp_path / "cache", progress=io.StringIO())
    assert path.read_bytes() == b"content"
    (java_home / "bin" / "java").unlink()
    assert ensure_jars(JarSet.S3, root=tmp_path / "cache", progress=io.StringIO()) == (path,)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ('mkdir -p "$work/jars"; printf other > "$work/jars/{jar}"', r"jars\.lock says"),
        ('echo "UNRESOLVED DEPENDENCIES: one"; exit 1', r"(?s)Is there a network.*UNRESOLVED DEPENDENCIES"),
    ],
    ids=["another checksum", "no network"],
)
def test_a_fetch_that_fails_says_why_and_leaves_nothing(
    tmp_path: Path, java_home: Path, one_jar: Jar, script: str, words: str
) -> None:
    """A changed jar never reaches the class path, also not on the next start; else what Ivy said last is quoted."""
    fake_java(java_home, script.format(jar=one_jar.file_name) + "\n")
    with pytest.raises(JarsUnavailable, match=words):
        ensure_jars(JarSet.S3, root=tmp_path / "cache", progress=io.StringIO())
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_a_failed_request_is_tried_again(tmp_path: Path, java_home: Path, one_jar: Jar) -> None:
    """One hiccup of the repository does not fail a set-up."""
    fake_java(
        java_home,
        f'[ -e "$work/tried" ] || {{ touch "$work/tried"; exit 1; }}\n'
        f'mkdir -p "$work/jars"; printf content > "$work/jars/{one_jar.file_name}"\n',
    )
    (path,) = ensure_jars(JarSet.S3, root=tmp_path / "cache", progress=io.StringIO())
    assert path.is_file()


def test_the_larger_set_serves_for_the_smaller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has fetched everything needs no network for a directory store."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    directory = jars_directory(locked_jars(JarSet.S3), tmp_path)
    directory.mkdir(parents=True)
    found = ensure_jars(JarSet.DELTA, root=tmp_path)
    assert {path.parent for path in found} == {directory}
    assert len(found) == len(locked_jars(JarSet.DELTA))


def test_another_list_is_another_directory(tmp_path: Path) -> None:
    """An upgrade of a jar never mixes with what an older version of the project fetched."""
    one, other = pin("one", b"a"), pin("one", b"b")
    assert jars_directory([one], tmp_path) != jars_directory([other], tmp_path)
    assert jars_directory([one, other], tmp_path) == jars_directory([other, one], tmp_path)


@pytest.mark.parametrize(
    ("version", "what"),
    [
        ("echo 'openjdk version \"11.0.2\"' >&2", "is version 11"),
        ("echo 'java version \"1.8.0_402\"' >&2", "is version 8"),
    ],
)
def test_an_old_java_is_refused_with_how_to_get_a_new_one(java_home: Path, version: str, what: str) -> None:
    """Spark's own words for an old Java are a stack trace; ours are one sentence."""
    program = java_home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{version}\n")
    program.chmod(0o755)
    with pytest.raises(JavaMissing, match=f"{what}.*Install it"):
        java_executable()


def test_no_java_is_said_with_how_to_get_it(java_home: Path) -> None:
    """The same where there is none."""
    with pytest.raises(JavaMissing, match=r"Spark needs Java 17 or newer: JAVA_HOME is .* Install it"):
        java_executable()


def test_the_command_fails_with_one_line(
    java_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make setup` ends with a sentence, not with a stack trace."""
    monkeypatch.setenv("TIDELOG_CACHE", str(tmp_path / "cache"))
    assert jars.main([]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_command_prints_the_paths_and_nothing_else(tmp_path: Path) -> None:
    """`spark-submit --jars "$(…)"` takes what is printed; a second run is silent, warnings included."""
    jars_directory(locked_jars(JarSet.S3), tmp_path).mkdir(parents=True)
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-m", "spark_pipeline.jars", "--paths"],
        env=os.environ | {"TIDELOG_CACHE": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert answer.stderr == ""
    assert len(answer.stdout.strip().split(",")) == len(locked_jars(JarSet.S3))
