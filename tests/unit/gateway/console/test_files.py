"""The console's files: small, as their makers made them, sent with the right headers, and no other file is sent."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import duckdb
import pytest

from gateway.console.files import FILES, INDEX, RELEASE
from tests.support.application import Client, gateway_with

BYTES_MAX = 120_000
"""Of all files, compressed as a browser gets them; in the wheel they take as much."""
SOURCE_BYTES_MAX = 270_000
"""As they lie in the repository, the library packed."""
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
STATIC = Path(__file__).parents[4] / "gateway/console/static"
VENDORED = {
    "vendored/preact.js": "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7",
}
"""SHA-256 of the files in their packages; the README says which."""


def test_they_are_small() -> None:
    """All of them together stay below the bound, and each file in the folder is one of them."""
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    sent = [gzip.compress(file.content, compresslevel=1) for file in FILES.values()]
    assert sum(map(len, sent)) + len(INDEX) <= BYTES_MAX
    assert sum(path.stat().st_size for path in files) <= SOURCE_BYTES_MAX
    assert {path.relative_to(STATIC).as_posix().removesuffix(".gz") for path in files} == {"index.html", *FILES}


def test_libraries_are_what_their_makers_made() -> None:
    """Byte for byte."""
    for name, digest in VENDORED.items():
        assert hashlib.sha256(FILES[name].content).hexdigest() == digest, name


def test_nothing_is_loaded_from_elsewhere_nor_made_of_markup() -> None:
    """Own files name no other host, and never make markup of text."""
    for name, file in FILES.items():
        if not name.startswith("vendored/"):
            text = file.content.decode().replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name
            assert not re.search(r"(?:src|href)=[\"'](?:https?:)?//|import .*[\"']https?:", text), name


def test_every_import_is_a_file() -> None:
    """A module that another one names is there."""
    for name, file in FILES.items():
        if name.endswith(".js") and not name.startswith("vendored/"):
            for named in re.findall(r"(?:from |import\()[\"'](\.[^\"']+)[\"']", file.content.decode()):
                path = ((STATIC / name).parent / named).resolve()
                assert path.relative_to(STATIC).as_posix() in FILES, (name, named)


def test_the_page_names_the_modules_of_every_page() -> None:
    """A browser requests them at once; else it would learn of each by reading the one that imports it."""
    named = set(
        re.findall(r'"modulepreload" href="/console/[^/]+/([^"]+)"', Client(gateway_with()).get("/", BROWSER).text)
    )
    needed, waiting = set(), ["app.js", "parts.js"]
    while waiting:
        name = waiting.pop()
        needed.add(name)
        for told in re.findall(
            r'^(?:import|export) .*?from "(\.[^"]+)"', (STATIC / name).read_text(), re.MULTILINE | re.DOTALL
        ):
            path = ((STATIC / name).parent / told).resolve().relative_to(STATIC).as_posix()
            if path not in needed and not path.startswith("vendored/"):
                waiting.append(path)
    assert needed - {"app.js"} == named - {"vendored/preact.js"}


@pytest.mark.parametrize("mode", ["on", "readonly"])
def test_a_browser_gets_the_console(mode: str) -> None:
    """The page says how the console is set, and each file that it names is there, to be kept."""
    client = Client(gateway_with(console=mode))
    page = client.get("/", BROWSER)
    assert (page.status_code, page.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert f'data-console="{mode}"' in page.text
    assert "{release}" not in page.text
    assert page.headers["vary"].startswith("Accept,")
    named = re.findall(r'(?:href|src)="(/console/[^"]+)"', page.text)
    assert len(named) > 3
    for path in named:
        file = client.get(path)
        assert file.status_code == 200, path
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["x-content-type-options"] == "nosniff"
        again = client.get(path, {"if-none-match": file.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_the_policy_lets_only_its_own_scripts_run() -> None:
    """No inline script, no other host, no frame, no string that becomes markup; where people log in, the issuer may be asked."""
    policy = Client(gateway_with()).get("/", BROWSER).headers["content-security-policy"]
    directives = dict(one.strip().partition(" ")[::2] for one in policy.split(";"))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["style-src"] == directives["connect-src"] == "'self'"
    assert directives["frame-ancestors"] == "'none'"
    assert directives["require-trusted-types-for"] == "'script'"
    issuer = {"oidc_issuer": "https://id.example:8443/realms/a", "oidc_audience": "tidelog"}
    for login, connect in (({}, "'self'"), ({"oidc_client_id": 'a"b'}, "'self' https://id.example:8443")):
        page = Client(gateway_with(**issuer, **login)).get("/", BROWSER)
        assert f"connect-src {connect};" in page.headers["content-security-policy"]
        assert ('data-client="a&quot;b" data-scope="openid"' in page.text) == bool(login)


def test_files_of_another_release_are_not_kept() -> None:
    """Behind a balancer a page may ask a gateway of another release for its files."""
    client = Client(gateway_with())
    assert client.get("/console/0123456789abcdef/app.js").headers["cache-control"] == "no-cache"
    assert "immutable" in client.get(f"/console/{RELEASE}/app.js").headers["cache-control"]


def test_large_files_are_compressed() -> None:
    """As every answer is."""
    answer = Client(gateway_with()).get(f"/console/{RELEASE}/vendored/preact.js", {"accept-encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    "path",
    [
        "/console/x/",
        "/console/x/no.js",
        "/console/x/../files.py",
        "/console/x/%2e%2e/files.py",
        "/console/x/..%2ffiles.py",
        "/console/x/index.html/",
    ],
)
def test_no_other_file_is_served(path: str) -> None:
    """Names are looked up among the files, not in the file system."""
    assert Client(gateway_with()).get(path).status_code == 404


def test_off_serves_links_only() -> None:
    """The page without the console needs none of its files, and they are not served."""
    client = Client(gateway_with(console="off"))
    page = client.get("/", BROWSER)
    assert page.status_code == 200
    assert "/console/" not in page.text
    assert "<script" not in page.text
    assert client.get(f"/console/{RELEASE}/app.js").json()["error_code"] == "NOT_FOUND"


def test_every_word_that_duckdb_takes_for_no_name_is_quoted() -> None:
    """The editor knows at least those of the version that is installed."""
    text = (STATIC / "sql_words.js").read_text()
    known = {word for some in re.findall(r"`([a-z_\s]+)`", text) for word in some.split()}
    query = "select keyword_name from duckdb_keywords() where keyword_category in ('reserved', 'type_function')"
    with duckdb.connect() as database:
        assert {word for (word,) in database.execute(query).fetchall()} <= known
