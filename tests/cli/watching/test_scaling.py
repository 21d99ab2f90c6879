"""`lingua scaling` on a real scheduler."""

import asyncio
import json
from itertools import count

import pytest
from click.testing import CliRunner

from lingua_scheduler.cli.main import main
from lingua_scheduler.cli.watching import scaling
from lingua_scheduler.domain.watching.scaling import Capacity, Scaling
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

SETTINGS, SCHEDULER = 2, 5


async def lingua(port: int, *arguments: str) -> tuple[int, str]:
    """In a thread: a command has an event loop of its own."""
    words = ["scaling", *arguments, "--url", f"127.0.0.1:{port}"]
    found = await asyncio.to_thread(CliRunner().invoke, main, words)
    return found.exit_code, found.output


async def test_what_is_wanted_is_shown_beside_what_there_is(server: RedisProcess) -> None:
    quick = {"watch__interval_ms": 200, "scaling__window_ms": 1_000}
    async with scheduler_on(server.url, **quick) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node(max_concurrent_jobs=3)
        client, numbers = await peers.client(), count()

        async def is_busy() -> bool:
            await client.utterance(next(numbers))
            await client.outcome()
            return "en:zh" in (await lingua(peers.port))[1]

        await until(is_busy)
        code, shown = await lingua(peers.port)
        lines = [line.split() for line in shown.splitlines()]
        assert (code, lines[0][:3]) == (0, ["pair", "wanted", "slots"])
        assert (lines[1][0], int(lines[1][1]) >= 1, lines[1][2]) == ("en:zh", True, "3")
        assert lines[2][0] == "together"
        assert lines[3] == ["1", "node"]
        found = json.loads((await lingua(peers.port, "--json"))[1])
        assert found["capacity"]["slots"] == 3
        chosen = json.loads((await lingua(peers.port, "zh→en", "EN:zh", "--json"))[1])
        assert {f"{one['src']}:{one['tgt']}" for one in chosen["pairs"]} == {"zh:en", "en:zh"}
        code, words = await lingua(peers.port, "en")
        assert (code, "for example: lingua scaling en:zh" in words) == (SETTINGS, True)


async def test_without_a_scheduler_it_says_so() -> None:
    assert (await lingua(9))[0] == SCHEDULER


@pytest.mark.parametrize(("is_settled", "is_stale"), [(True, False), (False, True)])
def test_figures_that_may_be_wrong_are_marked(is_settled: bool, is_stale: bool) -> None:
    capacity = Capacity(nodes=2)
    sums = {"wanted_slots": 1, "load": 0.1, "arrivals_per_s": 0.1, "waiting": 0}
    found = Scaling(
        at_ms=0,
        is_stale=is_stale,
        is_settled=is_settled,
        capacity=capacity,
        pairs=[],
        **sums,  # type: ignore[arg-type]
    )
    notes = "; ".join(scaling._notes(found))
    assert ("measuring began" in notes, "Redis is unavailable" in notes) == (not is_settled, is_stale)
