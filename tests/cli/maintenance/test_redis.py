"""`lingua redis` and `lingua redis-cluster` as people and scripts use them."""

import asyncio
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.domain.maintenance.versions import DATA_VERSION
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.store import Store
from tests.cli.test_commands import ended, lingua, needs_linux, started
from tests.support.fleet import POOL, dispatch, entry, join, order
from tests.support.schedulers import scheduler_on, serve_process
from tests.support.servers import RedisProcess
from tests.support.waiting import until

FOUND, SETTINGS, REDIS = 1, 2, 3
NEWER = DATA_VERSION + 1


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def ready(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(90):
        about: dict[str, Any] = json.loads(await process.stdout.readline())
    return about


def pids_of(about: dict[str, Any]) -> list[int]:
    return [server["pid"] for server in about["masters"] + about["replicas"]]


# redis-cluster start


@needs_linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_cluster_to_try_works_and_leaves_nothing_behind(number: signal.Signals) -> None:
    async with started("redis-cluster", "start", "--masters", "3", "--replicas", "1", "--json") as process:
        about = await ready(process)
        assert (len(about["masters"]), len(about["replicas"])) == (3, 3)
        store = Store(about["url"], key_prefix="lingua:v1")
        await store.open()
        await join(store, entry("n1"))
        await dispatch(store, order(1))
        await store.close()
        process.send_signal(number)
        code, _ = await ended(process)
        assert code == 0
        assert not any(map(is_there, pids_of(about)))
        assert not Path(about["folder"]).exists()


@needs_linux
async def test_the_servers_of_a_killed_command_end_with_it() -> None:
    async with started("redis-cluster", "start", "--masters", "2", "--replicas", "0", "--json") as process:
        about = await ready(process)
        process.kill()
        await process.wait()
        await until(lambda: not any(map(is_there, pids_of(about))), what="servers without a parent end")
        shutil.rmtree(about["folder"])


@needs_linux
async def test_people_see_the_address_and_what_ends(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    words = ("redis-cluster", "start", "--masters", "1", "--replicas", "1", "--data-dir", str(folder))
    async with started(*words) as process:
        assert process.stdout is not None
        shown: list[str] = []
        async with asyncio.timeout(90):
            while not shown or "Ctrl-C" not in shown[-1]:
                shown.append((await process.stdout.readuntil()).decode())
        assert [line.split()[0] for line in shown[:3]] == ["master", "replica", "logs"]
        assert "lingua serve --redis-url redis+cluster://127.0.0.1:" in shown[-2]
        assert sorted(path.name for path in folder.iterdir()) == ["server-1", "server-2"]
        address, pid = shown[1].split()[1], int(shown[1].split()[-1])
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(90):
            assert (await process.stdout.readline()).decode() == f"server {address} has ended\n"
        process.terminate()
        assert (await ended(process))[0] == 0
    assert not folder.exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    refused = lingua("redis-cluster", "start", "--data-dir", str(tmp_path))
    assert refused.exit_code == SETTINGS
    assert "is not empty" in refused.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("binary", "words"), [("/nowhere/redis", "does not exist"), ("/bin/echo", "not a Redis or Valkey")]
)
def test_a_server_that_cannot_run_is_named(binary: str, words: str) -> None:
    for refused in (
        lingua("redis-cluster", "start", "--server-binary", binary),
        lingua("redis-cluster", "start", LINGUA_REDIS_SERVER_BINARY=binary),
    ):
        assert refused.exit_code == REDIS
        assert words in refused.output


# redis check


@pytest.fixture(autouse=True)
def looks_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Checkup.look, "__defaults__", (0.05,))


async def in_thread(*arguments: str) -> Any:
    """These commands run a loop of their own."""
    return await asyncio.to_thread(lingua, *arguments)


async def test_a_redis_in_order_is_said_so(server: RedisProcess, store: Store) -> None:
    await store.claim_data()
    await join(store, entry("n1"))
    shown = await in_thread("redis", "check", "--redis-url", server.url)
    assert shown.exit_code == 0
    assert "no problems found" in shown.stdout
    for words in ("Valkey", "standalone", "a restart loses everything", "noeviction", f"version {DATA_VERSION}"):
        assert words in shown.stdout


async def test_what_is_wrong_is_found_then_repaired(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    pool = store.keys.shard(0).pool(POOL)
    await store.line.call("SADD", pool, "ghost")
    shown = await in_thread("redis", "check", "--redis-url", server.url)
    assert shown.exit_code == FOUND
    assert f"found  pool {POOL} contains node ghost, which is not registered\n       {pool}\n" in shown.stdout
    assert "lingua redis check --repair" in shown.stdout
    as_json = json.loads((await in_thread("redis", "check", "--redis-url", server.url, "--json")).stdout)
    assert {finding["kind"] for finding in as_json["findings"]} == {"member_unknown", "summary_wrong"}

    repaired = await in_thread("redis", "check", "--repair", "--redis-url", server.url)
    assert repaired.exit_code == 0
    assert "fixed  pool" in repaired.stdout
    again = await in_thread("redis", "check", "--repair", "--json", "--redis-url", server.url)
    assert again.exit_code == 0
    assert (json.loads(again.stdout)["findings"], json.loads(again.stdout)["repaired"]) == ([], [])


def test_a_redis_that_is_not_there_is_named() -> None:
    refused = lingua("redis", "check", "--redis-url", "redis://127.0.0.1:1")
    assert refused.exit_code == REDIS
    assert "cannot be reached" in refused.output


# redis acl


def test_the_rights_are_printed_for_the_prefix_in_use() -> None:
    shown = lingua("redis", "acl", "--user", "me", LINGUA_REDIS_KEY_PREFIX="mine")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("ACL SETUSER me reset on >PASSWORD ~mine:* resetchannels &mine:* +")
    assert " +evalsha " in shown.stdout
    assert "+@" not in shown.stdout


# The version of the data


async def test_no_scheduler_starts_on_data_it_does_not_know(server: RedisProcess, store: Store, tmp_path: Path) -> None:
    await store.line.call("SET", store.keys.version, NEWER)
    async with serve_process(tmp_path, "--redis-url", server.url) as serving:
        async with asyncio.timeout(90):
            assert await serving.process.wait() == REDIS
        said = serving.log.strip().splitlines()[-1]
    assert f"data has version {NEWER}" in said
    assert "install the release that wrote it" in said
    assert "Traceback" not in serving.log


@pytest.mark.parametrize(
    "words", [("drain", "n1"), ("resume", "n1"), ("redis", "check", "--repair"), ("redis", "upgrade")]
)
async def test_no_command_writes_to_data_it_does_not_know(
    server: RedisProcess, store: Store, words: tuple[str, ...]
) -> None:
    await store.line.call("SET", store.keys.version, NEWER)
    await join(store, entry("n1"))
    refused = await in_thread(*words, "--redis-url", server.url)
    assert refused.exit_code == REDIS
    assert f"data has version {NEWER}" in refused.output


@pytest.mark.parametrize("words", [("redis", "check"), ("pools",), ("nodes",), ("instances",)])
async def test_no_command_says_that_all_is_well_with_data_it_cannot_read(
    server: RedisProcess, store: Store, words: tuple[str, ...]
) -> None:
    await store.line.call("SET", store.keys.version, NEWER)
    refused = await in_thread(*words, "--redis-url", server.url)
    assert refused.exit_code == REDIS
    assert f"data has version {NEWER}" in refused.output
    assert await store.versions.read() == str(NEWER)


async def test_an_upgrade_is_finished_by_a_person(server: RedisProcess, store: Store) -> None:
    await store.line.call("SET", store.keys.version, DATA_VERSION - 1)
    await store.claim_data()
    assert await store.versions.read() == str(DATA_VERSION - 1)
    shown = await in_thread("redis", "upgrade", "--redis-url", server.url)
    assert (shown.exit_code, shown.stdout) == (0, f"the data is now at version {DATA_VERSION}\n")
    again = await in_thread("redis", "upgrade", "--redis-url", server.url, "--json")
    assert json.loads(again.stdout) == {"data_version": DATA_VERSION, "outcome": "same"}


async def test_a_scheduler_marks_the_data_again_after_a_flush(
    server: RedisProcess, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lingua_scheduler.app.DATA_VERSION_S", 0.05)
    async with scheduler_on(server.url):
        assert await store.versions.read() == str(DATA_VERSION)
        server.flush()
        await until(store.versions.read, what="the version is written again")
