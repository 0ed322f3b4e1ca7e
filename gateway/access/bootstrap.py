"""The file with the token of ``User:bootstrap``, read once at start."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from gateway.access.token import BOOTSTRAP_ID, Token, parse_token

_BYTES_MAX: Final = 1024
_OTHERS: Final = stat.S_IRWXO | stat.S_IWGRP
"""Permissions that the file must not have. The group may read: where Kubernetes mounts a secret, its files are the group's."""


def read_bootstrap_token(path: str) -> Token:
    """Return the token in the file. Raise ``ValueError`` if there is none, or if users other than the owner have access."""
    try:
        with Path(path).open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(_BYTES_MAX)
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    if mode & _OTHERS:
        raise ValueError(f"{path} has mode {mode:04o}: others can read the token; chmod 600 {path}")
    token = parse_token(text.strip())
    if token is None or token.id != BOOTSTRAP_ID:
        raise ValueError(f"{path} must have one line: tl_{BOOTSTRAP_ID}_ and 43 characters of base64url")
    return token
