"""What the SDK needs to be installed: neither Spark, nor a web framework, nor a store's client, and pyarrow only for tables."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fake_gateway import FakeGateway

SERVERS_ONLY = ["pyspark", "fastapi", "starlette", "uvicorn", "boto3", "botocore", "gateway", "spark_pipeline"]
ARROW = ["pyarrow", "numpy", "pandas"]

BLOCK = "import sys\nsys.modules.update(dict.fromkeys({names!r}))\n"
PRODUCE = """
from tidelog import Producer
with Producer({url!r}) as producer:
    futures = [producer.send("t", str(number), key="k") for number in range(2_000)]
assert [future.result().offset for future in futures] == list(range(2_000))
"""


def _run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("blocked", [SERVERS_ONLY, SERVERS_ONLY + ARROW], ids=["servers", "servers-and-arrow"])
def test_records_are_sent_without_what_is_not_installed(gateway: FakeGateway, blocked: list[str]) -> None:
    """The SDK imports and sends thousands of records, a batch large enough for Arrow, where these can't be imported."""
    gateway.create("t")
    _run(BLOCK.format(names=blocked) + PRODUCE.format(url=gateway.url))
    assert gateway.values("t") == [[str(number).encode() for number in range(2_000)]]


def test_pyarrow_is_not_imported_before_it_is_used(gateway: FakeGateway) -> None:
    """A program that sends a few records does not wait for the import of pyarrow."""
    gateway.create("t")
    few = PRODUCE.replace("2_000", "3").format(url=gateway.url)
    _run(f"{few}\nimport sys\nassert not {{'pyarrow', 'numpy', 'pandas'}} & set(sys.modules)\n")


@pytest.mark.parametrize("foreign", ["log_format.py", "log_format/__init__.py"])
def test_a_file_of_the_users_that_stands_in_the_way_is_named(tmp_path: Path, foreign: str) -> None:
    """A script beside a ``log_format`` of its own learns in one sentence what to rename; the file itself is not run."""
    path = tmp_path / foreign
    path.parent.mkdir(exist_ok=True)
    path.write_text("print('foreign')\n")
    script = tmp_path / "script.py"
    script.write_text("import tidelog\n")
    done = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True, timeout=60)
    last = done.stderr.strip().splitlines()[-1]
    named = tmp_path / foreign.removesuffix("/__init__.py")
    assert last == f"ImportError: {named} hides Tidelog's own package log_format: rename it"
    assert done.stdout == ""


def test_other_files_of_the_users_are_no_matter(tmp_path: Path) -> None:
    """The SDK imports nothing else at the top level: a script may have a ``gateway``, ``compaction`` or ``spark_pipeline``."""
    for name in ("gateway", "compaction", "spark_pipeline"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('foreign')\n")
    script = tmp_path / "script.py"
    script.write_text("import tidelog, tidelog.aio, tidelog.cli.app\n")
    done = subprocess.run([sys.executable, str(script)], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
