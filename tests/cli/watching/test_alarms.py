"""`lingua alarms` on a real scheduler."""

import asyncio
import json

from click.testing import CliRunner

from lingua_scheduler.cli.main import main
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

SETTINGS, SCHEDULER = 2, 5


async def lingua(port: int, *arguments: str) -> tuple[int, str]:
    """In a thread: a command has an event loop of its own."""
    words = ["alarms", *arguments, "--url", f"127.0.0.1:{port}"]
    found = await asyncio.to_thread(CliRunner().invoke, main, words)
    return found.exit_code, found.output


async def test_alarms_are_listed_acknowledged_silenced_and_forgotten(server: RedisProcess) -> None:
    quick = {"watch__interval_ms": 200, "watch__watched_interval_ms": 100, "pools__wanted": ["de:en"]}
    async with scheduler_on(server.url, **quick) as (scheduler, _), field(scheduler.port) as peers:
        assert "nodes.none" in (await lingua(peers.port))[1]
        await peers.node()

        async def listed_with(words: str, *more: str) -> bool:
            code, shown = await lingua(peers.port, *more)
            assert code == 0
            return words in shown

        await until(lambda: listed_with("pair.lost/de:en"), 30)
        assert await listed_with("No node understands German")
        assert await lingua(peers.port, "ack", "pair.lost/de:en", "--by", "ada") == (
            0,
            "pair.lost/de:en is acknowledged\n",
        )
        await until(lambda: listed_with("ago by ada"), 30)
        assert await lingua(peers.port, "silence", "--all", "--for", "2h") == (0, "pair.lost/de:en is silenced\n")
        await until(lambda: listed_with("silenced for 11"), 30)
        found = json.loads((await lingua(peers.port, "--json"))[1])
        assert found["alarms"][0]["silenced_until_ms"] > 0
        code, words = await lingua(peers.port, "forget", "pair.lost/de:en")
        assert (code, "pools.wanted" in words) == (SCHEDULER, True)
        # The code alone, while it has one alarm.
        assert await lingua(peers.port, "ack", "pair.lost") == (0, "pair.lost/de:en is acknowledged\n")
        assert await lingua(peers.port, "reset", "pair.lost/de:en") == (0, "pair.lost/de:en is reset\n")
        code, words = await lingua(peers.port, "ack", "redis.full")
        assert (code, "no alarm redis.full is raised" in words) == (SCHEDULER, True)


async def test_a_code_that_has_several_alarms_is_refused_with_their_names(server: RedisProcess) -> None:
    quick = {"watch__interval_ms": 200, "watch__watched_interval_ms": 100, "pools__wanted": ["de:en", "fr:en"]}
    async with scheduler_on(server.url, **quick) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()

        async def both_are_listed() -> bool:
            _, shown = await lingua(peers.port)
            return "pair.lost/de:en" in shown and "pair.lost/fr:en" in shown

        await until(both_are_listed, 30)
        code, words = await lingua(peers.port, "ack", "pair.lost")
        assert code == SETTINGS
        assert "pair.lost/de:en" in words
        assert "pair.lost/fr:en" in words


def test_what_makes_no_sense_is_refused() -> None:
    for arguments in (
        ["ack"],
        ["ack", "redis.full", "--all"],
        ["list", "redis.full"],
        ["ack", "redis.full", "--for", "1h"],
        ["silence", "redis.full", "--for", "soon"],
        ["silence", "redis.full", "--for", "0s"],
        ["eat", "redis.full"],
    ):
        assert CliRunner().invoke(main, ["alarms", *arguments]).exit_code == SETTINGS, arguments
