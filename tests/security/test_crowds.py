"""Many HTTP connections flood a scheduler, each within what one connection may take: together they take no more than
their share of the event loop, from whatever address, and an honest conversation beside them goes on."""

import asyncio
import gzip
from itertools import count
from pathlib import Path
from statistics import median
from time import perf_counter

from tests.security.test_frame_floods import ANY, ENOUGH_S, MOST_OF_FREE, MOST_ROUNDS, POST, Rivals, cpu_s, rivals
from tests.support.callers import Caller, caller_of
from tests.support.crowd_floods import Crowd, crowd_flood
from tests.support.peers import FakeClient, field
from tests.support.servers import RedisProcess

GET = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
BLANKS = gzip.compress(b" " * 4_000_000)
PACKED = (
    b"POST /v1/dispatch/f2f HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BLANKS)
) + BLANKS
CROWDS = {
    "bodies in chunks of one byte": Crowd(20, "", POST.decode(), "1\r\n \r\n"),
    "pages": Crowd(50, "", "", GET, is_patient=True),
    "pages, without waiting for any": Crowd(20, "", "", GET),
    "white space, packed": Crowd(20, "", "", PACKED.decode("latin-1"), is_patient=True),
}
# A share so small that a crowd gets less of it than a busy machine leaves to one that is free.
PERCENT = 2
TALKS_S = 2.0
MINUTE = bytes(500_000)
UPLOADS = 11
# A busy machine disturbs both; with a rest after every turn an upload takes ten times as long.
MOST_TIMES = 3


async def talk(client: FakeClient, numbers: "count[int]", for_s: float) -> list[float]:
    """What utterances took, in ms; each has its result."""
    taken: list[float] = []
    ends = perf_counter() + for_s
    while perf_counter() < ends:
        began = perf_counter()
        await client.utterance(next(numbers))
        assert (await client.outcome(within_s=30))["type"] == "translation_result"
        taken.append((perf_counter() - began) * 1000)
        await asyncio.sleep(0.1)
    return taken


async def unheld(both: Rivals) -> dict[str, str]:
    """The crowds that cost the scheduler that should hold them back as much as the other."""
    found = {}
    async with field(both.held.port) as peers:
        await peers.node()
        client, numbers = await peers.client(), count()
        before = median(await talk(client, numbers, 0.5))
        for name, crowd in CROWDS.items():
            async with crowd_flood(both.held.port, crowd), crowd_flood(both.free.port, crowd):
                had_s, during = (cpu_s(both.held), cpu_s(both.free)), list[float]()
                held_s = free_s = 0.0
                # On a busy machine it takes longer until a crowd costs more than the conversation does.
                for _ in range(MOST_ROUNDS):
                    during += await talk(client, numbers, TALKS_S)
                    held_s, free_s = cpu_s(both.held) - had_s[0], cpu_s(both.free) - had_s[1]
                    if free_s >= ENOUGH_S and held_s <= MOST_OF_FREE * free_s:
                        break
            told = (
                f"median {before:.1f} ms before, {median(during):.1f} during, worst {max(during):.0f} ms: "
                f"x {median(during) / before:.1f}; held: {held_s:.2f} s CPU, free: {free_s:.2f} s"
            )
            print(f"{name}: {told}")
            if held_s > MOST_OF_FREE * free_s:
                found[name] = told
    return found


async def test_a_crowd_has_one_share_however_many_it_is(server: RedisProcess, tmp_path: Path) -> None:
    # One connection alone is not held back.
    alike = {
        "server.max_connection_cpu_percent": 100,
        "server.max_body_bytes": 1_000 * ANY,
    }
    held, free = ({"server.max_shared_loop_percent": share} for share in (PERCENT, 100))
    async with rivals(server, tmp_path, alike | held, alike | free) as both:
        assert await unheld(both) == {}


async def upload(caller: Caller) -> float:
    """A minute of speech, as a client sends it; what it took until it was dispatched, in ms."""
    began = perf_counter()
    answer = await caller.dispatch(MINUTE)
    assert answer.status in (200, 202), answer
    return (perf_counter() - began) * 1000


async def test_an_honest_upload_notices_nothing_and_arrives_beside_a_crowd_too(
    server: RedisProcess, tmp_path: Path
) -> None:
    free = {"server.max_shared_loop_percent": 100, "server.max_connection_cpu_percent": 100}
    async with (
        rivals(server, tmp_path, {}, free) as both,
        field(both.held.port) as peers,
        field(both.free.port) as others,
        caller_of(both.held.port) as caller,
        caller_of(both.free.port) as other,
    ):
        await peers.node()
        await others.node()
        # In turns, so that whatever else the machine does is shared by both.
        pairs = [(await upload(caller), await upload(other)) for _ in range(UPLOADS)]
        alone, unlimited = (median(taken) for taken in zip(*pairs, strict=True))
        async with crowd_flood(both.held.port, CROWDS["bodies in chunks of one byte"]):
            beside = median([await upload(caller) for _ in range(UPLOADS)])
    print(f"a minute of speech: {alone:.1f} ms, without limits {unlimited:.1f} ms, beside a crowd {beside:.1f} ms")
    assert alone < MOST_TIMES * unlimited
