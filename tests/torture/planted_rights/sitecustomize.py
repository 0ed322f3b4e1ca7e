"""A planted fault: a gateway that starts with this beside it looks at the access table once, and never again.

``tests/torture --rights --planted`` starts one gateway so, and has to find requests that were let in too long.
"""

import asyncio

from gateway.access.rights import Rights
from gateway.access.watch import AccessWatch


async def _never(_watch: AccessWatch) -> None:
    await asyncio.Event().wait()


async def _as_it_is(_rights: Rights, _revision: int) -> None:
    return None


async def _not_again(_rights: Rights) -> None:
    return None


AccessWatch._round = _never  # type: ignore[assignment]
AccessWatch._keep_small = _never  # type: ignore[assignment]
Rights.refresh_to = _as_it_is  # type: ignore[assignment]
Rights.refresh_if_old = _not_again  # type: ignore[assignment, method-assign]
