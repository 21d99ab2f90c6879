"""The keys of the audit log come from a file of their own, else from the cluster key."""

from pathlib import Path

import pytest

from lingua_scheduler.protocol.sealing import Keyring, new_key_text
from lingua_scheduler.services.access.audit_key_files import AuditKeyError, audit_keys


def test_they_are_derived_from_the_cluster_key_in_its_order() -> None:
    one, two = b"1" * 32, b"2" * 32
    assert audit_keys(None, Keyring([one, two])).ids == (
        *audit_keys(None, Keyring([one])).ids,
        *audit_keys(None, Keyring([two])).ids,
    )


def test_a_file_of_their_own_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "audit.key"
    path.write_text(f"# keys\n{new_key_text()}\n{new_key_text()}\n{new_key_text()}\n")
    found = audit_keys(path, Keyring([b"1" * 32]))
    assert len(found.ids) == 3
    assert audit_keys(None, Keyring([b"1" * 32])).current not in found.ids


def test_without_either_the_log_is_unkeyed() -> None:
    assert not audit_keys(None, None).is_keyed


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "openssl rand -hex 32"),
        (b"abc\n", "not a key of 64"),
        (b"\xff", "not text"),
        (b"# none\n", "0 keys"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "audit.key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AuditKeyError, match=reason) as raised:
        audit_keys(path, None)
    assert str(path) in str(raised.value)
