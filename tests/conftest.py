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

import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
import urllib3

from log_format.store import ObjectStore
from log_format.stores import open_store
from log_format.stores.local import LocalStore
from log_format.stores.memory import MemoryStore
from log_format.stores.s3 import S3Store

MINIO_START_SECONDS_MAX = 60
MINIO_START_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class MinioServer:
    """A running server; ``process_id`` for tests that stop and continue it."""

    endpoint_url: str
    access_key: str
    secret_key: str
    process_id: int

    def environment(self) -> dict[str, str]:
        """The variables by which boto3, deltalake and Hadoop's S3A find the server, and nothing else."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def create_bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"test-{secrets.token_hex(8)}"
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
        )
        client.create_bucket(Bucket=name)
        client.close()
        return name


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the server by its fixtures, so that no test forgets."""
    for item in items:
        if "minio" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.minio)


@pytest.fixture(scope="session", autouse=True)
def _own_aws_settings_only() -> Iterator[None]:
    """No test may meet a real bucket: the AWS settings of whoever runs the tests are hidden from them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MinioServer]:
    """A MinIO server on a free port of 127.0.0.1, for the whole session."""
    cache = Path(os.environ.get("TIDELOG_CACHE") or Path.home() / ".cache" / "tidelog")
    program = cache / "bin" / "minio"
    if not program.is_file():
        pytest.fail(f"{program} is missing: run 'scripts/minio.sh install' (it needs Go)")
    directory = tmp_path_factory.mktemp("minio")
    access_key, secret_key = "tidelog-tests", secrets.token_hex(16)
    process, port = _start_minio(program, directory, access_key, secret_key)
    try:
        yield MinioServer(
            endpoint_url=f"http://127.0.0.1:{port}",
            access_key=access_key,
            secret_key=secret_key,
            process_id=process.pid,
        )
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start_minio(
    program: Path, directory: Path, access_key: str, secret_key: str
) -> tuple[subprocess.Popen[bytes], int]:
    environment = {
        "HOME": str(directory),
        "PATH": os.environ.get("PATH", ""),
        "MINIO_ROOT_USER": access_key,
        "MINIO_ROOT_PASSWORD": secret_key,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
    }
    log = directory / "minio.log"
    for _ in range(MINIO_START_ATTEMPTS):  # the free port may be taken before the server binds it
        port = _free_port()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [program, "server", "--quiet", "--address", f"127.0.0.1:{port}", str(directory / "data")],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        if _is_alive(process, port):
            return process, port
        process.kill()
        process.wait()
    pytest.fail(f"MinIO does not start:\n{log.read_text(errors='replace')}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_alive(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + MINIO_START_SECONDS_MAX
    with urllib3.PoolManager(retries=False) as http:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                answer = http.request("GET", f"http://127.0.0.1:{port}/minio/health/live", timeout=2)
            except urllib3.exceptions.HTTPError:
                time.sleep(0.05)
                continue
            if answer.status == 200:
                return True
            time.sleep(0.05)
    return False


@pytest.fixture(scope="session")
def minio_environment(minio: MinioServer) -> dict[str, str]:
    """The ``AWS_*`` variables for child processes; add them to a copy of ``os.environ``."""
    return minio.environment()


@pytest.fixture
def s3_uri(minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """``s3://bucket/prefix`` with a fresh bucket, found by this process's environment."""
    for name, value in minio.environment().items():
        monkeypatch.setenv(name, value)
    return f"s3://{minio.create_bucket()}/some prefix/tidelog"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority of the tests' own, by the ``openssl`` command: its keys end with the session's directory."""

    directory: Path

    @property
    def ca_file(self) -> str:
        """The authority's certificate."""
        return str(self.directory / "ca.pem")

    def trust(self) -> ssl.SSLContext:
        """A client's context that trusts this authority and no other."""
        return ssl.create_default_context(cafile=self.ca_file)

    def issue(self, names: str = "IP:127.0.0.1,DNS:localhost") -> tuple[str, str]:
        """The files of a new certificate for ``names`` and of its key."""
        cert, key = (str(self.directory / f"{secrets.token_hex(8)}.{kind}") for kind in ("pem", "key"))
        signer = ("-CA", self.ca_file, "-CAkey", str(self.directory / "ca.key"), "-addext", "basicConstraints=CA:FALSE")
        self.make("-keyout", key, "-out", cert, "-subj", "/CN=gateway", "-addext", f"subjectAltName={names}", *signer)
        return cert, key

    def make(self, *arguments: str) -> None:
        """A key and a certificate."""
        request = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2")
        subprocess.run(["openssl", *request, *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs certificates for gateways."""
    made = Authority(directory=tmp_path_factory.mktemp("authority"))
    made.make("-keyout", str(made.directory / "ca.key"), "-out", made.ca_file, "-subj", "/CN=tests",
                 "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
    return made
