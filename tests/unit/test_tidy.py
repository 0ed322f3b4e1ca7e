"""The rules of the house that no linter knows, proved on every file of the repository."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.tracked_files import ROOT, tracked_files

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
FILE_BYTES_MAX = 1024 * 1024
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "base", "misc", "tools", "shared"}
REGISTRIES = re.compile(
    # In pieces, so that this file passes its own test.
    r"\b(?:files\.)?pythonhosted" + r"\.org|\bpypi" + r"\.org|\bproxy\.golang" + r"\.org|\brepo1?\.maven"
    r"(?:\.apache)?\.org|\bregistry\.npmjs" + r"\.org|\bcrates" + r"\.io|\bregistry\.terraform" + r"\.io",
    re.IGNORECASE,
)
MACHINE_PATHS = re.compile(r"(?<![\w.~$}])/(?:work|root|tmp|home|Users)/\w")
PATCHES = re.compile(r"(\w+\.)*setattr|(mock\.)?patch(\.object)?")
HANDED_IN = re.compile(r"_?[A-Z][A-Z0-9_]+|__defaults__|uuid4|random_id|ThreadPoolExecutor")
"""Names of constants, and what else product code takes as a value: ids, executors."""
PATCHED = {
    # How finely pure code cuts what it is given: no cut may show in a result, and nothing but these tests would pass the size.
    "tests/property/test_manifest_properties.py": {"_BLOCK", "_GONE_MIN", "_SLOTS_MIN"},
    "tests/unit/gateway/codec/test_dense_bodies.py": {"PIECE_BYTES"},
    "tests/unit/log_format/checkpoints/test_checkpoint_segments.py": {"LARGE_BYTES", "_GROUP_BYTES", "_ROWS_MAX"},
    # Part of the format: every program must know as many, so no argument may say otherwise.
    "tests/simulation/simulated_modes/world.py": {"JOURNAL_CLOSED_REMEMBERED", "JOURNAL_TOPICS_MAX"},
}
"""By test: the constants that it patches all the same."""
LISTED = re.compile(r"^\s*(?:\* )?``([a-z_0-9]+)``  +\S", re.MULTILINE)
"""Names of a list of modules in a docstring."""
CLASS = re.compile(r"(?<![\w.])_?[A-Z]\w*[a-z]\w*(?<!\bAny)\b")
"""A class's name, alone or within a type."""
DECODES = re.compile(r"msgspec\.(convert|json\.decode|msgpack\.decode|json\.Decoder|msgpack\.Decoder)")
KINDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Call)
EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]")


@cache
def _files() -> tuple[Path, ...]:
    """Every file that is, or would be, committed."""
    return tuple(ROOT / name for name in tracked_files())


@cache
def _text(path: Path) -> str | None:
    """The file's text; None when it is none."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return None


@cache
def _modules() -> tuple[tuple[Path, ast.Module], ...]:
    """Nodes come by the million, and none is garbage: the garbage collector does not walk them again and again."""
    gc.disable()
    try:
        return tuple((path, ast.parse(_text(path) or "")) for path in _files() if path.suffix == ".py")
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _forgotten_in_the_end() -> Iterator[None]:
    """A later test of this worker that collects garbage has nothing to do with them."""
    yield
    for each in (_files, _text, _modules, _nodes):
        each.cache_clear()


@cache
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Those of the kinds that the rules are about."""
    return tuple(node for node in ast.walk(tree) if isinstance(node, KINDS))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in _nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _calls(
    tree: ast.Module, called: re.Pattern[str]
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.Call]]:
    """The calls in functions of what has such a name, each with every function around it."""
    if any(isinstance(node, ast.Call) and called.fullmatch(_dotted(node.func)) for node in _nodes(tree)):
        for function in _functions(tree):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and called.fullmatch(_dotted(node.func)):
                    yield function, node


def _dotted(node: ast.expr) -> str:
    """``a.b.c``, as it is written; of what is put together, only what follows: ``.c``."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _named(paths: Iterator[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def _assert_none(violations: list[str]) -> None:
    """Fail with all of them, where pytest would show the first."""
    assert not violations, "\n" + "\n".join(violations)


def _lines_with(found: Callable[[str], object]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in _files()
        if (text := _text(path)) is not None and found(text)
        for number, line in enumerate(text.splitlines(), 1)
        if found(line)
    ]


def test_there_is_something_to_check() -> None:
    """The listing of files works: without this, every rule below would hold for nothing."""
    assert Path(__file__).resolve() in _files()
    assert ROOT / "log_format/store.py" in [path for path, _ in _modules()]


def test_files_are_short() -> None:
    """A source file of more than 400 lines holds more than one concept."""
    sources = (path for path in _files() if path.suffix in {".py", ".sh"})
    _assert_none(_named(path for path in sources if len((_text(path) or "").splitlines()) > FILE_LINES_MAX))


def test_functions_are_short() -> None:
    """A function of more than 70 lines does more than one thing."""
    _assert_none(
        [
            f"{path.relative_to(ROOT)}:{function.lineno}: {function.name}"
            for path, tree in _modules()
            for function in _functions(tree)
            if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
        ]
    )


def test_names_say_what_is_inside() -> None:
    """No module or package is a drawer for unrelated things."""
    parts = ((path, {*path.relative_to(ROOT).parent.parts, path.stem}) for path, _ in _modules())
    _assert_none(_named(path for path, names in parts if names & NAMES_THAT_SAY_NOTHING))


def test_modules_say_what_they_are_for() -> None:
    """Every module begins with its docstring."""
    _assert_none(_named(path for path, tree in _modules() if not ast.get_docstring(tree)))


def test_tests_say_what_they_defend() -> None:
    """Every test opens with the property that it defends."""
    _assert_none(
        [
            f"{path.relative_to(ROOT)}: {function.name}"
            for path, tree in _modules()
            if path.name.startswith("test_")
            for function in _functions(tree)
            if function.name.startswith("test_") and not ast.get_docstring(function)
        ]
    )


def test_tests_import_no_tests() -> None:
    """Tests import the product, ``tests.support`` and the packages of their own folder, and never each other. The console's are a
    package for the browser, which lives as long as they do."""
    tests = ROOT / "tests"
    packages = [path.parent for path in _files() if path.name == "__init__.py" and tests in path.parents]
    assert packages == [tests, tests / "console", tests / "support"]
    imports = [
        (path, name)
        for path, tree in _modules()
        for node in _nodes(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in _imported(node)
    ]
    of_tests = [(path, name.split(".")) for path, name in imports if name.split(".")[0] == "tests"]
    assert any(parts[1] == "support" for _, parts in of_tests)
    _assert_none([f"{path}: {'.'.join(parts)}" for path, parts in of_tests if not _may_import(path, parts)])


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Modules by their names from the root; a relative one as one of ``tests`` that may not be imported."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["tests.relative"] if node.level else [node.module or ""]


def _may_import(path: Path, parts: list[str]) -> bool:
    """Whether a file may import this module of ``tests``: support, or what is of its own folder and no test.

    A benchmark that measures programs written for Kafka starts them as ``tests.kafka_clients`` does, and that of ``catalog sync``
    serves catalogs as ``tests.support`` does, and that of ``commits`` speaks Kafka's protocol by it: that is written once.
    """
    own = path.relative_to(ROOT).parts
    is_test = any(part.startswith("test_") or part == "conftest" for part in parts)
    if own[:2] == ("benchmarks", "pace"):
        return not is_test and parts[1:3] == ["kafka_clients", "tried"]
    if own in {("benchmarks", "maintenance", "catalog_sync.py"), ("benchmarks", "produce", "commits.py")}:
        return parts[1:2] == ["support"]
    return own[0] == "tests" and not is_test and (parts[1:2] == ["support"] or parts[1] == own[1])


def test_tests_share_their_doubles() -> None:
    """A clock or a whole store that a test turns is one of ``tests.support``, or the simulation's own."""
    shared = (ROOT / "tests/support", ROOT / "tests/simulation/simulated")
    classes = (
        (path, node, {part.name for part in node.body if isinstance(part, ast.FunctionDef)})
        for path, tree in _modules()
        if path.is_relative_to(ROOT / "tests") and path.parent not in shared
        for node in _nodes(tree)
        if isinstance(node, ast.ClassDef)
    )
    doubles = ({"now_ms", "sleep_ms"}, {"get", "put", "put_if_absent", "list"})
    _assert_none([f"{path}: {node.name}" for path, node, names in classes if any(each <= names for each in doubles)])


def test_tests_patch_no_constant() -> None:
    """What a test varies is handed to the product as a value: a patched constant is a parameter that the code hides."""
    tests = ((path.relative_to(ROOT).as_posix(), tree) for path, tree in _modules())
    found = {name: _patched(tree) for name, tree in tests if name.startswith("tests/")}
    assert {name: constants for name, constants in found.items() if constants} == PATCHED


def test_a_patched_constant_is_found() -> None:
    """However it is patched; a method, a module and a variable of the environment are none."""
    for patch in (
        'monkeypatch.setattr(limits, "BYTES_MAX", 1)',
        'patch.setattr("tidelog.limits.BYTES_MAX", 1)',
        'mock.patch.object(limits, "BYTES_MAX", 1)',
        'mock.patch("limits.BYTES_MAX", 1)',
        'for name in ("BYTES_MAX",):\n    monkeypatch.setattr(f"limits.{name}", 1)',
        'for module in (a, b):\n    monkeypatch.setattr(f"a.{module}.BYTES_MAX", 1)',
    ):
        assert _patched(ast.parse(f"def test():\n    {patch.replace(chr(10), chr(10) + '    ')}")) == {"BYTES_MAX"}, (
            patch
        )
    for patch in (
        'monkeypatch.setattr(Writer, "flush", "BYTES_MAX")',
        'monkeypatch.setenv("BYTES_MAX", "1")',
        'setattr(self, f"crash_{where}", die)',
    ):
        assert not _patched(ast.parse(patch)), patch


def _patched(tree: ast.Module) -> set[str]:
    """The constants that a module patches. Where a call's name is put together, all that the function's text has are taken."""
    found: set[str] = set()
    for function, call in _calls(tree, PATCHES):
        texts = _texts(call.args[:2]) or _texts(ast.walk(function))
        found |= {name for text in texts if HANDED_IN.fullmatch(name := text.rpartition(".")[2])}
    return found


def _texts(nodes: Iterable[ast.AST]) -> list[str]:
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def test_no_thread_decodes_a_class_first() -> None:
    """msgspec ends the process where two threads are the first to decode a class: so its decoder is a constant of a module."""
    product = [
        (path, tree) for path, tree in _modules() if path.relative_to(ROOT).parts[0] not in {"tests", "benchmarks"}
    ]
    found = {path.relative_to(ROOT).as_posix() for path, tree in product if _decodes_first(tree)}
    # The first one's objects are constants; the second is read once, before the agent has threads.
    assert found == {"gateway/codec/json_batch.py", "tidelog/collect/state.py"}


def test_a_first_decode_is_found() -> None:
    """Of a class and of what is made of classes; a decoder beside functions, and plain types, are none."""
    for call in (
        "msgspec.json.decode(data, type=list[Row])",
        "msgspec.convert(data, _Row)",
        "msgspec.json.Decoder(Row)",
    ):
        assert _decodes_first(ast.parse(f"def read():\n    return {call}")), call
    for call in ("msgspec.json.decode(data, type=dict[str, Any])", "msgspec.json.Decoder(msgspec.Raw)", "Row(data)"):
        assert not _decodes_first(ast.parse(f"def read():\n    return {call}")), call
    assert not _decodes_first(ast.parse("DECODER = msgspec.json.Decoder(Row)"))


def _decodes_first(tree: ast.Module) -> bool:
    """Whether a function names a class to msgspec."""
    return any(
        CLASS.search(ast.unparse(kind))
        for _, call in _calls(tree, DECODES)
        for kind in [*call.args[:2], *(key.value for key in call.keywords)]
    )


def test_packages_only_name_their_parts() -> None:
    """An __init__.py defines nothing: a reader finds each thing in the file that has its name."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    _assert_none(
        _named(
            path
            for path, tree in _modules()
            if path.name == "__init__.py" and any(isinstance(node, definitions) for node in tree.body)
        )
    )


def test_packages_name_parts_that_exist() -> None:
    """A package's docstring lists its modules and folders by their present names: a line ``name``, spaces, and what it is."""
    listed = [
        (path, name)
        for path, tree in _modules()
        if path.name == "__init__.py"
        for name in LISTED.findall(ast.get_docstring(tree) or "")
    ]
    assert len(listed) > 100
    _assert_none(
        [
            f"{path}: {name}"
            for path, name in listed
            if not any((path.parent / found).exists() for found in (name, f"{name}.py"))
        ]
    )


def test_nothing_is_bound_to_one_machine() -> None:
    """No file names a package registry's host or an absolute path of the machine on which it was written."""
    _assert_none(_lines_with(REGISTRIES.search))
    _assert_none(_lines_with(MACHINE_PATHS.search))


def test_no_file_was_left_by_a_program() -> None:
    """A name has letters, digits and ``._-`` only: a program that takes a URI for a path makes others, such as ``file:``."""
    _assert_none([name for name in tracked_files() if not re.fullmatch(r"[\w./-]+", name)])


def test_the_patterns_find_what_they_are_for() -> None:
    """The two patterns above are not so narrow that they let through what they should find."""
    hosts = ["https://files.pythonhosted", "pypi", "https://repo1.maven", "repo.maven.apache", "proxy.golang"]
    assert all(REGISTRIES.search(f"x = '{host}.org/simple'") for host in hosts)
    paths = ["root", "work", "tmp", "home"]
    assert all(MACHINE_PATHS.search(f'open("/{path}/x")') for path in paths)
    assert not MACHINE_PATHS.search("s3://bucket/tmp/x ~/work/x $HOME/tmp/x")


def test_there_are_no_pictograms() -> None:
    """Words say it better, and every terminal and reader shows them."""
    _assert_none(_lines_with(EMOJI.search))


def test_files_are_small() -> None:
    """No file is above 1 MiB: data sets and built things live elsewhere."""
    _assert_none(_named(path for path in _files() if path.stat().st_size > FILE_BYTES_MAX))


def test_the_lock_file_is_complete_and_bound_to_no_index() -> None:
    """Every package has one version and hashes; at installation the user chooses the index."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    _assert_none([line for line in lines if re.search("://|--(index|extra|find)", line)])
    requirements = [line for line in lines if line and line[0] not in "# "]
    assert len(requirements) > 50
    _assert_none([line for line in requirements if not re.match(r"[a-z0-9._-]+(\[[a-z0-9,]+\])?==[^ ]+ ", line)])
    without_hash = [
        line for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if line and line[0] not in "# " and "--hash=sha256:" not in line + following
    ]  # fmt: skip
    _assert_none(without_hash)
