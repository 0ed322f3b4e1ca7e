"""How Java begins fast where it lives for some minutes at most and shares its processors with gateways."""

from __future__ import annotations

from typing import Final

FAST_START: Final = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    # Room for all that Spark's tests compile and load. With C1 alone Java takes 48 MiB for code: from then on it sweeps that
    # again and again, and compiles anew what it swept away.
    "-XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m -XX:NewRatio=1"
)

INTERPRETED: Final = f"{FAST_START} -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
"""So begun, Spark interprets a query's expressions, where it would compile Java for few rows. The demo compiles, as users do."""
