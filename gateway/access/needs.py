"""Rights that a route needs of its caller: each endpoint declares them, so that none is forgotten.

``@needs(Need("Read", "group", path="group"), Need("Read", "topic"))`` stands below the route's own decorator.

1. A right on a resource that the path names is checked before the endpoint (``gateway.asgi.authorization``).
2. The endpoint itself checks the others (``gateway.gateway.require``): the resource is in the body, in a header, or depends on
   what the path names.
3. ``@needs()`` is for what every caller with a valid credential may do; ``@open_to_all`` for what needs no credential.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from log_format.access.acls import CLUSTER, Operation, ResourceType

_DECLARED: Final = "tidelog_needs"
E = TypeVar("E", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Need:
    """A right. ``path``: the part of the path that names the resource; None: the endpoint finds the resource and checks the
    right, except for the cluster, which needs no name."""

    operation: Operation
    resource_type: ResourceType
    path: str | None = None
    or_alter_cluster: bool = False
    """Whether Alter on the cluster is accepted instead, so that its holder can clean up others' leftovers."""

    @property
    def is_judged_ahead(self) -> bool:
        """Whether the resource is known from the path."""
        return self.path is not None or self.resource_type == CLUSTER


@dataclass(frozen=True, slots=True)
class Needs:
    """All rights that a route needs, in the order in which they are checked. ``is_open``: not even a credential is needed."""

    rights: tuple[Need, ...] = ()
    is_open: bool = False
    judged_ahead: tuple[Need, ...] = field(init=False)
    """Rights whose resource is known from the path."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "judged_ahead", tuple(need for need in self.rights if need.is_judged_ahead))


def needs(*rights: Need) -> Callable[[E], E]:
    """Declare an endpoint's rights."""

    def declared(endpoint: E) -> E:
        setattr(endpoint, _DECLARED, Needs(rights))
        return endpoint

    return declared


def open_to_all(endpoint: E) -> E:
    """Declare that an endpoint serves callers without a credential."""
    setattr(endpoint, _DECLARED, Needs(is_open=True))
    return endpoint


def needs_of(endpoint: Callable[..., Any]) -> Needs:
    """Return what the endpoint declares. Raise ``TypeError`` if it declares nothing."""
    declared = getattr(endpoint, _DECLARED, None)
    if not isinstance(declared, Needs):
        raise TypeError(f"{endpoint!r} declares no rights: @needs(...) or @open_to_all goes below its route")
    return declared
