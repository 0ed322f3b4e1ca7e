"""What tests share: a MinIO server for the session, and stores of each kind.

``minio``              the server (started when the first test asks for it)
``minio_environment``  the ``AWS_*`` variables with which a child process finds it
``s3_uri``             ``s3://bucket/prefix`` with a fresh bucket; this process's environment points there, too
``s3_store``, ``local_store``, ``memory_store``   one store of the kind, empty
``any_store``          the test runs once on each kind
``listed_store``       once more on one that lists as a directory bucket of S3 does
``authority``          signs certificates for gateways
``store_uri``          the test runs once on a directory's URI and once on ``s3_uri``
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from log_format.store import ObjectStore
from log_format.stores import open_store
from log_format.stores.local import LocalStore
from log_format.stores.memory import MemoryStore
from log_format.stores.s3 import S3Store
from tests.support.certificate_authority import Authority
from tests.support.compiled_once import compiled_once
from tests.support.cpu_of_files import CpuOfFiles
from tests.support.java import INTERPRETED
from tests.support.minio import Minio
from tests.support.spread import NICE, FilesAndSpark, is_patient, turn

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


def pytest_configure(config: pytest.Config) -> None:
    """What each file costs is known when the run ends."""
    config.pluginmanager.register(CpuOfFiles())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the server or the JVM by its fixtures, so that no test forgets; what takes long or waits begins."""
    for item in items:
        for name in {"minio", "spark"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(name)
    items.sort(key=lambda item: turn(item.path))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Modules and tests come by the thousand and stay: the garbage collector does not walk them again and again."""
    gc.disable()
    try:
        with compiled_once(session.config):
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionstart() -> None:
    """What can wait leaves the processors to others."""
    if is_patient(os.environ.get("PYTEST_XDIST_WORKER", "gw0")):
        os.nice(NICE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndSpark | None:
    """``--dist loadfile`` knows of the Spark session."""
    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return FilesAndSpark(config, log)


@pytest.fixture(scope="session", autouse=True)
def _environment() -> Iterator[None]:
    """No test may meet a real bucket: the AWS settings of the caller are hidden. Java begins fast, as no query is long. A gateway
    is one process on any machine, unless a test says how many."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("TIDELOG_WORKERS", "1")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("SPARK_SUBMIT_OPTS", INTERPRETED)
        yield


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """A MinIO server on a free port of 127.0.0.1, for the whole session."""
    server = Minio(tmp_path_factory.mktemp("minio"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def minio_environment(minio: Minio) -> dict[str, str]:
    """The ``AWS_*`` variables for child processes; add them to a copy of ``os.environ``."""
    return minio.environment()


@pytest.fixture
def s3_uri(minio: Minio, monkeypatch: pytest.MonkeyPatch) -> str:
    """``s3://bucket/prefix`` with a fresh bucket, found by this process's environment."""
    return minio.store_uri(monkeypatch)


@pytest.fixture
def s3_store(s3_uri: str) -> ObjectStore:
    """An empty store in a bucket of the MinIO server."""
    return open_store(s3_uri)


@pytest.fixture
def local_store(tmp_path: Path) -> LocalStore:
    """An empty store in a directory."""
    return LocalStore(tmp_path / "store")


@pytest.fixture
def memory_store() -> MemoryStore:
    """An empty store in memory."""
    return MemoryStore()


@pytest.fixture
def s3_directory_bucket_store(s3_store: ObjectStore) -> ObjectStore:
    """The S3 store as if of a directory bucket: what such a one can't list is refused, and what it lists comes in no order."""

    def check(params: dict[str, object], **_: object) -> None:
        assert "StartAfter" not in params, "a directory bucket lists from no key on"
        assert str(params["Prefix"]).endswith("/"), "a directory bucket lists whole directories"

    def shuffle(parsed: dict[str, list[object]], **_: object) -> None:
        for name in ("Contents", "CommonPrefixes"):
            parsed.get(name, []).reverse()

    assert isinstance(s3_store, S3Store)
    s3_store._is_directory_bucket = True
    events = s3_store._client.meta.events
    events.register("provide-client-params.s3.ListObjectsV2", check)
    events.register("after-call.s3.ListObjectsV2", shuffle)
    return s3_store


KINDS = ["memory", "local", pytest.param("s3", marks=pytest.mark.minio)]


@pytest.fixture(params=KINDS)
def any_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Each kind of store in turn, empty."""
    store: ObjectStore = request.getfixturevalue(f"{request.param}_store")
    return store


@pytest.fixture(params=[*KINDS, pytest.param("s3_directory_bucket", marks=pytest.mark.minio)])
def listed_store(request: pytest.FixtureRequest) -> ObjectStore:
    """Each kind of store in turn, empty, for what is asked of listings."""
    store: ObjectStore = request.getfixturevalue(f"{request.param}_store")
    return store


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.minio)])
def store_uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URI of each kind of store that several processes can share, empty."""
    if request.param == "local":
        return (tmp_path / "store").as_uri()
    uri: str = request.getfixturevalue("s3_uri")
    return uri


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs certificates for gateways."""
    made = Authority(directory=tmp_path_factory.mktemp("authority"))
    made.make("-keyout", str(made.directory / "ca.key"), "-out", made.ca_file, "-subj", "/CN=tests",
                 "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    return made
