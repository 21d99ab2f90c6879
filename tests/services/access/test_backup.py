"""The copy of credentials in a file: private, whole or not there, and no way to make keys."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.access.credential_sets import CredentialSet
from lingua_scheduler.domain.access.credentials import Revocation, tenant_name
from lingua_scheduler.domain.access.issuers import Issuer
from lingua_scheduler.services.access.backup import Backup
from lingua_sdk.domain.key_texts import KeyKind
from tests.support.credentials import key

KNOWN = CredentialSet(
    {key(name).id: key(name, revoked_ms=5) for name in "ab"},
    {"k1": Issuer(id="k1", issuer="https://acme.example")},
    {tenant_name("acme"): Revocation(1, 2)},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "credentials.json"


async def test_what_was_written_is_read_back(path: Path) -> None:
    assert await Backup(path).write(KNOWN)
    assert await Backup(path).read() == KNOWN


async def test_no_copy_is_an_empty_one_and_no_news(path: Path) -> None:
    with capture_logs() as logged:
        assert await Backup(path).read() == CredentialSet()
    assert logged == []


async def test_only_its_owner_may_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        await Backup(path).write(KNOWN)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_the_draft_is_written_beside_the_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder for temporary files may be on another file system, from where nothing can be renamed into place."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    assert await Backup(path).write(KNOWN)


@pytest.mark.parametrize("mode", [0o620, 0o602])
async def test_a_copy_that_others_could_have_written_is_not_believed(path: Path, mode: int) -> None:
    await Backup(path).write(KNOWN)
    path.chmod(mode)
    with capture_logs() as logged:
        assert await Backup(path).read() == CredentialSet()
    assert [line["event"] for line in logged] == ["credentials.backup_unread"]
    assert "chmod 600" in logged[0]["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"credentials": []}', b'{"credentials": {"a": 1}'])
async def test_a_broken_copy_is_no_copy(path: Path, body: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(body)
    path.chmod(0o600)
    with capture_logs() as logged:
        assert await Backup(path).read() == CredentialSet()
    assert [line["event"] for line in logged] == ["credentials.backup_unread"]


async def test_a_broken_entry_takes_no_other_with_it(path: Path) -> None:
    await Backup(path).write(KNOWN)
    content = msgspec.json.decode(path.read_bytes())
    content["credentials"][key("a").id]["digest"] = "short"
    content["revocations"]["else"] = [1, 2]
    path.write_bytes(msgspec.json.encode(content))
    with capture_logs() as logged:
        found = await Backup(path).read()
    assert found == KNOWN._replace(credentials={key("b").id: key("b", revoked_ms=5)})
    assert [(line["event"], line["skipped"]) for line in logged] == [("credentials.backup_damaged", 2)]


async def test_a_write_that_fails_leaves_the_copy_before_and_is_told_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = Backup(path)
    await backup.write(KNOWN)

    def full(_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, capture_logs() as logged:
        patch.setattr(os, "fsync", full)
        assert not await backup.write(CredentialSet())
        assert not await backup.write(CredentialSet())
    assert [line["event"] for line in logged] == ["credentials.backup_unwritten"]
    assert await backup.read() == KNOWN
    assert list(path.parent.iterdir()) == [path]
    assert await backup.write(CredentialSet())
    assert await backup.read() == CredentialSet()


async def test_instances_that_write_at_the_same_time_leave_a_whole_copy(path: Path) -> None:
    await asyncio.gather(*(Backup(path).write(KNOWN) for _ in range(10)))
    assert await Backup(path).read() == KNOWN
    assert list(path.parent.iterdir()) == [path]


async def test_a_private_key_is_read_back_as_it_was(path: Path) -> None:
    known = CredentialSet({"n": key("n", kind=KeyKind.NODE, tenant="acme", is_private=True)})
    known = CredentialSet({one.id: one for one in known.credentials.values()})
    assert await Backup(path).write(known)
    assert await Backup(path).read() == known
    assert b'"@acme"' in path.read_bytes()
