"""Names by which a gateway may be addressed: the value of ``Host``.

This is against DNS rebinding: a web site whose name suddenly resolves to a gateway's address. To the browser the gateway is
then the site's own server, and only ``Host`` still has the site's name. Always allowed are:

1. Addresses: a page loaded from an address was not loaded from a name that now points elsewhere.
2. ``localhost`` and names that end in it: browsers never ask a name server for these.
3. The host of ``advertised_url``, by which the other gateways forward.

This is no access control: any other client may send any ``Host``.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

URL_PATTERN: Final = r"^https?://([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?/?$"
"""Pattern of a URL where a gateway can be reached: no user, path, query or fragment."""
ADDRESS_PATTERN: Final = r"^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}$"
"""Pattern of ``host:port``."""
HOST_NAMES_PATTERN: Final = r"^\s*\.?[A-Za-z0-9_-][A-Za-z0-9._-]*(\s*,\s*\.?[A-Za-z0-9_-][A-Za-z0-9._-]*)*\s*$"
"""Pattern of a comma-separated list of names; a name that begins with a dot means everything below it."""
ZONE_PATTERN: Final = r"^[A-Za-z0-9._-]{1,64}$"
"""Pattern of the name of an availability zone, which a gateway tells the others."""
EVERY_ADDRESS: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on

_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._~-]{1,253})(?::[0-9]{0,5})?")
_HOST_BYTES_MAX: Final = 260
_CACHE_SIZE: Final = 256


def reachable(*hosts: str | None) -> list[str]:
    """Return the addresses that other machines can reach; None: no address."""
    return [host for host in hosts if host is not None and not is_loopback(host)]


def is_loopback(host: str) -> bool:
    """Return whether an address to listen on can be reached from this machine only."""
    address = _address(host.strip("[]"))
    return host.lower() == "localhost" if address is None else address.is_loopback


class AllowedHosts:
    """Judge of ``Host`` headers for a listener on ``host``. ``names``: the setting ``allowed_hosts``; None: the default."""

    def __init__(self, *, host: str, names: str | None, advertised_url: str | None) -> None:
        listed = [] if names is None else [name.strip().lower() for name in names.split(",")]
        self._exact = {name for name in listed if not name.startswith(".")}
        if advertised_url is not None:
            self._exact.add((urlsplit(advertised_url).hostname or "").lower())
        self._below = (".localhost", *(name for name in listed if name.startswith(".")))
        self._any = names is None and not is_loopback(host)
        # A name of one label is no public web site: containers and machines of one network have such names.
        self._one_label = names is None
        self._judged = lru_cache(maxsize=_CACHE_SIZE)(self._judge)

    def allow(self, header: bytes) -> bool:
        """Return whether a request with this header is served."""
        return len(header) <= _HOST_BYTES_MAX and self._judged(header)

    def _judge(self, header: bytes) -> bool:
        match = _HOST.fullmatch(header)
        if match is None:
            return False
        name = match[1].decode("ascii").lower()
        if self._any or name == "localhost" or name in self._exact or _address(name.strip("[]")) is not None:
            return True
        name = name.removesuffix(".")
        return name.endswith(self._below) or name in self._exact or (self._one_label and "." not in name)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
