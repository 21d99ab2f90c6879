"""One clock is handed in: every part of a scheduler that keeps one keeps the one that was given to it."""

import gc
import time
import types
from collections.abc import Iterator

from lingua_scheduler.clock import SYSTEM_CLOCK, wall_ms
from tests.support.http_nodes import http_node
from tests.support.peers import field
from tests.support.schedulers import scheduler_by
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET

# They refer to all there is in their module, and defaults stand in functions.
_NOT_OURS = (types.ModuleType, types.FunctionType, types.FrameType, type)


def test_wall_time_is_that_of_the_machine() -> None:
    before_s, now_ms, after_s = time.time(), wall_ms(), time.time()
    assert before_s * 1000 <= now_ms <= after_s * 1000


async def test_every_part_keeps_the_clock_that_is_handed_in(server: RedisProcess) -> None:
    def clock() -> float:
        return time.monotonic()

    async with scheduler_by(clock, server.url) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        await http_node(peers, src_langs=["en"], tgt_langs=["zh"])
        client = await peers.client()
        await client.chunk(PACKET * 20, is_final=True)
        await client.outcome()
        kept = list(clocks_kept(scheduler))
    assert [place for place, found in kept if found is SYSTEM_CLOCK] == []
    places = {place for place, found in kept if found is clock}
    # Made when the scheduler is, and when peers come.
    assert places >= {"Presence._clock", "Placer._clock", "Intake._clock", "ServerLine._clock"}
    assert places >= {"NodeLink._clock", "Pace._clock", "Mailbox._clock", "Memory.clock"}


def clocks_kept(root: object) -> Iterator[tuple[str, object]]:
    """Every attribute of services and store, reached from here, that is a clock."""
    seen, rest = {id(root)}, [root]
    while rest:
        one = rest.pop()
        if type(one).__module__.startswith(("lingua_scheduler.services.", "lingua_scheduler.store.")):
            for name in (*getattr(one, "__dict__", ()), *getattr(type(one), "__slots__", ())):
                if name.endswith("clock"):
                    yield f"{type(one).__name__}.{name}", getattr(one, name)
        for found in gc.get_referents(one):
            if id(found) not in seen and not isinstance(found, _NOT_OURS):
                seen.add(id(found))
                rest.append(found)
