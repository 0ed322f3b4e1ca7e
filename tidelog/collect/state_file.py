"""The state file: held by one agent at a time, replaced atomically, and durable before anything relies on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from tidelog.closing import Closing
from tidelog.collect.state import State, StateDamaged, decode_state, encode_state

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class StateFileError(Exception):
    """The state can't be used; the message says what to do."""


class StateFile(Closing):
    """State file held by this process.

    Only its user can read the file: with the producer id in it, another program could make requests that pass for this agent's.
    After ``save`` returns, the state survives a crash of the process and of the machine. ``FILE.lock`` next to it is locked
    while the process lives, and is never removed.
    """

    def __init__(self, path: Path) -> None:
        """Lock the file. Raises ``StateFileError`` when another agent holds it, ``OSError`` when the directory can't be
        written."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise StateFileError(
                f"another agent uses {path}: stop it, or give this one another state file with --state"
            ) from None
        except OSError:
            os.close(self._lock)
            raise

    def load(self, topic: str) -> State:
        """Return the state, or a fresh one if there is none. Raises ``StateFileError`` if it is damaged or another topic's."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return State(topic=topic)
        try:
            state = decode_state(data)
        except StateDamaged as error:
            raise StateFileError(
                f"{self.path} is damaged: {error}. Put a copy of it back if you have one. Without it nobody knows what was "
                f"sent: move it away, then '--from beginning' sends everything again (what was sent before is twice in the "
                f"topic), and '--from end' skips what was written since."
            ) from error
        if state.topic != topic:
            raise StateFileError(
                f"{self.path} belongs to topic {state.topic}, not to {topic}: give another file with --state"
            )
        return state

    def save(self, state: State) -> None:
        """Replace the state. Raises ``OSError``; the old state is then unchanged."""
        temporary = Path(f"{self.path}.new")
        # A file left by a crash may have another mode, or be a link.
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, _NEW_FILE, 0o600), "wb", buffering=0) as file:
            data = memoryview(encode_state(state))
            while data:
                data = data[file.write(data) :]
            os.fsync(file.fileno())
        temporary.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Release the lock, so that another agent may use the file."""
        with contextlib.suppress(OSError):
            os.close(self._lock)
