"""The settings of the console; part of ``gateway.settings``."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class ConsoleSettings(BaseModel):
    """Setting of the console. Each field says what changing it does."""

    console: Literal["on", "off", "readonly"] = Field(
        default="on",
        description="The console for browsers at /. readonly: it offers no changes; what a client may do does not change by it."
        " off: / has links only.",
    )
