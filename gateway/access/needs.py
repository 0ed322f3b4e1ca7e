"""What a route needs: each endpoint declares it, so that none is forgotten.

``@needs(Need("Read", "group", path="group"), Need("Read", "topic"))`` stands below the route's own decorator.

1. A right that names a part of the path is judged ahead of the endpoint (``gateway.asgi.authorization``).
2. The others the endpoint judges itself (``gateway.gateway.require``): the resource is in the body, in a header, or in what the
   path names.
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
    """A right. ``path``: the part of the path that names the resource; None: the endpoint finds it and judges, but for the
    cluster, which needs no name."""

    operation: Operation
    resource_type: ResourceType
    path: str | None = None
    or_alter_cluster: bool = False
    """Whether cluster Alter does in its place: its holder cleans up behind others."""

    @property
    def is_judged_ahead(self) -> bool:
        """Whether the path tells the resource."""
        return self.path is not None or self.resource_type == CLUSTER


@dataclass(frozen=True, slots=True)
class Needs:
    """All that a route needs, in the order in which it is judged. ``is_open``: not even a credential."""

    rights: tuple[Need, ...] = ()
    is_open: bool = False
    judged_ahead: tuple[Need, ...] = field(init=False)
    """Of the rights, those whose resource the path tells."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "judged_ahead", tuple(need for need in self.rights if need.is_judged_ahead))


def needs(*rights: Need) -> Callable[[E], E]:
    """Declares an endpoint's rights."""

    def declared(endpoint: E) -> E:
        setattr(endpoint, _DECLARED, Needs(rights))
        return endpoint

    return declared


def open_to_all(endpoint: E) -> E:
    """Declares that an endpoint serves callers without a credential."""
    setattr(endpoint, _DECLARED, Needs(is_open=True))
    return endpoint


def needs_of(endpoint: Callable[..., Any]) -> Needs:
    """What the endpoint declares. Raises ``TypeError`` where it declares nothing."""
    declared = getattr(endpoint, _DECLARED, None)
    if not isinstance(declared, Needs):
        raise TypeError(f"{endpoint!r} declares no rights: @needs(...) or @open_to_all goes below its route")
    return declared
