"""Commands that change Redis themselves are in the audit log, as far as they have its key."""

import asyncio
import getpass
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lingua_scheduler.cli import redis_access
from lingua_scheduler.cli.main import main
from lingua_scheduler.domain.access.audit import AuditEntry, AuditNote, AuditOutcome, read_entry
from lingua_scheduler.domain.access.audit_keys import AuditKeys
from lingua_scheduler.protocol.sealing import read_keys
from lingua_scheduler.services.access.audit_key_files import audit_keys
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.store.servers.embedded import EmbeddedServer
from lingua_scheduler.store.store import Store
from tests.support.audits import ACTOR, OTHER_KEYS
from tests.support.servers import RedisProcess

SECRET = "ab" * 32
KEYS = audit_keys(None, read_keys(SECRET))


def lingua(server: RedisProcess, folder: Path, *arguments: str) -> Result:
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("LINGUA_")}
    words = [*arguments, "--redis-url", server.url, "--data-dir", str(folder)]
    return CliRunner(env={**clean, "COLUMNS": "300"}).invoke(main, words)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    store = Store(url, key_prefix="lingua:v1", timeout_ms=30_000)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def on_store(server: RedisProcess, work: Callable[[Store], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with opened(server.url) as store:
            await work(store)

    asyncio.run(run())


def entries(server: RedisProcess) -> list[AuditEntry]:
    async def read(store: Store) -> None:
        found.extend(entry for entry in map(read_entry, (await store.audit.page())[0]) if entry is not None)

    found: list[AuditEntry] = []
    on_store(server, read)
    return found


def begin(server: RedisProcess, keys: AuditKeys) -> None:
    async def write(store: Store) -> None:
        await Auditor(store.audit, keys, "i-1").write(AuditNote(actor=ACTOR, action="nodes.drain"))

    on_store(server, write)


def test_a_key_that_is_created_is_noted_by_its_id(server: RedisProcess, tmp_path: Path) -> None:
    (tmp_path / "cluster.key").write_text(SECRET)
    begin(server, KEYS)
    made = lingua(server, tmp_path, "keys", "create", "--kind", "service")
    entry = entries(server)[-1]
    assert entry.action == "keys.create"
    assert made.stdout.startswith(entry.object + "_")
    assert len(entry.object) == len("lk_sv_k3jPq0aZ81Ty")


@pytest.mark.parametrize(
    ("arguments", "action", "thing"),
    [
        (("drain", "n1"), "nodes.drain", "n1"),
        (("resume", "n1"), "nodes.resume", "n1"),
        (("release", "n1"), "nodes.release", "n1"),
        (("evict", "n1"), "nodes.evict", "n1"),
        (("cancel", "job-0-1"), "jobs.cancel", "job-0-1"),
        (("dead-letters", "purge", "--all"), "dead-letters.purge", "all"),
        (("dead-letters", "replay", "s1:1-0"), "dead-letters.replay", "s1:1-0"),
        (("redis", "upgrade"), "redis.upgrade", ""),
        (("keys", "rotate", "lk_sv_k3jPq0aZ81Ty"), "keys.rotate", "k3jPq0aZ81Ty"),
        (("keys", "revoke", "k3jPq0aZ81Ty", "aaaPq0aZ81Ty"), "keys.revoke", "k3jPq0aZ81Ty aaaPq0aZ81Ty"),
        (("keys", "revoke", "--all-of", "acme"), "revocations.create", "acme"),
        (("keys", "issuer", "revoke", "app-1"), "issuers.revoke", "app-1"),
    ],
)
def test_a_command_is_noted_with_the_user_and_the_host(
    server: RedisProcess, tmp_path: Path, arguments: tuple[str, ...], action: str, thing: str
) -> None:
    (tmp_path / "cluster.key").write_text(SECRET)
    begin(server, KEYS)
    lingua(server, tmp_path, *arguments)
    entry = entries(server)[-1]
    assert (entry.action, entry.outcome) == (action, AuditOutcome.REQUESTED)
    assert entry.object == thing or not thing
    assert str(entry.actor) == f"redis:{getpass.getuser()}@{socket.gethostname()}"
    assert KEYS.is_right(entry)


async def test_the_key_is_found_beside_the_embedded_redis_that_a_scheduler_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The path of a socket must be short.
    folder = Path(tempfile.mkdtemp())
    (folder / "cluster.key").write_text(SECRET)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "elsewhere"))
    async with EmbeddedServer(folder) as embedded, opened(embedded.url) as store:
        await Auditor(store.audit, KEYS, "i-1").write(AuditNote(actor=ACTOR, action="nodes.drain"))
        monkeypatch.setattr(redis_access, "redis_of", lambda _url: embedded.url)
        run = CliRunner(env={"LINGUA_URL": "http://127.0.0.1:5010"}).invoke
        made = await asyncio.to_thread(run, main, ["keys", "create", "--kind", "service"])
        assert made.exit_code == 0, made.output
        assert "hint" not in made.stderr
        found = [read_entry(text) for text in (await store.audit.page())[0]]
    shutil.rmtree(folder)
    assert [entry.action for entry in found if entry is not None] == ["chain.begun", "nodes.drain", "keys.create"]


def test_a_command_continues_the_chain_of_the_schedulers(server: RedisProcess, tmp_path: Path) -> None:
    (tmp_path / "cluster.key").write_text(SECRET)
    begin(server, KEYS)
    lingua(server, tmp_path, "drain", "n1")
    result = lingua(server, tmp_path, "audit", "verify")
    assert (result.exit_code, [entry.seq for entry in entries(server)]) == (0, [1, 2, 3])


def test_a_command_that_only_reads_is_not_noted(server: RedisProcess, tmp_path: Path) -> None:
    (tmp_path / "cluster.key").write_text(SECRET)
    begin(server, KEYS)
    for arguments in (("instances",), ("dead-letters",), ("jobs",)):
        lingua(server, tmp_path, *arguments)
    assert len(entries(server)) == 2


@pytest.mark.parametrize("key", [None, SECRET])
def test_without_the_key_of_the_log_a_command_says_that_it_is_not_noted(
    server: RedisProcess, tmp_path: Path, key: str | None
) -> None:
    if key is not None:
        (tmp_path / "cluster.key").write_text(key)
    begin(server, OTHER_KEYS)
    assert "not noted" in lingua(server, tmp_path, "dead-letters", "purge", "--all").output
    assert len(entries(server)) == 2


def test_where_no_log_is_kept_a_command_begins_none(server: RedisProcess, tmp_path: Path) -> None:
    (tmp_path / "cluster.key").write_text(SECRET)
    result = lingua(server, tmp_path, "dead-letters", "purge", "--all")
    assert (result.exit_code, "not noted" in result.output) == (0, False)
    assert entries(server) == []


def test_a_key_that_cannot_be_read_ends_the_command_before_it_does_anything(
    server: RedisProcess, tmp_path: Path
) -> None:
    (tmp_path / "cluster.key").write_text("rubbish")
    result = lingua(server, tmp_path, "dead-letters", "purge", "--all")
    assert (result.exit_code, "cannot be used" in result.output) == (2, True)
