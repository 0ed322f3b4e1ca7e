"""How Java begins fast where it lives for some minutes at most and shares its processors with gateways."""

from __future__ import annotations

from typing import Final

FAST_START: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
