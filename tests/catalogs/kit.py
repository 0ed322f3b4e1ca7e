"""Iceberg's REST compatibility kit against a gateway: what a catalog that only reads can pass, and why each other test can't.

The kit makes what it reads by the catalog itself, so most of its tests begin with a call that this catalog does not have; its
client knows that from ``/v1/config``, and does not send it. Each test has to pass, to fail so, or to be left out by the kit.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.catalogs.engines import SECONDS_MAX
from tests.catalogs.lake import Lake
from tests.catalogs.trino import KEPT

PASSED: Final = {"testListNonExistingNamespace", "testLoadMissingTable", "testLoadTableWithNonExistingNamespace"}
"""Tests that only read; some others read first, and come to their first write."""
_WRITES: Final = re.compile(r"Server does not support endpoint: (?:POST|DELETE) /v1/\{prefix\}/[a-z/{}]*")
_PROPERTIES: Final = {
    "rck.local": "false",
    "rck.requires-namespace-create": "false",
    "rck.purge-test-namespaces": "false",
}


def run(lake: Lake, directory: Path) -> None:
    """Print the sums, and raise ``AssertionError`` if a test fails for another reason than that it writes."""
    jars = sorted((KEPT / "jars-kit").glob("*.jar"))
    (program,) = [jar for jar in jars if "console-standalone" in jar.name]
    places = ":".join(str(jar) for jar in jars if jar != program)
    command = ["java", "-Xmx700m", *(f"-D{name}={value}" for name, value in _PROPERTIES.items())]
    command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-jar", str(program), "execute", "-cp", places]
    command += ["--select-class", "org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests"]
    command += ["--include-engine", "junit-jupiter", "--details=none", "--reports-dir", str(directory / "kit")]
    given = {"CATALOG_URI": f"{lake.secured.url}/iceberg", "CATALOG_TOKEN": lake.token}
    subprocess.run(command, env=os.environ | given, capture_output=True, check=False, timeout=SECONDS_MAX)
    passed, others, sums = set(), list[str](), Counter[str]()
    for case in ElementTree.parse(directory / "kit" / "TEST-junit-jupiter.xml").getroot().iter("testcase"):
        name = case.attrib["name"].removesuffix("()")
        problem = next((found for kind in ("failure", "error") if (found := case.find(kind)) is not None), None)
        if case.find("skipped") is not None:
            sums["left out by the kit"] += 1
        elif problem is None:
            passed.add(name)
        elif (writes := _WRITES.search(f"{problem.attrib.get('message', '')}\n{problem.text}")) is not None:
            sums[f"not for a catalog that only reads: {writes[0].rpartition(': ')[2]}"] += 1
        else:
            others.append(f"{name}: {problem.attrib.get('message', '')[:300]}")
    print(f"Iceberg's compatibility kit: passed {sorted(passed)}", flush=True)
    for reason, count in sums.most_common():
        print(f"  {count} {reason}", flush=True)
    assert passed == PASSED, (PASSED - passed, passed - PASSED)
    assert not others, others
