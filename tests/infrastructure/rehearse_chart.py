"""Try the chart with Helm itself: ``python tests/infrastructure/rehearse_chart.py HELM [DIRECTORY]``.

For each set of values in ``tests/support/chart_values.py`` Helm must make the objects that ``make test`` gets by a small
implementation of Helm's language, or refuse them with the same words. The objects go into a file each in ``DIRECTORY``.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "infra/helm/tidelog"
sys.path.append(str(ROOT))
from tests.support.chart_values import ACCEPTED, REFUSED, STORE, UNFIT, over  # noqa: E402
from tests.support.manifests import templated  # noqa: E402


def _template(helm: str, values: dict[str, Any], directory: Path) -> subprocess.CompletedProcess[str]:
    file = directory / "values.in"
    file.write_text(yaml.safe_dump(values))
    command: list[str | Path] = [helm, "template", "tidelog", CHART, "--namespace", "logs", "--values", file]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _by_name(objects: Any) -> dict[tuple[str, str], Any]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects if each}


def rehearse(helm: str, directory: Path) -> list[str]:
    """Return what went otherwise than it should."""
    chart = {str(path.relative_to(CHART)): path.read_text() for path in CHART.rglob("*") if path.is_file()}
    defaults = over(yaml.safe_load(chart["values.yaml"]), STORE)
    wrong = []
    for name, values in ACCEPTED.items():
        done = _template(helm, over(STORE, values), directory)
        if done.returncode != 0:
            wrong.append(f"{name}: {done.stderr}")
            continue
        (directory / f"{name.replace(' ', '-').replace(',', '')}.yaml").write_text(done.stdout)
        made = _by_name(yaml.safe_load_all(done.stdout))
        expected = _by_name(templated(chart, over(defaults, values), "logs"))
        differ = {key for key in made.keys() | expected.keys() if made.get(key) != expected.get(key)}
        wrong += [f"{name}: {kind} {called} is not what tests get" for kind, called in sorted(differ)]
    for name, (values, words) in {**REFUSED, **UNFIT}.items():
        done = _template(helm, over(STORE, values), directory)
        if done.returncode == 0 or words not in done.stderr:
            wrong.append(f"{name}: not refused with {words!r}: {done.stderr}")
    return wrong


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        found = rehearse(sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else temporary))
    if found:
        raise SystemExit("\n".join(found))
    print(
        f"Helm makes {len(ACCEPTED)} sets of objects as tests get them, and refuses {len(REFUSED) + len(UNFIT)} of values"
    )
