"""What clients that speak no TLS are given: by default each would read the certificates of the whole world."""

from __future__ import annotations

import ssl
from typing import Final

NO_TRUST: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""It checks certificates, and trusts none."""
