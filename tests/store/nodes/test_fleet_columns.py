"""The whole fleet at a glance, as its owners wrote it."""

import msgspec
import pytest

from lingua_scheduler.domain.nodes.nodes import Machine, MachineLoad
from lingua_scheduler.domain.pools.reach import Reach, reach_named
from lingua_scheduler.store.nodes import fleet_columns as looks
from lingua_scheduler.store.nodes.fleet_columns import Row, Said, digest_of, look_of
from lingua_scheduler.store.nodes.nodes import NodeEntry
from lingua_scheduler.store.store import Store
from tests.support.clocks import Clock
from tests.support.fleet import HERE, POOL, dispatch, entry, join, order, wide_entry, wide_languages
from tests.support.mail import DEAD_MS, who
from tests.support.waiting import Turns

PROFILE = '{"version":"2","platform":"linux","services":["whisper"],"types":["asr"],"machine":[8,32,24]}'
POOLS = frozenset({POOL, "en:zh:text", "zh:en:text"})
UNSAID = MachineLoad()
DIGEST = digest_of(POOLS, PROFILE)


def looking(node_id: str, load: MachineLoad = UNSAID, *, alive_ms: int = 45_000) -> NodeEntry:
    look = look_of(DIGEST, alive_ms, load)
    return entry(node_id, pools=POOLS, alive_ms=alive_ms)._replace(profile=PROFILE, look=look)


async def rows(store: Store) -> dict[str, Row]:
    return {row.node_id: row async for some in store.looks.rows() for row in some}


async def test_a_row_has_all_that_the_columns_say(store: Store, clock: Clock) -> None:
    await join(store, looking("n1", MachineLoad(12.4, 50, None)))
    await dispatch(store, order(1))
    (row,) = (await rows(store)).values()
    assert (row.owner.owner.instance, row.owner.owner.link) == ("i-here", "c1")
    # The same of one node alone.
    assert await store.looks.row("n1", 0) == row
    assert await store.looks.row("n2", 0) is None
    assert row == Row(
        node_id="n1",
        shard=0,
        owner=row.owner,
        state="ready",
        digest=DIGEST,
        alive_until_ms=clock.now_ms + 45_000,
        alive_ms=45_000,
        max_jobs=2,
        held=1,
        free=1,
        load=MachineLoad(12.0, 50.0, None),
        quarantined_until_ms=0,
        unavailable=(),
    )


async def test_a_node_that_says_only_how_busy_its_processors_are_is_shown_so(store: Store) -> None:
    await join(store, looking("n1", MachineLoad(33, 0, 52)))
    await join(store, looking("n2", MachineLoad(0, 0, None)))
    found = await rows(store)
    assert (found["n1"].load, found["n2"].load) == (MachineLoad(33.0, None, 52.0), UNSAID)


async def test_while_the_languages_of_wide_nodes_are_read_others_have_their_turn(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of pairs take milliseconds, and each node may have others."""
    read_in: list[int] = []

    def read(pool: str, encoded: str) -> Reach | None:
        read_in.append(turns.taken)
        return reach_named(pool, encoded)

    monkeypatch.setattr(looks, "reach_named", read)
    for number in range(5):
        node = wide_entry(f"n{number}", wide_languages(50 + number))
        digest = digest_of(node.pools, PROFILE)
        await join(store, node._replace(profile=PROFILE, look=look_of(digest, 45_000, UNSAID)))
    found = list((await rows(store)).values())
    async with Turns() as turns:
        said = await store.looks.said(found)
    assert all(said[row.digest].reach is not None for row in found)
    assert len(set(read_in)) == len(read_in) == 5


async def test_what_nodes_say_is_read_once_for_all_who_say_the_same(store: Store) -> None:
    for number in range(30):
        await join(store, looking(f"n{number}"))
    found = list((await rows(store)).values())
    said = await store.looks.said(found)
    speaks, writes = ["en:zh"], ["en:zh", "zh:en"]
    assert said[DIGEST] == Said("2", "linux", ["whisper"], ["asr"], Machine(8, 32, 24), speaks, writes)
    before = await calls_of(store, "hmget")
    await store.looks.said(found)
    assert await calls_of(store, "hmget") == before


async def calls_of(store: Store, command: str) -> int:
    texts = [await server.call("INFO", "commandstats") for server in store.line.servers()]
    lines = (line for text in texts for line in text.splitlines() if line.startswith(f"cmdstat_{command}:"))
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines)


async def test_a_beat_writes_looks_only_when_they_are_news(store: Store) -> None:
    await join(store, looking("n1"))
    await store.nodes.beat(0, HERE, "n1", 9_000)
    row = (await rows(store))["n1"]
    assert (row.digest, row.alive_ms, row.load) == (DIGEST, 45_000, UNSAID)
    await store.nodes.beat(0, HERE, "n1", 9_000, look_of(DIGEST, 9_000, MachineLoad(5, 60, 70)))
    row = (await rows(store))["n1"]
    assert (row.state, row.alive_ms, row.load) == ("ready", 9_000, MachineLoad(5.0, 60.0, 70.0))


async def test_draining_shows_and_so_does_resuming(store: Store) -> None:
    await join(store, looking("n1", MachineLoad(5, 60, 70)))
    await store.nodes.drain("n1")
    row = (await rows(store))["n1"]
    assert (row.state, row.free, row.load.cpu, row.digest) == ("draining", None, 5.0, DIGEST)
    await store.nodes.beat(0, HERE, "n1", 9_000, look_of(DIGEST, 9_000, MachineLoad(6, 60, 70)))
    assert (await rows(store))["n1"].state == "draining"
    await store.nodes.drain("n1", resume=True)
    assert (await rows(store))["n1"].state == "ready"


async def test_of_a_node_that_left_nothing_is_left(store: Store) -> None:
    await join(store, looking("n1"))
    await store.nodes.remove(0, HERE, "n1", POOLS)
    assert await rows(store) == {}
    assert await store.line.call("EXISTS", store.keys.shard(0).looks) == 0


async def test_a_node_of_which_no_looks_are_known_is_there_all_the_same(store: Store) -> None:
    await join(store, looking("n1"))
    await store.line.call("DEL", store.keys.shard(0).looks)
    row = (await rows(store))["n1"]
    assert (row.state, row.max_jobs, row.free) == ("registering", 2, 2)
    assert await store.looks.said([row]) == {}


@pytest.mark.parametrize(
    ("load", "shown"),
    [
        (MachineLoad(0.0, 0, None), "- - -"),
        (MachineLoad(float("inf"), 1, float("nan")), "- 1 -"),
        (MachineLoad(-3, 250, 99.6), "- 100 100"),
    ],
)
def test_whatever_a_node_says_of_its_load_what_is_shown_is_a_percentage(load: MachineLoad, shown: str) -> None:
    assert look_of("d", 1, load) == f"d 1 {shown}"


async def test_figures_are_forgotten_with_their_instance_and_go_when_it_leaves(store: Store) -> None:
    for name in ("a", "b"):
        await store.instances.join(who(name), DEAD_MS)
        await store.instances.show(name, msgspec.json.encode({"of": name}))
    await store.instances.leave(who("a"), DEAD_MS)
    assert await store.instances.shown() == {"b": '{"of":"b"}'}
    await store.instances.forget("b", -1_000)
    assert await store.instances.shown() == {}
