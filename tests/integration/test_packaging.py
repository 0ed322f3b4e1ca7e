"""The wheel, as strangers install it: each extra brings what it promises, and a client needs nothing of the servers.

The wheel is installed by pip once. An environment for an extra is empty but for links to that, and to exactly the distributions
that the extra asks for, by their own metadata, as they lie in the environment of the tests. So nothing is downloaded, no module
is compiled twice, and a package that is missing in ``pyproject.toml`` is missing in the test.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from log_format.version import __version__
from tests.support.extracted import extract

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"compaction", "gateway", "log_format", "spark_pipeline", "tidelog"}
SERVERS = ["boto3", "deltalake", "fastapi", "pyspark", "uvicorn"]
COMMAND_LINE = ["click", "rich", "typer"]
SDK_BYTES_MAX = 15 * 1000 * 1000
HEAVY = {
    "concurrent.futures", "dataclasses", "email", "http.client", "logging", "pathlib", "pyarrow", "ssl",
    "tidelog.http.transport", "urllib.parse", "urllib3", "zstandard",
}  # fmt: skip
"""What ``from tidelog import Producer`` must not import: with them it takes three times as long (decision 050)."""
FIRST = {"tidelog", "tidelog.installation", "tidelog.names_on_use", "tidelog.__main__"}
"""What is imported of us before Ctrl-C ends the command line quietly."""

OF_REGISTRY = tuple(
    f".{name}"
    for name in (
        *("parsing_json", "json_nodes", "json_members", "json_schema"),
        *("parsing_protobuf", "proto_features", "proto_options", "proto_parser", "proto_text", "protobuf"),
        *("protobuf_alone", "protobuf_messages", "protobuf_documents", "protobuf_counting"),
        *("protobuf_bulk_documents", "protobuf_schema", "protobuf_values"),
    )
)
"""Ends of the names of modules of ``log_format.schemas`` that need the extra ``registry``."""

IMPORT_ALL = """
import importlib, pkgutil
for name in {packages!r}:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", []), name + "."):
        if module.name.endswith("__main__"):
            continue
        if module.name.startswith("log_format.schemas.") and module.name.endswith({unwanted!r}):
            continue
        if module.name.startswith("compaction.catalogs.") and module.name.endswith((".glue", ".hive")):
            continue  # tests of their own
        of_boto3 = ("s3", "s3_client", "s3_copy", "s3_errors", "s3_exchange", "s3_urls", "s3_wire")
        if module.name.removeprefix("log_format.stores.") not in of_boto3:
            importlib.import_module(module.name)
"""
HELP = """
import sys
from tidelog.cli.assembly import run
for command in {commands!r}:
    sys.argv[1:] = [command, "--help"]
    try:
        run()
    except SystemExit as ended:
        assert not ended.code, command
"""
ABSENT = "import importlib.util; assert not [name for name in {names!r} if importlib.util.find_spec(name)]"


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the wheel and what one extra brings."""

    programs: Path

    def run(self, program: str, *arguments: str) -> str:
        """What the program prints, started in an empty directory with nothing of the checkout in reach."""
        done = self.ended(program, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ended(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """How the program ends."""
        return subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.programs,
            env={"PATH": os.environ["PATH"], "HOME": str(self.programs), "AWS_DEFAULT_REGION": "us-east-1"},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def python(self, code: str) -> str:
        """What ``code`` prints."""
        return self.run("python", "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=180)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    """Makes the environment of some extras, separated by commas; once for all tests, none of which changes it."""

    @cache
    def made_by_pip() -> Path:
        home = _empty(tmp_path_factory.mktemp("installed"))
        index = ["--no-index", "--find-links", str(wheel.parent)]
        command = [*_pip(home), "install", "--quiet", "--no-deps", *index, "--no-compile", "tidelog"]
        subprocess.run(command, check=True, timeout=180)
        return home

    @cache
    def make(extras: str) -> Environment:
        installed, home = made_by_pip(), _empty(tmp_path_factory.mktemp("environment"))
        for entry in _site(installed).iterdir():
            (_site(home) / entry.name).symlink_to(entry)
        program = home / "bin" / "tidelog"
        program.write_text((installed / "bin" / "tidelog").read_text().replace(str(installed), str(home)))
        program.chmod(0o755)
        for name in _needed(_requirements(wheel, {extra for extra in extras.split(",") if extra})):
            _link(importlib.metadata.distribution(name), _site(home))
        assert _unmet(_site(home)) == []
        return Environment(home / "bin")

    return make


def _empty(directory: Path) -> Path:
    """A virtual environment without pip."""
    home = directory / "home"
    venv.create(home, symlinks=True)
    return home


def _site(home: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(home)}))


def _pip(home: Path) -> list[str]:
    """The pip of the tests' environment, for this one."""
    return [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "--disable-pip-version-check"]


def _requirements(wheel: Path, extras: set[str]) -> list[Requirement]:
    """What the wheel's metadata asks for, with these extras."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    asked = [Requirement(line) for line in re.findall(r"^Requires-Dist: (.*)$", text, re.MULTILINE)]
    return [each for each in asked if _applies(each, extras)]


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""})


def _needed(asked: list[Requirement]) -> set[str]:
    """The names of these distributions and of all that they need in turn."""
    found: dict[str, set[str]] = {}
    while asked:
        requirement = asked.pop()
        name, extras = str(canonicalize_name(requirement.name)), set(requirement.extras)
        if name in found and extras <= found[name]:
            continue
        extras |= found.setdefault(name, set())
        found[name] = extras
        below = [Requirement(line) for line in importlib.metadata.distribution(name).requires or []]
        asked += [each for each in below if _applies(each, extras)]
    return set(found)


def _unmet(site: Path) -> list[str]:
    """What ``pip check`` would say of the site directory, without a program: requirements that are missing or have another
    version."""
    found = {canonicalize_name(each.name): each for each in importlib.metadata.distributions(path=[str(site)])}
    unmet = []
    for distribution in found.values():
        for requirement in map(Requirement, distribution.requires or []):
            needed = found.get(canonicalize_name(requirement.name))
            is_met = needed is not None and requirement.specifier.contains(needed.version, prereleases=True)
            if _applies(requirement, set()) and not is_met:
                unmet.append(f"{distribution.name} needs {requirement}")
    return unmet


def _link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    """Make what the distribution has at the top of its own site directory be there in ``site``, too."""
    files = distribution.files
    assert files is not None, f"{distribution.name} does not say what it consists of"
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        link = site / top
        if not link.exists():
            link.symlink_to(Path(str(distribution.locate_file(top))).resolve())


def test_the_wheel_holds_the_packages_and_their_data_and_nothing_else(wheel: Path) -> None:
    """Every file of the packages that git knows is in the wheel: modules, the page of documents, the jars' lock; and py.typed of
    all that users import, or that what they import is made of: errors of the SDK are log_format's."""
    listing = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", *sorted(PACKAGES)],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    tracked = {name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert tracked <= names
    typed = {f"{name}/py.typed" for name in ("log_format", "spark_pipeline", "tidelog")}
    assert typed | {"gateway/openapi/docs_page.html", "spark_pipeline/jars.lock"} <= tracked
    assert {name.split("/")[0] for name in names} == PACKAGES | {f"tidelog-{__version__}.dist-info"}


def test_the_version_is_written_once(wheel: Path) -> None:
    """The wheel, the module and the changelog speak of one version, and no other source states it."""
    assert wheel.name == f"tidelog-{__version__}-py3-none-any.whl"
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
    stated = re.compile(rf"^(__version__|version)\s*=\s*\"{re.escape(__version__)}\"", re.MULTILINE)
    sources = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    assert [path.relative_to(ROOT).as_posix() for path in sources if stated.search(path.read_text())] == [
        "log_format/version.py"
    ]
    assert not stated.search((ROOT / "pyproject.toml").read_text())


def test_the_sdk_is_light(install: Callable[[str], Environment]) -> None:
    """``pip install tidelog``: at most five dependencies and 15 MB. Servers, command line and Arrow are not there, nor missed."""
    environment = install("")
    environment.python(ABSENT.format(names=[*SERVERS, *COMMAND_LINE, "pyarrow", "numpy", "pandas", "zstandard"]))
    environment.python("import tidelog.aio; tidelog.aio.Producer; from tidelog import *; Producer('localhost').close()")
    loaded = environment.python("import sys; from tidelog import Producer; print(*sys.modules)").split()
    assert not HEAVY & set(loaded)
    code = "import sys, signal; before = set(sys.modules); import tidelog; print(*set(sys.modules) - before)"
    assert set(environment.python(code).split()) <= FIRST | {"__future__"}
    (site,) = (environment.programs.parent / "lib").glob("python*/site-packages")
    installed = [path for path in site.iterdir() if path.name.endswith(".dist-info")]
    assert len(installed) <= 1 + 5
    files = [path for top in site.iterdir() for path in ([top] if top.is_file() else top.resolve().rglob("*"))]
    shipped = [path for path in files if path.is_file() and path.parent.name != "__pycache__"]
    assert sum(path.stat().st_size for path in shipped) <= SDK_BYTES_MAX


def test_without_its_extra_the_command_line_says_in_one_line_what_to_install(
    install: Callable[[str], Environment],
) -> None:
    """The program is in the wheel, so it is there without rich and typer, too."""
    environment = install("")
    for command, extras in (("topic", "cli"), ("serve", "cli,gateway")):
        ended = environment.ended("tidelog", command)
        needed = f"The command line needs rich and typer: pip install 'tidelog[{extras}]'\n"
        assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", needed)


def test_a_client_has_the_command_line_with_its_extra(install: Callable[[str], Environment]) -> None:
    """``tidelog[cli]``: every command says how it is used; those of the servers, too."""
    environment = install("cli")
    environment.python(ABSENT.format(names=[*SERVERS, "pyarrow", "numpy", "pandas"]))
    assert environment.run("tidelog", "--version").strip() == f"tidelog {__version__}"
    assert "Usage: tidelog" in environment.run("tidelog", "serve", "--help")
    commands = ["produce", "consume", "tail", "verify", "demo"]
    assert environment.python(HELP.format(commands=commands)).count("Usage: tidelog") == len(commands)


INSTALLED = re.compile(r"(?:pip install|pipx install|uvx) [^`\n]*?(?<![\w/.-])tidelog(?:\[([a-z0-9,]+)\])?(?=['` \n)])")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _documented() -> dict[str, str]:
    """The extras of each install line of the documents, with the first document that has it."""
    found: dict[str, str] = {}
    for document in DOCUMENTS:
        for match in INSTALLED.finditer(document.read_text()):
            found.setdefault(match.group(1) or "", document.name)
    return found


@pytest.mark.parametrize("extras", sorted(_documented()))
def test_an_install_line_of_the_documents(extras: str, install: Callable[[str], Environment]) -> None:
    """What a document tells to install can be installed from a local index, is complete (``pip check``), and begins."""
    environment = install(extras)
    environment.python("from tidelog import Producer; Producer('localhost').close()")
    has_program = {"cli", "collect", "gateway", "sql", "demo", "all"} & set(extras.split(","))
    assert environment.ended("tidelog", "--version").returncode == (0 if has_program else 1)


def test_no_document_installs_from_the_clone() -> None:
    """Install lines name the wheel, which works anywhere; only ``make setup`` installs the checkout."""
    assert _documented().keys() >= {"", "cli"}
    for document in DOCUMENTS:
        assert not re.search(r"pip install '?\.['\[ `]", document.read_text()), document.name


def test_the_wheel_of_the_source_archive_is_the_same(wheel: Path, tmp_path: Path) -> None:
    """``make dist`` makes a source archive, too: what is built from it has the same files."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=180)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        extract(sources, tmp_path)
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    again = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(again, cwd=unpacked, check=True, capture_output=True, timeout=180)
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(built) as other:
        assert set(one.namelist()) == set(other.namelist())


@pytest.mark.parametrize("extras", ["arrow", "arrow,s3"])
def test_a_store_can_be_examined_without_a_gateway(
    extras: str, install: Callable[[str], Environment], tmp_path: Path
) -> None:
    """``tidelog[arrow]`` reads tables and proves topics; with ``s3`` in buckets, too."""
    environment = install(extras)
    environment.python(ABSENT.format(names=["fastapi", "pyspark", "uvicorn", "deltalake"]))
    environment.python(f"from log_format.stores import open_store; open_store({str(tmp_path / 'log')!r})")
    environment.python("import log_format.inspection.verify, tidelog.bodies.fetched_table")
    if "s3" in extras:
        environment.python("from log_format.stores import open_store; open_store('s3://bucket/prefix')")


@pytest.mark.parametrize(
    ("extras", "catalog", "absent"),
    [("arrow", "unity", ["boto3", "thrift"]), ("arrow,s3", "glue", ["thrift"]), ("arrow,hive", "hive", ["boto3"])],
)
def test_topics_are_shown_in_a_catalog_without_a_gateway(
    extras: str, catalog: str, absent: list[str], install: Callable[[str], Environment]
) -> None:
    """``tidelog[arrow]`` has what a sync to Unity Catalog needs; Glue needs ``s3``, too, and a Hive Metastore ``hive``."""
    environment = install(extras)
    environment.python(ABSENT.format(names=["fastapi", "pyspark", "typer", *absent]))
    environment.python(f"import compaction.catalogs.__main__, compaction.catalogs.{catalog}")


@pytest.mark.parametrize(
    ("extras", "packages", "absent"),
    [
        ("collect", ["tidelog.collect"], SERVERS),
        ("sql", ["tidelog.cli"], SERVERS),
        ("gateway", ["gateway.app", "gateway.process", "log_format"], ["boto3", "kio", "pyspark", "deltalake"]),
        ("gateway,kafka,sql", ["gateway", "log_format"], ["boto3", "pyspark", "deltalake"]),
        ("gateway,registry", ["gateway.app", "log_format.schemas"], ["boto3", "kio", "pyspark", "deltalake"]),
        ("spark", ["spark_pipeline", "compaction", "log_format"], ["boto3", "fastapi", "uvicorn"]),
        ("all", sorted(PACKAGES), []),
    ],
)
def test_every_module_of_an_extra_can_be_imported(
    extras: str, packages: list[str], absent: list[str], install: Callable[[str], Environment]
) -> None:
    """What an extra promises works with what the extra brings, and it brings nothing of the others."""
    environment = install(extras)
    has_registry = "registry" in extras or extras == "all"
    environment.python(ABSENT.format(names=absent if has_registry else [*absent, "google", "jsonschema_rs"]))
    environment.python(IMPORT_ALL.format(packages=packages, unwanted=() if has_registry else OF_REGISTRY))


def test_pip_finds_nothing_missing_in_the_largest_environment(install: Callable[[str], Environment]) -> None:
    """``pip check`` itself, which also says what is not for this platform."""
    home = install("all").programs.parent
    subprocess.run([*_pip(home), "check"], check=True, timeout=180, stdout=subprocess.DEVNULL)


def test_a_gateway_starts_from_its_extra(install: Callable[[str], Environment]) -> None:
    """``tidelog[gateway,s3]`` is what the image of the gateway installs: its command line runs, and it opens buckets."""
    environment = install("gateway,s3")
    assert "--store" in environment.run("python", "-m", "gateway", "--help")
    environment.python("from log_format.stores import open_store; open_store('s3://bucket/prefix')")
