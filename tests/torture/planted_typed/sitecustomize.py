"""A planted fault: a gateway that starts with this beside it loses the marks of records that no schema allows.

``tests/torture/test_typed.py`` starts gateways so, and has to find such records unmarked.
"""

import pyarrow as pa

from log_format.schemas.columns import codec

codec._errors = lambda _misfits, count: pa.nulls(count, pa.string())  # type: ignore[assignment]
