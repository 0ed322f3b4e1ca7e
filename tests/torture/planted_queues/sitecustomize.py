"""A planted fault: a gateway that starts with this beside it counts a delivery of each record that it gives away.

``tests/torture/test_handlers.py`` starts one so, and has to find deliveries that count though no handler began.
"""

from gateway.queues import receiving

receiving._note_unbegun = lambda _delivered, _begun_max: None  # type: ignore[assignment]
