"""What ``infra/docker/slim.sh`` takes out of the gateway's image is not asked for there.

``imports.py`` finds what modules import when the image is built; this test finds what functions ask for when they run.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LEFT_OUT = re.compile(
    r"\b(?:np|numpy)\.(?:random|fft|polynomial|testing)\b"
    r"|\b(?:pq|parquet)\.(?:read_table|ParquetDataset|write_to_dataset)\b"
    r"|\bpyarrow(?:\.| import )(?:csv|dataset|feather|flight|orc|substrait)\b"
    r"|\bencryption_properties\b|\b(?:boto3|session)\.resource\("
)


def test_gateways_ask_for_nothing_that_their_image_lacks() -> None:
    """No module of ours that the image has names a part that was taken out; the demo's packages are not there."""
    sources = [path for package in ("gateway", "log_format", "tidelog") for path in (ROOT / package).rglob("*.py")]
    found = {
        str(path.relative_to(ROOT)): LEFT_OUT.findall(path.read_text()) for path in sources if path.parts[-2] != "demo"
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_what_is_left_out_would_be_found() -> None:
    """Each way to ask for such a part is seen, and what stays is not."""
    asked = ["np.random.default_rng()", "pq.read_table(x)", "from pyarrow import csv", "import pyarrow.dataset as ds"]
    assert [line for line in asked if not LEFT_OUT.search(line)] == []
    assert not any(map(LEFT_OUT.search, ["pq.ParquetFile(x)", "import pyarrow.json as pj", "np.dot(a, b)"]))
