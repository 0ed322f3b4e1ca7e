"""Opening a store by its URI."""

from __future__ import annotations

import re
import threading
from urllib.parse import unquote

from log_format.limits import S3_CONNECT_TIMEOUT_MS, S3_CONNECTIONS, S3_READ_TIMEOUT_MS, STORE_RETRY_MS_MAX
from log_format.store import ObjectStore
from log_format.stores.local import LocalStore
from log_format.stores.memory import MemoryStore

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_memory_stores: dict[str, MemoryStore] = {}
_memory_stores_lock = threading.Lock()


def open_store(
    uri: str,
    *,
    fsync: bool = True,
    max_pool_connections: int = S3_CONNECTIONS,
    connect_timeout_ms: int = S3_CONNECT_TIMEOUT_MS,
    read_timeout_ms: int = S3_READ_TIMEOUT_MS,
    retry_ms_max: int = STORE_RETRY_MS_MAX,
    must_exist: bool = False,
) -> ObjectStore:
    """Open the store at ``uri``.

    Args:
        uri: a path or ``file:///directory``, ``s3://bucket/prefix``, or ``memory://name``. Stores of one ``memory://name`` share
            their objects while the process lives.
        fsync: for directories; without it a crash of the machine may lose acknowledged records.
        max_pool_connections: for S3: most concurrent requests over kept connections, at least 1.
        connect_timeout_ms: for S3: timeout of a request's connection.
        read_timeout_ms: for S3: timeout of a request's answer.
        retry_ms_max: for S3: time in which repeatable requests are retried; 0 for never.
        must_exist: refuse a missing directory, which a program that only reads would take for an empty store.

    Opening reads and writes nothing, except that it removes what an earlier crash left in a directory. Raises ``ValueError`` if
    the URI names no store that can be opened.
    """
    if not uri:
        raise ValueError("the store's URI is empty")
    if "\0" in uri:
        raise ValueError(f"the store's URI has a NUL character: {uri!r}")
    if uri.startswith("s3://"):
        try:
            from log_format.stores.s3 import S3Store  # noqa: PLC0415 - only users of S3 need boto3 and pay its import
        except ModuleNotFoundError as error:
            raise ValueError(f"{uri} needs boto3: pip install 'tidelog[s3]'") from error
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        return S3Store(
            bucket,
            prefix.strip("/"),
            max_pool_connections=max_pool_connections,
            connect_timeout_ms=connect_timeout_ms,
            read_timeout_ms=read_timeout_ms,
            retry_ms_max=retry_ms_max,
        )
    if uri.startswith("memory://"):
        return _open_memory(uri.removeprefix("memory://"))
    if uri.startswith("file:"):
        return _open_directory(_file_path(uri), fsync=fsync, must_exist=must_exist)
    if _SCHEME.match(uri):
        hint = " (Hadoop's name for s3://)" if uri.startswith(("s3a:", "s3n:")) else ""
        raise ValueError(
            f"no store has the URI {uri!r}{hint}: use a directory, file:///directory, s3://bucket/prefix or memory://name"
        )
    return _open_directory(uri, fsync=fsync, must_exist=must_exist)


def _open_directory(path: str, *, fsync: bool, must_exist: bool) -> LocalStore:
    store = LocalStore(path, fsync=fsync)
    if must_exist and not store.directory.exists():
        raise ValueError(
            f"there is no store: the directory {store.directory} does not exist. 'tidelog serve' creates it."
        )
    return store


def _file_path(uri: str) -> str:
    """Return the path of ``file:/directory``, ``file:///directory`` or ``file://localhost/directory``, percent-decoded."""
    rest = uri.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in {"", "localhost"}:
            raise ValueError(f"{uri!r} names the host {host!r}: write file:///directory, with three slashes")
        rest = slash + path
    if not rest.startswith("/"):
        raise ValueError(f"{uri!r} names no absolute directory: write file:///directory, or the path alone")
    return unquote(rest, errors="strict")


def _open_memory(name: str) -> MemoryStore:
    if not name or "/" in name:
        raise ValueError(f"'memory://{name}' names no store: write memory://name")
    with _memory_stores_lock:
        return _memory_stores.setdefault(name, MemoryStore(name))
