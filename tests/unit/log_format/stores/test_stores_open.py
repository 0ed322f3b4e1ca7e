"""From a URI to a store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.loaders import JSONFileLoader

from log_format.stores import open_store
from log_format.stores.local import LocalStore
from log_format.stores.memory import MemoryStore
from log_format.stores.s3 import S3Store


@pytest.mark.parametrize("scheme", ["file://", "file:", "file://localhost", ""])
def test_a_directory_by_uri_or_path(tmp_path: Path, scheme: str) -> None:
    """Every way to write a directory opens the same one, and opening makes nothing."""
    store = open_store(f"{scheme}{tmp_path}/new/data")
    assert isinstance(store, LocalStore)
    assert store.uri == f"file://{tmp_path}/new/data"
    assert not (tmp_path / "new").exists()
    store.put("a", b"x")
    assert (tmp_path / "new/data/a").read_bytes() == b"x"


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path means what it meant at the time of opening."""
    monkeypatch.chdir(tmp_path)
    store = open_store("./data")
    monkeypatch.chdir("/")
    store.put("a", b"x")
    assert (tmp_path / "data/a").exists()
    assert store.uri == f"file://{tmp_path}/data"


def test_the_uri_leads_back_to_the_directory(tmp_path: Path) -> None:
    """A store opened by another's URI sees its objects, also when the path has characters that URIs escape."""
    first = open_store(str(tmp_path / "größe 100%"))
    first.put("a", b"x")
    assert first.uri.endswith("/gr%C3%B6%C3%9Fe%20100%25")
    assert open_store(first.uri).get("a") == b"x"


def test_stores_in_memory_are_shared_by_name() -> None:
    """Two programs' parts that open one name meet; other names are other stores."""
    first = open_store("memory://test-open")
    assert isinstance(first, MemoryStore)
    first.put("a", b"x")
    assert first.uri == "memory://test-open"
    assert open_store("memory://test-open").get("a") == b"x"
    assert list(open_store("memory://test-open-other").list("")) == []


@pytest.mark.parametrize(
    ("uri", "expected"),
    [("s3://bucket", "s3://bucket"), ("s3://bucket/", "s3://bucket"), ("s3://bucket/a b/c#?/", "s3://bucket/a b/c#?")],
)
def test_a_bucket_and_prefix(uri: str, expected: str) -> None:
    """The prefix is taken as it is written, but for slashes at its ends; opening sends nothing."""
    store = open_store(uri)
    assert isinstance(store, S3Store)
    assert store.uri == expected


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("", "empty"),
        ("a\0b", "NUL"),
        ("http://bucket/x", "s3://bucket/prefix"),
        ("s3a://bucket/x", "Hadoop's name"),
        ("gs://bucket/x", "no store"),
        ("file://data/x", "three slashes"),
        ("file:data", "absolute"),
        ("s3://", "bucket name"),
        ("s3:///x", "bucket name"),
        ("s3://bucket/x//y", "component"),
        ("memory://", "names no store"),
        ("memory://a/b", "names no store"),
    ],
)
def test_other_uris_are_refused(uri: str, message: str) -> None:
    """What names no store is refused with a message that says what to write instead."""
    with pytest.raises(ValueError, match=message):
        open_store(uri)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    """A path that is a file is refused at once, not at the first put."""
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="not a directory"):
        open_store(str(tmp_path / "file"))


def test_descriptions_of_services_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are files of a megabyte: a process that opens a second store on S3 has them in memory."""
    read: list[object] = []
    load = JSONFileLoader.load_file

    def counted(self: JSONFileLoader, file: str) -> object:
        read.append(file)
        return load(self, file)

    open_store("s3://bucket/a")
    monkeypatch.setattr(JSONFileLoader, "load_file", counted)
    open_store("s3://bucket/b")
    assert read == []


def test_wrong_aws_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile that does not exist is named at once."""
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    with pytest.raises(ValueError, match="no-such-profile"):
        open_store("s3://bucket")


@pytest.mark.parametrize("setting", ["max_pool_connections", "connect_timeout_ms", "read_timeout_ms"])
def test_settings_must_be_positive(setting: str) -> None:
    """A timeout of zero would mean none, or none at all: neither is wanted."""
    settings: dict[str, Any] = {setting: 0}
    with pytest.raises(ValueError, match="positive"):
        S3Store("bucket", **settings)


def test_boto3_is_imported_for_s3_only(tmp_path: Path) -> None:
    """A store in a directory neither needs boto3 nor waits for its import."""
    program = (
        "import sys\nfrom log_format.stores import open_store\n"
        f"open_store({str(tmp_path)!r}).put('a', b'x')\n"
        "assert not {'boto3', 'botocore', 'urllib3'} & set(sys.modules)\n"
        "sys.modules['boto3'] = None\n"
        "try:\n    open_store('s3://bucket')\nexcept ValueError as error:\n    assert 'pip install' in str(error)\n"
        "else:\n    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
