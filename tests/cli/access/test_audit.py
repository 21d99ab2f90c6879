"""`lingua audit`: list, export, verify; each kind of tampering is named, and the exit code says so."""

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from rich.progress import Progress

from lingua_scheduler.cli.access import audit as command
from lingua_scheduler.cli.main import main
from lingua_scheduler.domain.access.audit import AuditEntry, AuditNote, read_entry
from lingua_scheduler.domain.access.audit_anchors import statement
from lingua_scheduler.domain.access.audit_keys import AuditKeys
from lingua_scheduler.protocol.sealing import read_keys
from lingua_scheduler.services.access.audit_key_files import audit_keys
from lingua_scheduler.services.access.auditing import Auditor
from lingua_scheduler.store.store import Store
from tests.support.audits import ACTOR
from tests.support.desks import desk_on
from tests.support.servers import RedisProcess

SECRET = b"s" * 32
KEYS = AuditKeys([SECRET])
BROKEN = 1
SETTINGS = 2


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "audit.key"
    path.write_text(SECRET.hex())
    return path


def lingua(server: RedisProcess, *arguments: str, stdin: str | None = None) -> Result:
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("LINGUA_")}
    runner = CliRunner(env={**clean, "COLUMNS": "300"})
    return runner.invoke(main, ["audit", *arguments, "--redis-url", server.url], input=stdin)


def on_store(server: RedisProcess, work: Callable[[Store], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        store = Store(server.url, key_prefix="lingua:v1", timeout_ms=30_000)
        await store.open()
        await work(store)
        await store.close()

    asyncio.run(run())


@pytest.fixture
def written(server: RedisProcess) -> list[AuditEntry]:
    """Ten entries; the first begins the chain."""

    async def write(store: Store) -> None:
        auditor = Auditor(store.audit, KEYS, "i-1")
        for number in range(2, 11):
            action = "keys.create" if number % 2 else "nodes.drain"
            await auditor.write(AuditNote(actor=ACTOR, action=action, object=f"thing-{number}", values={"n": number}))
        found.extend(entry for entry in map(read_entry, (await store.audit.page())[0]) if entry is not None)

    found: list[AuditEntry] = []
    on_store(server, write)
    return found


def log_of(entry: AuditEntry, keys: AuditKeys = KEYS) -> str:
    fields = {"seq": entry.seq, "hash": entry.hash, "key": keys.current, "signature": keys.sign(statement(entry.head))}
    return json.dumps(fields | {"event": "audit.anchor"}) + "\n"


def call(server: RedisProcess, *words: str) -> None:
    async def work(store: Store) -> None:
        await store.line.call(*words)

    on_store(server, work)


def test_the_latest_entries_are_listed_newest_first(server: RedisProcess, written: list[AuditEntry]) -> None:
    lines = lingua(server, "list", "--limit", "3").output.splitlines()
    assert [line.split()[0] for line in lines] == ["seq", "10", "9", "8"]
    assert "operator:abcdefghijkl@10.0.0.1" in lines[1]
    assert "nodes.drain" in lines[1]
    assert "n=10" in lines[1]


def test_entries_can_be_chosen_by_action_and_actor(server: RedisProcess, written: list[AuditEntry]) -> None:
    def seqs(*arguments: str) -> list[int]:
        return [one["seq"] for one in json.loads(lingua(server, "list", "--json", *arguments).output)["entries"]]

    assert seqs("--action", "keys.create") == [9, 7, 5, 3]
    assert seqs("--action", "keys") == [9, 7, 5, 3]
    assert seqs("--action", "key") == []
    assert seqs("--actor", "10.0.0.1", "--limit", "2") == [10, 9]
    assert seqs("--actor", "scheduler") == [1]


def test_an_empty_log_is_told(server: RedisProcess, key_file: Path) -> None:
    assert "no such entries" in lingua(server, "list").output
    result = lingua(server, "verify", "--key-file", str(key_file))
    assert (result.exit_code, "is empty" in result.output) == (0, True)
    assert lingua(server, "export").output == ""


def test_an_export_has_every_entry_as_it_is_kept(
    server: RedisProcess, written: list[AuditEntry], tmp_path: Path
) -> None:
    lines = lingua(server, "export").output.splitlines()
    assert [read_entry(line) for line in lines] == written
    path = tmp_path / "out.jsonl"
    assert f"10 lines written to {path}" in lingua(server, "export", "--output", str(path)).output
    assert path.read_text().splitlines() == lines
    assert lingua(server, "export", "--output", str(tmp_path / "no" / "out")).exit_code == SETTINGS


def test_a_whole_log_is_good_and_the_public_key_is_shown(
    server: RedisProcess, written: list[AuditEntry], key_file: Path
) -> None:
    result = lingua(server, "verify", "--key-file", str(key_file))
    assert result.exit_code == 0
    assert "unbroken" in result.output
    assert "entries 1 to 10, 10 in all" in result.output
    assert KEYS.public_key(KEYS.current) in result.output
    assert SECRET.hex() not in result.output


@pytest.mark.parametrize(
    ("words", "first", "kind"),
    [
        (("XDEL", "lingua:v1:{audit}:log", "5-0"), 5, "missing"),
        (("XDEL", "lingua:v1:{audit}:log", "10-0"), 10, "missing"),
        (("XDEL", "lingua:v1:{audit}:log", "1-0"), 1, "missing"),
        (("XADD", "lingua:v1:{audit}:log", "11-0", "entry", "{}"), 11, "unreadable"),
        (("SET", "lingua:v1:{audit}:head", "4 " + "ab" * 32), 4, "replaced"),
    ],
)
def test_tampering_is_named_with_its_place(
    server: RedisProcess, written: list[AuditEntry], key_file: Path, words: tuple[str, ...], first: int, kind: str
) -> None:
    call(server, *words)
    result = lingua(server, "verify", "--key-file", str(key_file))
    assert result.exit_code == BROKEN
    assert f"the first fault is at entry {first}" in result.output
    found = json.loads(lingua(server, "verify", "--json", "--key-file", str(key_file)).output)
    assert (found["good"], found["faults"][0]["seq"], found["faults"][0]["kind"]) == (False, first, kind)


def test_a_tail_cut_off_with_its_head_is_found_with_anchors(
    server: RedisProcess, written: list[AuditEntry], key_file: Path, tmp_path: Path
) -> None:
    log = tmp_path / "lingua.log"
    log.write_text("something else\n" + log_of(written[3]) + log_of(written[8]))
    anchored = ("verify", "--key-file", str(key_file), "--anchors", str(log))
    good = lingua(server, *anchored)
    assert (good.exit_code, "2 anchors checked" in good.output) == (0, True)
    for number in (8, 9, 10):
        call(server, "XDEL", "lingua:v1:{audit}:log", f"{number}-0")
    call(server, "SET", "lingua:v1:{audit}:head", str(written[6].head))
    assert lingua(server, "verify", "--key-file", str(key_file)).exit_code == 0
    result = lingua(server, *anchored)
    assert result.exit_code == BROKEN
    assert "entries 8 to 9 (missing)" in result.output
    result = lingua(server, "verify", "--key-file", str(key_file), "--anchors", "-", stdin=log.read_text())
    assert result.exit_code == BROKEN


def test_after_redis_was_emptied_anchors_tell_what_is_missing(
    server: RedisProcess, written: list[AuditEntry], key_file: Path, tmp_path: Path
) -> None:
    async def begin_anew(store: Store) -> None:
        await Auditor(store.audit, KEYS, "i-2").write(AuditNote(actor=ACTOR, action="nodes.drain"))

    log = tmp_path / "lingua.log"
    log.write_text(log_of(written[9]))
    server.flush()
    on_store(server, begin_anew)
    assert lingua(server, "verify", "--key-file", str(key_file)).exit_code == 0
    result = lingua(server, "verify", "--key-file", str(key_file), "--anchors", str(log))
    assert (result.exit_code, "entries 3 to 10 (missing)" in result.output) == (BROKEN, True)


def test_after_redis_was_emptied_the_memory_of_this_machine_tells_that_there_was_more(
    server: RedisProcess, tmp_path: Path
) -> None:
    async def serve_and_change() -> None:
        changes: Any = {
            "auth__backup_file": "credentials.json",
            "redis__data_dir": str(tmp_path),
            "redis__url": server.url,
        }
        async with desk_on(server.url, tmp_path, **changes) as desk:
            for _ in range(3):
                await desk.made("admin", kind="service", tenant="acme")
        # The leader signs the head before it stops.

    asyncio.run(serve_and_change())
    (tmp_path / "cluster.key").write_text((b"1" * 32).hex())
    (tmp_path / "cluster.key").chmod(0o600)
    arguments = ("verify", "--data-dir", str(tmp_path))
    whole = lingua(server, *arguments)
    assert (whole.exit_code, "the audit log is unbroken" in whole.output) == (0, True), whole.output
    server.flush()
    emptied = lingua(server, *arguments)
    assert emptied.exit_code == BROKEN, emptied.output
    assert "the log is shorter than it was: this machine remembers entry" in emptied.output
    told = json.loads(lingua(server, *arguments, "--json").stdout)
    assert (told["good"], told["entries"], told["faults"][0]["kind"]) == (False, 0, "missing")
    # Without a memory it cannot be known.
    for file in tmp_path.glob("*.audit-anchor"):
        file.unlink()
    forgotten = lingua(server, *arguments)
    assert (forgotten.exit_code, "the log is empty" in forgotten.output) == (0, True)


def test_a_known_loss_can_be_left_behind(server: RedisProcess, written: list[AuditEntry], key_file: Path) -> None:
    call(server, "XDEL", "lingua:v1:{audit}:log", "5-0")
    assert lingua(server, "verify", "--key-file", str(key_file), "--from", "6").exit_code == 0


def test_files_without_anchors_are_told(server: RedisProcess, written: list[AuditEntry], key_file: Path) -> None:
    result = lingua(server, "verify", "--key-file", str(key_file), "--anchors", str(key_file))
    assert (result.exit_code, "contain no anchor" in result.output) == (SETTINGS, True)


def test_without_the_key_nothing_is_judged(
    server: RedisProcess, written: list[AuditEntry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "empty"))
    result = lingua(server, "verify")
    assert (result.exit_code, "--key-file" in result.output) == (SETTINGS, True)
    result = lingua(server, "verify", "--key-file", str(tmp_path / "none.key"))
    assert (result.exit_code, "cannot be used" in result.output) == (SETTINGS, True)


def test_the_cluster_key_of_the_data_folder_is_used(server: RedisProcess, tmp_path: Path) -> None:
    (tmp_path / "cluster.key").write_text(SECRET.hex())
    keys = audit_keys(None, read_keys(SECRET.hex()))

    async def write(store: Store) -> None:
        await Auditor(store.audit, keys, "i-1").write(AuditNote(actor=ACTOR, action="nodes.drain"))

    on_store(server, write)
    result = lingua(server, "verify", "--data-dir", str(tmp_path))
    assert (result.exit_code, keys.current in result.output) == (0, True)


def test_a_long_export_has_a_progress_bar_on_a_terminal(
    server: RedisProcess, written: list[AuditEntry], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown: list[bool] = []

    def progress(*columns: Any, disable: bool, **options: Any) -> Any:
        shown.append(not disable)
        return Progress(*columns, disable=True, **options)

    monkeypatch.setattr("lingua_scheduler.cli.access.audit.Progress", progress)
    monkeypatch.setattr(Console, "is_terminal", True)
    lingua(server, "export")
    monkeypatch.setattr(command, "LONG", 10)
    lingua(server, "export")
    assert shown == [False, True]
