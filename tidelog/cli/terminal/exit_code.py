"""What a command's exit code says, for every command alike."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from log_format.errors import TidelogError
from tidelog.errors import GatewayUnreachable


class ExitCode(IntEnum):
    """Append-only: scripts rely on them."""

    OK = 0
    FAILED = 1
    """What was to be shown is not so (verify, demo), or something on this machine went wrong."""
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    OUTCOME_UNKNOWN = 5
    INTERRUPTED = 130


EPILOG = (
    "Exit codes: 0 done; 1 failed, or the check did not hold; 2 wrong usage; 3 no gateway could be reached; "
    "4 the gateway refused, and nothing changed; 5 it is unknown whether it happened; 130 interrupted by Ctrl-C."
)


def exit_code_for(error: TidelogError) -> ExitCode:
    """The code for an error of the SDK."""
    if error.may_have_happened:
        return ExitCode.OUTCOME_UNKNOWN
    if any(isinstance(cause, GatewayUnreachable) for cause in _chain(error)):
        return ExitCode.UNREACHABLE
    return ExitCode.REFUSED


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes, each once: one that is raised again "from" itself is its own cause."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__
