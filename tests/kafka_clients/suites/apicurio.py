"""Apicurio Registry: its tests of Confluent's API, from a checkout, with Confluent's client.

They start a registry within the test (Quarkus): a copy of them stands on another base, which names the one that runs
(``java/apicurio``). Confluent's client is the one within Flink's jar, so the copy has its packages' names.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.kafka_clients.suites.suite import NothingRan, Outcomes, Place, Suite, output_of
from tests.kafka_clients.tried.programs import HERE, kept

_TESTS: Final = "app/src/test/java/io/apicurio/registry/noprofile/ccompat/rest"
_OWN: Final = HERE / "java" / "apicurio"
_SECONDS_MAX: Final = 600
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_FLINK: Final = "org.apache.flink.avro"
_FILES_LEFT_OUT: Final = ("ConfluentCompatApiWithGroupsTest.java",)
"""Of groups, which are Apicurio's own."""
_METHODS_LEFT_OUT: Final = ("testSerde", "testConverter", "testGlobalRule", "afterEach")
"""Serializers and converters, which Flink's jar lacks, and rules by Apicurio's own API."""
_OF_QUARKUS: Final = r"@QuarkusTest|@TestProfile\(.*\)|import io\.quarkus\..*|import .*\.DeletionEnabledProfile;"
_OF_OTHERS: Final = (
    r"import io\.confluent\.(?:connect|kafka\.serializers|kafka\.schemaregistry\.(?:json|protobuf))\..*",
    r"import org\.apache\.kafka\.connect\..*",
    r"import io\.apicurio\.registry\.(?:support|rest\.client)\..*",
)
_REPLACED: Final = (
    *((rf"^(?:{line})$", "") for line in (_OF_QUARKUS, *_OF_OTHERS)),
    (
        r"    @(?:Test|AfterEach)\n    \w+ void (?:METHODS)\w*\(.*?\n    \}\n".replace(
            "METHODS", "|".join(_METHODS_LEFT_OUT)
        ),
        "",
    ),
    (r"    private void testConverter\(.*?\n    \}\n", ""),
    (r"retry\(\(\) -> \{\s*HealthUtils[^}]*\}\);", ""),
    (r"new (?:Json|Protobuf)SchemaProvider\(\),?", ""),
    (r"new AvroSchemaProvider\(\),\s*\)", "new AvroSchemaProvider())"),
    (r"\bio\.confluent\.kafka\.", rf"{_FLINK}.registry.confluent.shaded.io.confluent.kafka."),
    (r"(?<![\w.])org\.apache\.avro\.", rf"{_FLINK}.shaded.org.apache.avro."),
    (r'"http://localhost:" \+ testPort \+ "/apis/ccompat/v7"', 'System.getProperty("registry")'),
    (r'"/ccompat/v7', '"'),
)


def _run(place: Place) -> Outcomes:
    sources, classes, reports = (place.directory / name for name in ("sources", "classes", "reports"))
    files = [*_copied(place.sources / _TESTS, sources), *_OWN.glob("*.java")]
    jars = os.pathsep.join(_jars())
    options = ["-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", jars, "-d", str(classes)]
    told = output_of(
        ["javac", *options, *map(str, files)], place.directory, os.environ, place.directory / "javac", seconds=300
    )
    if re.search(r"^\d+ errors?$", told, re.MULTILINE):
        raise NothingRan(told[-3000:])
    chosen = ["--scan-classpath", str(classes)] if place.chosen is None else place.chosen.split()
    command = ["java", f"-Dregistry={place.registry}", "-cp", f"{jars}{os.pathsep}{classes}"]
    console = ["org.junit.platform.console.ConsoleLauncher", "execute", "--reports-dir", str(reports), *chosen]
    told = output_of([*command, *console], place.directory, os.environ, place.directory / "log", seconds=_SECONDS_MAX)
    found = dict(_outcomes(reports))
    if not found:
        raise NothingRan(told[-3000:])
    return found


def _copied(tests: Path, to: Path) -> Iterator[Path]:
    for path in sorted(tests.rglob("*.java")):
        if path.name in _FILES_LEFT_OUT:
            continue
        text = path.read_text()
        for pattern, replacement in _REPLACED:
            text = re.sub(
                pattern, replacement, text, flags=re.MULTILINE | re.DOTALL if "\\n" in pattern else re.MULTILINE
            )
        copy = to / path.relative_to(tests)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text)
        yield copy


def _jars() -> list[str]:
    """JUnit, Rest-Assured, Confluent's client, and Apicurio's own classes; the first are fetched once."""
    libraries = kept() / "apicurio-tests"
    if not libraries.exists():
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={libraries}"]
        subprocess.run(
            ["mvn", "-q", "-B", "-f", _OWN / "pom.xml", f"{_PLUGIN}:copy-dependencies", *options], check=True
        )
    client = next((kept() / "flink" / "libs").glob("flink-sql-avro-confluent-registry-*.jar"), None)
    registry = next((kept() / "apicurio").glob("*-runner.jar"), None)
    if client is None or registry is None:
        raise NothingRan("no Flink or no Apicurio Registry: make kafka-clients gets them by Maven")
    return [f"{libraries}/*", str(client), str(registry)]


def _outcomes(reports: Path) -> Iterator[tuple[str, str]]:
    for path in reports.glob("TEST-junit-jupiter.xml"):
        for case in ElementTree.parse(path).iter("testcase"):
            name = f"{case.attrib['classname'].rpartition('.')[2]}::{case.attrib['name'].removesuffix('()')}"
            failed = case.find("failure") is not None or case.find("error") is not None
            yield name, "fail" if failed else "skip" if case.find("skipped") is not None else "pass"


def _choosing(tests: Sequence[str]) -> str:
    """For the console launcher."""
    packages = {"SubjectVersionStringTest": "rest"}
    own = "io.apicurio.registry.noprofile.ccompat"
    parts = (test.split("::") for test in tests)
    return " ".join(f"--select-method={own}.{packages.get(file, 'rest.v7')}.{file}#{name}" for file, name in parts)


SUITE: Final = Suite(name="apicurio", run=_run, choosing=_choosing, needs_checkout=True, is_of_registry=True)
