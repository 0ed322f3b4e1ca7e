"""The console's files, read once, and the headers with which a browser gets them.

1. Their paths contain the digest of all of them, so a browser may cache them for ever: other files have another path.
2. A path with another digest is of another release, behind a load balancer during an upgrade: the answer is this release's file,
   not to be cached.
3. No file is looked up by a path in the file system: a name is in ``FILES``, or it does not exist.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_STATIC: Final = Path(__file__).with_name("static")
_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
INDEX: Final = _STATIC.joinpath("index.html").read_text()
"""The page at ``/``, with placeholders for the release and the settings."""
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_IMPORT: Final = re.compile(r'from "(\.[^"]+)"')
_COMPRESSED_SUFFIX: Final = ".gz"
_DIGITS: Final = 16
"""Hexadecimal digits of a digest: 64 bits tell apart the releases that one browser may meet."""
_CACHE_FOREVER: Final = "public, max-age=31536000, immutable"
_REVALIDATE: Final = "no-cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleFile:
    """A file as it is sent."""

    content: bytes
    media_type: str
    etag: str


def _read(path: Path) -> tuple[str, ConsoleFile]:
    """Return a file and its name; libraries are stored compressed."""
    name, content = path.relative_to(_STATIC).as_posix(), path.read_bytes()
    if name.endswith(_COMPRESSED_SUFFIX):
        name, content = name.removesuffix(_COMPRESSED_SUFFIX), gzip.decompress(content)
    etag = f'W/"{hashlib.sha256(content).hexdigest()[:_DIGITS]}"'  # weak: it may be sent compressed
    return name, ConsoleFile(content=content, media_type=_MEDIA_TYPES[Path(name).suffix], etag=etag)


FILES: Final = dict(
    _read(path)
    for path in sorted(_STATIC.rglob("*"))
    if path.suffix in _MEDIA_TYPES or path.suffix == _COMPRESSED_SUFFIX
)
"""Files by their names below ``/console/<release>/``."""
RELEASE: Final = hashlib.sha256(
    "\n".join([INDEX, *(f"{name} {file.etag}" for name, file in FILES.items())]).encode()
).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleLogin:
    """Login of people. ``client``: the console's id at the OpenID Connect issuer, ``scope``: the scope that it requests there."""

    issuer: str
    client: str
    scope: str


def _imported(*names: str) -> tuple[str, ...]:
    """Return all modules that these import, directly or not."""
    found: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        for text in _IMPORT.findall(FILES[name].content.decode()):
            if (imported := posixpath.normpath(posixpath.join(posixpath.dirname(name), text))) not in found:
                found.append(imported)
                waiting.append(imported)
    return tuple(sorted(found))


_MODULES: Final = "\n".join(
    f'<link rel="modulepreload" href="/console/{RELEASE}/{name}">'
    for name in ("parts.js", *_imported("app.js", "parts.js"))
)
"""Modules of the shell and of every page: a browser requests them at once, not one after the other as it reads their imports."""


def index_page(console: str, login: ConsoleLogin | None, *, has_sql: bool) -> bytes:
    """Return the page at ``/``, which names the release's files and the console's settings."""
    issuer, client, scope = ("", "", "") if login is None else (login.issuer, login.client, login.scope)
    values = {"release": RELEASE, "console": console, "issuer": issuer, "client": client, "scope": scope}
    values["sql"] = "on" if has_sql else "off"
    told = {name: html.escape(value) for name, value in values.items()} | {"modules": _MODULES}
    return _PLACEHOLDER.sub(lambda found: told[found[1]], INDEX).encode()


def index_headers(login: ConsoleLogin | None) -> dict[str, str]:
    """Return the headers of the page at ``/``. Their policy restricts what it loads, and from where; a login asks its issuer
    for a token."""
    connect = "'self'" if login is None else f"'self' {_origin(login.issuer)}"
    policy = (
        f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src {connect}; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
    return {
        "cache-control": _REVALIDATE,
        "content-security-policy": policy,
        "cross-origin-opener-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "vary": "Accept",
        "x-content-type-options": "nosniff",
    }


def file_headers(file: ConsoleFile, release: str) -> dict[str, str]:
    """Return the headers of a file that was requested as part of ``release``."""
    return {
        "cache-control": _CACHE_FOREVER if release == RELEASE else _REVALIDATE,
        "content-type": f"{file.media_type}; charset=utf-8",
        "etag": file.etag,
        "x-content-type-options": "nosniff",
    }


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
