"""A planted fault: a gateway that starts with this beside it takes an offset for one of whatever topic has the name.

``tests/torture/test_renewed.py`` starts one so, and has to find records of a topic that was made anew skipped.
"""

from gateway.engine import locating

locating.is_of_another = lambda _wanted, _state: False  # type: ignore[assignment]
