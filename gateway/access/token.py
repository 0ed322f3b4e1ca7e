"""Tokens: ``tl_<id>_<secret>``. The secret has 256 bits, so its SHA-256 is stored, and no slow hash is needed.

The token of ``User:bootstrap`` comes from a file, read once at start.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

ID_CHARACTERS: Final = 16
BOOTSTRAP_ID: Final = "bootstrap"
TOKEN_BEGINS: Final = b"tl_"
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_TOKEN: Final = re.compile(rb"tl_([A-Za-z0-9]{8,32})_([A-Za-z0-9_-]{43})")


class Token(NamedTuple):
    """A token's parts. ``sha256``: hash of its secret."""

    id: str
    sha256: str


class NewToken(NamedTuple):
    """A new token. ``text`` is shown once and not stored."""

    id: str
    text: str
    sha256: str


def new_token(token_id: str | None = None) -> NewToken:
    """Make a token with a new secret; ``token_id`` None: with a new id, too."""
    token_id = token_id or "".join(secrets.choice(_ALPHABET) for _ in range(ID_CHARACTERS))
    secret = secrets.token_urlsafe(32)
    return NewToken(token_id, f"tl_{token_id}_{secret}", sha256(secret.encode()).hexdigest())


def parse_token(text: bytes) -> Token | None:
    """Return the parts of a token; None for any other text."""
    match = _TOKEN.fullmatch(text)
    return None if match is None else Token(match[1].decode("ascii"), sha256(match[2]).hexdigest())


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
