"""Scripts: their signatures, their slots, and a server that forgets them."""

import pytest
from redis.crc import key_slot

from lingua_scheduler.store.keys import Keys
from lingua_scheduler.store.scripts import ScriptError, parse, read_library
from lingua_scheduler.store.store import Store
from tests.support.fleet import POOL, entry, join
from tests.support.servers import RedisProcess

LIBRARY = read_library()
# Keys a caller hands over by name; those of the shard come by themselves.
HANDED_OVER = {
    "node_key": lambda keys: keys.shard(7).node("n1"),
    "job_key": lambda keys: keys.shard(7).job("job-7-1"),
    "pool": lambda keys: keys.shard(7).pool(POOL),
    "pools": lambda keys: keys.shard(7).pool("zh:en:text"),
    "others": lambda keys: keys.shard(7).pool("zh:en:speech"),
    "complaints": lambda keys: keys.shard(7).complaints("n1"),
    "placement": lambda keys: keys.placement,
    "load": lambda keys: keys.load,
    "room": lambda keys: keys.room,
    "alive": lambda keys: keys.instances_alive,
    "about": lambda keys: keys.instances_about,
    "figures": lambda keys: keys.figures,
    "inbox": lambda keys: keys.inbox("i1"),
    "dead": lambda keys: keys.dead_letters("i1"),
    "adopter": lambda keys: keys.adopter("i1"),
    "session": lambda keys: keys.session("s-1"),
    "parked": lambda keys: keys.parked("s-1"),
    "leader": lambda keys: keys.leader,
    "epochs": lambda keys: keys.leader_epochs,
    "config": lambda keys: keys.map_config,
    "request": lambda keys: keys.request("", "s", "r"),
    "things": lambda keys: keys.shard(7).node("n2"),
    "version": lambda keys: keys.version,
    "names": lambda keys: keys.leader,
    "key": lambda keys: keys.shard(7).queues,
    "job_keys": lambda keys: keys.shard(7).job("job-7-a"),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_the_keys_of_a_script_live_in_one_hash_slot(name: str) -> None:
    keys = Keys("lingua:v1")
    used = [HANDED_OVER[key](keys) if key in HANDED_OVER else getattr(keys.shard(7), key) for key in LIBRARY[name].keys]
    assert len({key_slot(key.encode()) for key in used}) == 1


@pytest.mark.parametrize("name", LIBRARY)
def test_a_script_is_small_and_says_what_it_replies(name: str) -> None:
    script = LIBRARY[name]
    assert script.header.startswith(f"{name}: ")
    assert "Replies: " in script.header


def test_a_bind_block_out_of_order_is_refused() -> None:
    with pytest.raises(ScriptError, match="out of order"):
        parse("bad", "-- bad: x\nlocal a = KEYS[2]\n", {})


def test_an_argument_outside_the_bind_block_is_refused() -> None:
    with pytest.raises(ScriptError, match="nowhere else"):
        parse("bad", "-- bad: x\nlocal a = KEYS[1]\nreturn ARGV[1]\n", {})


def test_an_unknown_include_is_refused() -> None:
    with pytest.raises(ScriptError, match=r"no lib/nope\.lua"):
        parse("bad", "-- bad: x\n-- include: nope\nlocal a = KEYS[1]\n", {})


async def test_a_call_without_an_argument_says_which(store: Store) -> None:
    with pytest.raises(ScriptError, match="needs 'shard'"):
        await store.scripts.run("placement_release", placement="p", load="l", room="r", node="n")


async def test_a_call_with_a_strange_argument_says_which(store: Store) -> None:
    with pytest.raises(ScriptError, match="does not take colour"):
        await store.scripts.run(
            "placement_release", placement="{p}", load="{p}l", room="{p}r", node="n", shard=0, serial=1, colour="red"
        )


async def test_a_server_that_forgot_its_scripts_gets_them_again(store: Store, server: RedisProcess) -> None:
    await join(store, entry("n1"))
    server.command("SCRIPT", "FLUSH")
    await join(store, entry("n2"))
    assert [view.node_id for view in await store.nodes.view()] == ["n1", "n2"]
