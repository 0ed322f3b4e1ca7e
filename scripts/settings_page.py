"""Write docs/settings.md: every setting of topics and of gateways, from the code. A test runs this and compares.

python scripts/settings_page.py          # writes the page
python scripts/settings_page.py --print  # writes it to standard output
"""
# ruff: noqa: INP001, T201 - a program of its own that talks to a terminal

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gateway.settings.settings import ENVIRONMENT_PREFIX, Settings
from log_format.topic.cluster_columns import ColumnsSetting
from log_format.topic.config import OWN_SETTINGS, SETTINGS, ChoiceSetting, SubjectSetting, TableRetentionSetting
from tidelog.cli.terminal.units import in_words

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "settings.md"
MEANINGS = [ROOT / "docs" / "http-api" / page for page in ("topics.md", "many-topics.md")]
_ROW = re.compile(r"^\| `([a-z.]+)` \| [^|]+ \| (.+) \|$", re.MULTILINE)
_HEAD = """# Settings

Every setting of topics and of gateways.
`scripts/settings_page.py` writes this page from the code, and a test compares them.

## Of topics

`tidelog topic create NAME -c SETTING=VALUE`, `tidelog topic alter`, `Admin.alter_topic` and `PATCH /v1/topics/{topic}` set them.
The command line takes units: `7d`, `1h30m`, `8MiB`.
`tidelog topic describe NAME` shows all.
Those marked "own" are Tidelog's; the others are Kafka's, with their meaning.

| setting | default | range | meaning |
|---|---|---|---|
"""
_GATEWAY = """
## Of gateways

On the command line `--store`, in the environment `TIDELOG_STORE`; the command line wins.
The same for each.
`tidelog serve --help` shows them, too.

| setting | environment | default | range | meaning |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    return _HEAD + "".join(_topic_rows()) + _GATEWAY + "".join(_gateway_rows())


def _topic_rows() -> list[str]:
    text = "".join(page.read_text() for page in MEANINGS).replace("](../", "](")  # links from one folder above
    meanings = dict(_ROW.findall(text))
    rows = []
    for name, setting in SETTINGS.items():
        if isinstance(setting, ChoiceSetting):
            default, span = f"`{setting.default}`", ", ".join(f"`{choice}`" for choice in setting.choices)
        elif isinstance(setting, SubjectSetting):
            default, span = "", "name of a subject"
        elif isinstance(setting, TableRetentionSetting):
            default, span = f"`{setting.default}`", f"`{setting.default}`, -1 …"
        elif isinstance(setting, ColumnsSetting):
            default, span = "", "columns, separated by commas"
        else:
            largest = "" if setting.maximum == 2**63 - 1 else f"{setting.maximum}"
            default, span = in_words(name, setting.default), f"{setting.minimum} … {largest}".rstrip()
        own = " (own)" if name in OWN_SETTINGS else ""
        rows.append(f"| `{name}` | {default} | {span} | {meanings[name]}{own} |\n")
    return rows


def _gateway_rows() -> list[str]:
    properties: dict[str, dict[str, Any]] = Settings.model_json_schema()["properties"]
    rows = []
    for name, field in Settings.model_fields.items():
        schema = properties[name]
        kinds = [schema, *schema.get("anyOf", ())]
        choices = next((kind["enum"] for kind in kinds if "enum" in kind), None)
        least = next((kind["minimum"] for kind in kinds if "minimum" in kind), None)
        most = next((kind["maximum"] for kind in kinds if "maximum" in kind), None)
        if choices is not None:
            span = ", ".join(f"`{choice}`" for choice in choices)
        else:
            span = "" if least is None else f"{least} … {'' if most is None else most}".rstrip()
        default = "" if field.is_required() or field.default_factory is not None else _default(field.default)
        meaning = (field.description or "").replace("|", "\\|").replace("\n", " ")
        option = "--" + name.replace("_", "-")
        rows.append(f"| `{option}` | `{ENVIRONMENT_PREFIX}{name.upper()}` | {default} | {span} | {meaning} |\n")
    return rows


def _default(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return str(value) if isinstance(value, int) else f"`{value}`"


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(page())
    else:
        PAGE.write_text(page())
        print(f"{PAGE.relative_to(ROOT)} is written")
