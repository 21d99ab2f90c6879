"""Files that are written whole, for their owner alone."""

import errno
import os
from pathlib import Path

import pytest

from lingua_sdk.private_files import write_private


def test_a_file_and_its_folder_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "lingua" / "node.json"
    write_private(path, b"secret")
    assert path.read_bytes() == b"secret"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_what_was_there_is_replaced_and_its_mode_too(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    path.write_bytes(b"a longer one than what follows")
    path.chmod(0o644)
    write_private(path, b"short")
    assert path.read_bytes() == b"short"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_the_file_of_before_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "node.json"
    write_private(path, b"before")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_private(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
