"""A pipeline's settings: options over a file, and refusals that name the setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_pipeline.jobs.pipeline.settings import MAX_OFFSETS_PER_TRIGGER, Settings, read_settings
from spark_pipeline.option_refused import OptionRefused

NEEDED = {"store": "s3://bucket/log", "topic": "flights", "output": "s3://bucket/lake/", "schema": "hour INT"}
GOLD = """
[gold.delays]
event_time = "time_hour"
watermark = "3 hours"
window = "1 hour"
group_by = ["carrier"]
columns = { flights = "count(*)" }
"""


def written(directory: Path, text: str) -> str:
    path = directory / "pipeline.toml"
    path.write_text(text)
    return str(path)


def test_four_options_are_a_pipeline() -> None:
    """Everything else has a default."""
    settings = read_settings(None, NEEDED)
    assert (settings.dead_letter_topic, settings.starting_offsets) == ("flights.dead-letters", "earliest")
    assert settings.max_offsets_per_trigger == MAX_OFFSETS_PER_TRIGGER
    assert (settings.silver, settings.checkpoint("silver")) == (
        "s3://bucket/lake/silver",
        "s3://bucket/lake/checkpoints/silver",
    )


def test_options_win_over_the_file(tmp_path: Path) -> None:
    """A typed schema replaces the file's, of either kind."""
    config = written(tmp_path, 'topic = "a"\nstore = "x"\noutput = "y"\nschema_file = "none.json"\n' + GOLD)
    settings = read_settings(config, {"topic": "b", "schema": "hour INT", "group": None})
    assert (settings.topic, settings.ddl, settings.group) == ("b", "hour INT", None)
    assert settings.output == f"file:{Path('y').absolute()}"
    (gold,) = settings.gold
    assert (gold.name, gold.key) == ("delays", ("window_start", "window_end", "carrier"))


@pytest.mark.parametrize("by_uri", [False, True])
def test_a_schema_lies_beside_the_file(tmp_path: Path, by_uri: bool) -> None:
    """On a cluster the two come from the bucket together."""
    (tmp_path / "flight.json").write_text(json.dumps({"type": "object"}))
    config = written(tmp_path, 'topic = "a"\nstore = "x"\noutput = "y"\nschema_file = "flight.json"')
    settings = read_settings(Path(config).as_uri() if by_uri else config, {})
    assert settings.json_schema == {"type": "object"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"store": None}, "store: is missing"),
        ({"schema": None}, "schema: is missing"),
        ({"schema_file": "x"}, "schema: is missing, or schema_file is there, too"),
        ({"topic": "a/b"}, "topic: 'a/b' can't name a topic"),
        ({"dead_letter_topic": "flights"}, "dead_letter_topic: is the topic itself"),
        ({"max_offsets_per_trigger": 0}, "max_offsets_per_trigger: is not"),
        ({"window": "1 hour"}, "window: there is no such setting"),
        ({"group": ""}, "group: is not a text"),
        ({"checks": {"a": 1}}, "checks: is no table of texts"),
        ({"gold": {"A b": {}}}, "gold.A b: a name is of"),
        ({"gold": {"a": {"windows": "1 hour"}}}, "gold.a.windows: there is no such setting"),
        ({"gold": {"a": {"event_time": "t", "watermark": "1 hour"}}}, "gold.a.window: is missing"),
        (
            {"gold": {"a": {"event_time": "t", "watermark": "1 hour", "window": "1 hour", "group_by": "x"}}},
            "gold.a.group_by: is no list",
        ),
        ({"gold": {"a": {"event_time": "t", "watermark": "1 hour", "window": "1 hour"}}}, "gold.a.columns: is missing"),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, Any], message: str) -> None:
    """Before Spark is started."""
    with pytest.raises(OptionRefused) as refused:
        read_settings(None, NEEDED | changed)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(("text", "message"), [("x", "is no TOML"), (None, "can't be read")])
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    """By its name."""
    config = str(tmp_path / "missing.toml") if text is None else written(tmp_path, text)
    with pytest.raises(OptionRefused, match=message):
        read_settings(config, NEEDED)


def test_the_example_in_the_documentation_is_valid(tmp_path: Path) -> None:
    """The module's own example, which operators copy."""
    documented = Settings.__module__
    module = __import__(documented, fromlist=["__doc__"])
    assert module.__doc__ is not None
    text = module.__doc__.split("::\n", 1)[1].replace("\n    ", "\n")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("schema_file"))
    settings = read_settings(written(tmp_path, text), {})
    assert settings.gold[0].unique == ("carrier", "flight", "time_hour")
    assert settings.checks == {"hour: is not on the clock": "hour BETWEEN 0 AND 23"}
