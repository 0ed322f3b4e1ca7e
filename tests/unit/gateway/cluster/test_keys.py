"""The file with the cluster's keys: one or two, hard to guess, readable by its user alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.cluster.keys import read_key_file
from gateway.process.assembly import assemble
from gateway.settings.settings import Settings, SettingsError

KEY = "0123456789abcdef" * 4


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """Empty, and private."""
    path = tmp_path / "key"
    path.touch(0o600)
    return path


def test_one_key_or_two(key_file: Path) -> None:
    """In the file's order: the first signs. A mounted secret that the group may read is one, too."""
    key_file.write_text(f"{KEY}\n")
    assert read_key_file(str(key_file)) == (KEY.encode(),)
    key_file.chmod(0o440)
    assert read_key_file(str(key_file)) == (KEY.encode(),)
    key_file.chmod(0o600)
    key_file.write_text(f"{KEY[::-1]}\r\n{KEY}\n\n")
    assert read_key_file(str(key_file)) == (KEY[::-1].encode(), KEY.encode())


@pytest.mark.parametrize("text", ["", "short", f"{KEY}\n" * 3, KEY * 100, f"{KEY}\nshort"])
def test_what_is_no_key_is_refused(key_file: Path, text: str) -> None:
    """The gateway does not start with a key that is easy to guess, and shows none."""
    key_file.write_text(text)
    with pytest.raises(SettingsError, match=re.escape("TIDELOG_CLUSTER_KEY_FILE")) as refused:
        assemble(Settings(store="memory://keys", cluster_key_file=str(key_file)))
    assert KEY not in str(refused.value)


def test_a_key_that_every_user_reads_is_refused(key_file: Path) -> None:
    """And so is a file that is not there: no gateway falls back to the key that readers of the store know."""
    key_file.write_text(KEY)
    key_file.chmod(0o604)
    with pytest.raises(ValueError, match="chmod o-r"):
        read_key_file(str(key_file))
    with pytest.raises(ValueError, match="No such file"):
        read_key_file(str(key_file) + "x")
