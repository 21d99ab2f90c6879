"""A user with the least rights can do all we do; one with less is told so at the start."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lingua_scheduler.store import rights
from lingua_scheduler.store.maintenance.checkup import Checkup
from lingua_scheduler.store.maintenance.facts import facts_of
from lingua_scheduler.store.scripts import read_library
from lingua_scheduler.store.servers.local_cluster import LocalServer
from lingua_scheduler.store.store import Store, StoreError
from tests.store.test_replies import everything
from tests.support.clocks import Clock
from tests.support.clusters import Cluster, Server, start
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import binaries

LIBRARY = read_library()
PREFIX = "lingua:v1"
USER = "lingua"
PASSWORD = "pw"
LINE = rights.acl_line(LIBRARY, PREFIX, USER, PASSWORD)
SOURCE = Path(rights.__file__).parent
# Said by these tests and by servers among themselves, not by the scheduler.
NOT_OURS = {"acl|setuser", "acl", "flushall", "config|resetstat", "config", "ping", "client|setinfo", "client"}
IN_A_CLUSTER = {
    "cluster|info",
    "cluster|myid",
    "cluster|meet",
    "cluster|addslots",
    "cluster|set-config-epoch",
    "cluster",
}


class Guarded:
    """Servers on which nobody but our user may do anything."""

    def __init__(self, servers: list[LocalServer], url: str) -> None:
        self.servers = servers
        self.url = url

    def allow(self, *changes: str) -> None:
        for server in self.servers:
            server.command(*LINE.split())
            if changes:
                server.command("ACL", "SETUSER", USER, *changes)

    def seen(self) -> set[str]:
        """Every command that was carried out since `forget`."""
        stats = (row for server in self.servers for row in server.info("commandstats"))
        return {row.removeprefix("cmdstat_") for row in stats}

    def forget(self) -> None:
        for server in self.servers:
            server.command("FLUSHALL")
            server.command("CONFIG", "RESETSTAT")


@pytest.fixture(params=[*binaries(), "cluster"], scope="module")
def guarded(request: pytest.FixtureRequest) -> Iterator[Guarded]:
    binary = binaries()["valkey" if request.param == "cluster" else request.param]
    if binary is None:
        pytest.skip(f"{request.param} is not on this machine")
    if request.param == "cluster":
        cluster = Cluster(binary)
        yield Guarded(cluster.servers, f"redis+cluster://{USER}:{PASSWORD}@{cluster.hosts}")
        cluster.stop()
        return
    server: Server = start(binary)
    yield Guarded([server], f"redis://{USER}:{PASSWORD}@{server.address}")
    server.stop()


@asynccontextmanager
async def store_on(url: str, clock: Clock | None = None) -> AsyncIterator[Store]:
    store = Store(url, key_prefix=PREFIX, clock=clock)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def test_the_least_rights_are_enough_for_every_script(guarded: Guarded) -> None:
    guarded.allow()
    guarded.forget()
    clock = Clock()
    async with store_on(guarded.url, clock) as store:
        await everything(store, clock)
        await store.node_views.all()
        await store.placements.sample(3)
        await store.affinity.bind("k", "n1", 0, 1_000)
        await store.affinity.read("k")


async def test_the_least_rights_are_enough_for_an_utterance_and_nothing_else_is_used(guarded: Guarded) -> None:
    guarded.allow()
    guarded.forget()
    async with scheduler_on(guarded.url) as (scheduler, store), field(scheduler.port) as peers:
        await peers.node()
        client = await peers.client()
        await client.utterance(0)
        assert (await client.outcome())["type"] == "translation_result"
        await Checkup(store).look(settle_s=0)
        (facts, *_) = await facts_of(store)
        assert facts.scripts_loaded > 0
    allowed = {name.lower() for name in rights.commands(LIBRARY)}
    # 6.2 counts subcommands under the name of their command.
    allowed |= {name.partition("|")[0] for name in allowed}
    assert guarded.seen() - allowed - NOT_OURS - IN_A_CLUSTER <= {"info", "config|get"}
    assert {"evalsha", "zadd", "hset", "info"} <= guarded.seen()


async def test_every_right_that_is_missing_is_named_at_the_start(guarded: Guarded) -> None:
    unasked = rights.NEVER_REFUSED | rights.OPTIONAL | {"SUBSCRIBE", "UNSUBSCRIBE", "DISCARD"}
    for name in sorted(rights.commands(LIBRARY) - unasked):
        command, _, _ = name.lower().partition("|")
        # A server does not take one subcommand away on 6.2, so all of them go.
        guarded.allow(f"-{command}")
        if name in ("INFO", "CLUSTER|SLOTS", "ASKING"):
            continue
        with pytest.raises(StoreError, match=rf"may not use [^;]*\b{re.escape(command)}\b.*lingua redis acl"):
            async with store_on(guarded.url):
                pass


@pytest.mark.parametrize("name", ["info", "cluster"])
async def test_a_user_who_may_not_even_look_is_told_so(guarded: Guarded, name: str) -> None:
    guarded.allow(f"-{name}")
    with pytest.raises(StoreError, match=rf"(?i)(permissions to run the '{name}|may not use {name})"):
        async with store_on(guarded.url):
            pass


async def test_keys_out_of_reach_are_named_at_the_start(guarded: Guarded) -> None:
    guarded.allow("resetkeys", "~other:*")
    with pytest.raises(StoreError, match=r"has no access to keys that begin with lingua:v1:; lingua redis acl"):
        async with store_on(guarded.url):
            pass


async def test_asking_for_rights_leaves_nothing_behind(guarded: Guarded) -> None:
    guarded.allow()
    guarded.forget()
    async with store_on(guarded.url):
        assert [server.command("DBSIZE") for server in guarded.servers] == [0] * len(guarded.servers)


def test_every_command_that_python_says_is_known() -> None:
    source = "".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py") if path.name != "facts.py")
    said = re.findall(r'(?:call|ask)\(\s*(?:connection, )?"([A-Z]+)"(?:, "([A-Z]+)")?', source)
    containers = {name.partition("|")[0] for name in rights.DIRECT if "|" in name}
    names = {f"{command}|{word}" if command in containers else command for command, word in said}
    assert {"EVALSHA", "CLUSTER|SLOTS", "SCRIPT|LOAD", "HGETALL"} <= names
    # Sentinels have users of their own, and an embedded server none.
    assert names - rights.DIRECT - {"SENTINEL", "SHUTDOWN"} == set()


def test_the_documented_line_is_the_one_that_is_printed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text("utf-8")
    documented = re.search(r"^ACL SETUSER (?:.*\\\n)*.*$", page, re.MULTILINE)
    assert documented
    assert documented[0].replace("\\\n", " ").split() == rights.acl_line(LIBRARY, PREFIX).split()
