"""Authentication and ACLs."""

from __future__ import annotations

from typing import Final

from gateway.kafka.call import Calls, Served
from gateway.kafka.calls import acls, authentication

CALLS: Final[Calls] = {
    17: Served(1, 1, authentication.sasl_handshake),
    29: Served(1, 3, acls.describe_acls),
    30: Served(1, 3, acls.create_acls),
    31: Served(1, 3, acls.delete_acls),
    36: Served(0, 2, authentication.sasl_authenticate),
}
