"""Exit codes, with the same meaning for every command."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

from log_format.errors import TidelogError
from tidelog.errors import GatewayUnreachable


class ExitCode(IntEnum):
    """Exit codes. Append-only: scripts rely on them."""

    OK = 0
    FAILED = 1
    """A check did not hold (verify, demo), or something failed on this machine."""
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    OUTCOME_UNKNOWN = 5
    INTERRUPTED = 130


EPILOG = (
    "Exit codes: 0 done; 1 failed, or a check failed; 2 wrong usage; 3 no gateway could be reached; "
    "4 the gateway refused, and nothing changed; 5 unknown whether the change was made; 130 interrupted by Ctrl-C."
)


def exit_code_for(error: TidelogError) -> ExitCode:
    """Return the exit code for an error of the SDK."""
    if error.may_have_happened:
        return ExitCode.OUTCOME_UNKNOWN
    if any(isinstance(cause, GatewayUnreachable) for cause in _chain(error)):
        return ExitCode.UNREACHABLE
    return ExitCode.REFUSED


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, each once: an error raised again "from" itself is its own cause."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__
