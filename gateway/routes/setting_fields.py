"""Topic settings in the bodies of requests, with their schema for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import WithJsonSchema

from log_format.topic.cluster_columns import ColumnsSetting
from log_format.topic.config import (
    SETTINGS,
    SUBJECT_CHARACTERS_MAX,
    ChoiceSetting,
    IntegerSetting,
    SubjectSetting,
    TableRetentionSetting,
)


def _setting_schema(
    setting: IntegerSetting | ChoiceSetting | SubjectSetting | TableRetentionSetting | ColumnsSetting,
) -> dict[str, Any]:
    default = {"default": setting.default}
    if isinstance(setting, TableRetentionSetting):
        text = {"type": "string", "pattern": r"^(log|\s*[+-]?[0-9]{1,19}\s*)$"}
        return {"anyOf": [{"type": "integer", "minimum": -1}, text, {"type": "null"}], **default}
    if isinstance(setting, ChoiceSetting):
        return {"type": ["string", "null"], "examples": list(setting.choices), **default}
    if isinstance(setting, ColumnsSetting):
        return {"type": ["string", "null"], "examples": ["timestamp", "key,timestamp", "data.user_id"], **default}
    if isinstance(setting, SubjectSetting):
        return {"type": ["string", "null"], "maxLength": SUBJECT_CHARACTERS_MAX, **default}
    number = {"type": "integer", "minimum": setting.minimum, "maximum": setting.maximum}
    return {"anyOf": [number, {"type": "string", "pattern": r"^\s*[+-]?[0-9]{1,19}\s*$"}, {"type": "null"}], **default}


Config = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "description": "Settings by Kafka's names; numbers may be text, null gives the default",
            "properties": {name: _setting_schema(setting) for name, setting in SETTINGS.items()},
            "additionalProperties": False,
        }
    ),
]
"""Settings in a request; ``TopicConfig`` parses them, because its refusals have their own error code."""
