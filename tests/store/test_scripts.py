"""Scripts: their signatures, their slots, and a server that forgets them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from redis.crc import key_slot

from lingua_scheduler.store import scripts
from lingua_scheduler.store.keys import LIVE_ROOM_KEYS, ROOM_KEYS, ROOM_SAID, Keys
from lingua_scheduler.store.scripts import ScriptError, parse, read_library
from lingua_scheduler.store.store import Store
from tests.support.fleet import POOL, entry, join
from tests.support.servers import RedisProcess

LIBRARY = read_library()
LUA = Path(scripts.__file__).parent / "lua"
# Every script and every include, by its name as in `lib/clock`.
FILES = {str(path.relative_to(LUA).with_suffix("")): path for path in sorted(LUA.rglob("*.lua"))}
MAX_LINES = 80
# Files that may be longer: how long, and why.
LONGER = {
    "attempt_end": (88, "many arguments and replies: two fifths are the header and the bind block"),
    "job_dispatch": (101, "many arguments and replies: more than half is the header and the bind block"),
    "node_register": (122, "many arguments and replies: more than half is the header and the bind block"),
    "shard_audit": (100, "must see everything in one call, or a change between two calls would look like a fault"),
}


def _of_room(part: str) -> Callable[[Keys], str]:
    return lambda keys: (keys.room_of("acme:483920") | keys.room_said("acme:483920"))[part]


def _of_live_rooms(part: str) -> Callable[[Keys], str]:
    return lambda keys: keys.live_rooms[part]


# Keys a caller hands over by name; those of the shard come by themselves.
HANDED_OVER: dict[str, Callable[[Keys], str]] = {
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
    "claim": lambda keys: keys.node_claim("n1"),
    "parked": lambda keys: keys.parked("s-1"),
    "leader": lambda keys: keys.leader,
    "epochs": lambda keys: keys.leader_epochs,
    "config": lambda keys: keys.map_config,
    "request": lambda keys: keys.request("", "s", "r"),
    "things": lambda keys: keys.shard(7).node("n2"),
    "version": lambda keys: keys.version,
    "asked": lambda keys: keys.asked,
    "missed": lambda keys: keys.missed,
    "known": lambda keys: keys.alarms,
    "credentials": lambda keys: keys.credentials,
    "issuers": lambda keys: keys.issuers,
    "revocations": lambda keys: keys.revocations,
    "revision": lambda keys: keys.credentials_version,
    "code": lambda keys: keys.login_code("a"),
    "names": lambda keys: keys.leader,
    "key": lambda keys: keys.shard(7).queues,
    "tally": lambda keys: keys.shard(7).tally("n1"),
    "journal": lambda keys: keys.events,
    "log": lambda keys: keys.audit_log,
    "head": lambda keys: keys.audit_head,
    **{part: _of_room(part) for part in (*ROOM_KEYS, ROOM_SAID)},
    **{part: _of_room(part) for part in ROOM_KEYS},
    **{part: _of_live_rooms(part) for part in LIVE_ROOM_KEYS},
    "tries": lambda keys: keys.guesses("acme"),
    "job_keys": lambda keys: keys.shard(7).job("job-7-a"),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_the_keys_of_a_script_live_in_one_hash_slot(name: str) -> None:
    keys = Keys("lingua:v1")
    used = [HANDED_OVER[key](keys) if key in HANDED_OVER else getattr(keys.shard(7), key) for key in LIBRARY[name].keys]
    assert len({key_slot(key.encode()) for key in used}) == 1


@pytest.mark.parametrize("name", LIBRARY)
def test_a_script_says_what_it_does_and_replies(name: str) -> None:
    script = LIBRARY[name]
    assert script.header.startswith(f"{name}: ")
    assert "Replies: " in script.header


@pytest.mark.parametrize("name", FILES)
def test_a_script_is_small(name: str) -> None:
    most, _ = LONGER.get(name, (MAX_LINES, ""))
    assert len(FILES[name].read_text("utf-8").splitlines()) <= most


@pytest.mark.parametrize("name", LONGER)
def test_a_script_that_may_be_longer_is(name: str) -> None:
    assert len(FILES[name].read_text("utf-8").splitlines()) > MAX_LINES, "it is small again: take it off the list"


def test_every_include_is_used() -> None:
    texts = [path.read_text("utf-8") for name, path in FILES.items() if not name.startswith("lib/")]
    includes = [name.removeprefix("lib/") for name in FILES if name.startswith("lib/")]
    assert [name for name in includes if not any(f"-- include: {name}\n" in text for text in texts)] == []


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
    assert [view.node_id for view in await store.node_views.all()] == ["n1", "n2"]
