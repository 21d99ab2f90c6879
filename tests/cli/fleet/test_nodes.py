"""`lingua nodes` and `lingua node-info` say why a node gets no work, and for how long."""

import asyncio
import json
import time

import pytest
from click.testing import CliRunner

from lingua_scheduler.cli.main import main
from lingua_scheduler.domain.watching.tallies import TalliedError, TallySums
from lingua_scheduler.store.store import Store
from tests.support.fleet import entry, join, saying
from tests.support.servers import RedisProcess

MINUTE_MS = 60_000


async def lingua(server: RedisProcess, *arguments: str) -> str:
    runner = CliRunner(env={"COLUMNS": "200"})
    shown = await asyncio.to_thread(runner.invoke, main, [*arguments, "--redis-url", server.url])
    assert shown.exit_code == 0, shown.output
    return str(shown.stdout)


@pytest.fixture
async def ill(store: Store) -> None:
    """A fleet in which somebody is quarantined, somebody is due for a probe, and somebody lacks a voice."""
    for node in ("well", "bad", "due", "mute"):
        await join(store, entry(node))
    now_ms = int(time.time() * 1000)
    sick = {"bad": now_ms + MINUTE_MS, "due": now_ms - 1, "mute tts": now_ms + MINUTE_MS, "mute nmt": now_ms - 1}
    for member, until_ms in sick.items():
        await store.line.call("ZADD", store.keys.shard(0).sick, until_ms, member)


@pytest.mark.usefixtures("ill")
async def test_people_see_who_is_quarantined_and_who_lacks_what(server: RedisProcess) -> None:
    lines = {line.split()[0]: line for line in (await lingua(server, "nodes")).splitlines()}
    assert "ready  " in lines["well"]
    assert "without" not in lines["well"]
    assert "quarantined 60 s" in lines["bad"] or "quarantined 59 s" in lines["bad"]
    assert "on probation" in lines["due"]
    assert "ready without tts " in lines["mute"]


@pytest.mark.usefixtures("ill")
async def test_the_time_until_a_node_counts_as_dead_is_not_called_its_uptime(server: RedisProcess) -> None:
    head = (await lingua(server, "nodes")).splitlines()[0]
    assert head.split() == ["node", "state", "taken", "shard", "expires", "in", "pairs"]
    assert "expires in" in await lingua(server, "node-info", "well")


async def test_in_a_pipe_all_pairs_are_named(server: RedisProcess, store: Store) -> None:
    targets = ("de", "es", "fr", "it", "ja", "ko", "pt", "ru", "zh")
    await join(store, entry("n1", pools=frozenset(f"en:{target}:text" for target in targets)))
    shown = await lingua(server, "nodes")
    assert " ".join(f"en:{target}" for target in targets) in shown


async def test_what_a_node_says_of_itself_is_shown_as_it_is_and_obeyed_by_nobody(
    server: RedisProcess, store: Store
) -> None:
    words = "[/nope]\x1b]0;X\x07 [red]"
    said = json.dumps({"version": words, "platform": words, "services": [words]})
    await join(store, saying(entry("n1"), said))
    for command in (("nodes",), ("node-info", "n1"), ("pools", "en", "zh")):
        shown = await lingua(server, *command)
        assert "n1" in shown
        assert "\x1b" not in shown
        assert "\x07" not in shown
    assert (await lingua(server, "node-info", "n1")).count("[/nope] ]0;X  [red]") == 3


@pytest.mark.usefixtures("ill")
async def test_scripts_see_how_long_it_lasts(server: RedisProcess) -> None:
    views = {view["node_id"]: view for view in json.loads(await lingua(server, "nodes", "--json"))["nodes"]}
    assert views["well"]["quarantined_for_ms"] is None
    assert views["well"]["unavailable_for_ms"] == {}
    assert 50_000 < views["bad"]["quarantined_for_ms"] <= MINUTE_MS
    assert views["due"]["quarantined_for_ms"] == 0
    assert list(views["mute"]["unavailable_for_ms"]) == ["tts"]


@pytest.mark.usefixtures("ill")
@pytest.mark.parametrize(
    ("node", "words"),
    [
        ("well", ("quarantined no", "lacks none", "verdict well", "acknowledges jobs no")),
        ("due", ("state probation", "quarantined its next job is a probe")),
        ("bad", ("state quarantined", "quarantined for ", "verdict critical")),
        ("mute", ("lacks tts for ",)),
    ],
)
async def test_one_node_is_shown_in_words(server: RedisProcess, node: str, words: tuple[str, ...]) -> None:
    shown = await lingua(server, "node-info", node)
    for word in words:
        assert word in " ".join(shown.split())


async def test_a_node_without_a_list_that_admission_needs_is_shown_with_the_reason(
    server: RedisProcess, store: Store
) -> None:
    said = json.dumps({"languages": [["en"], [], ["fr"], None]})
    await join(store, saying(entry("n1", pools=frozenset()), said))
    await join(store, entry("n2"))
    reason = "no jobs until it declares semantic languages (pools.admission)"
    assert reason in await lingua(server, "node-info", "n1")
    assert json.loads(await lingua(server, "node-info", "n1", "--json"))["hint"] == reason
    assert "hint" not in json.loads(await lingua(server, "node-info", "n2", "--json"))


async def test_how_a_node_did_is_told_with_its_last_errors(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    assert "lately no attempts in the last hour" in " ".join((await lingua(server, "node-info", "n1")).split())
    sums = TallySums(done=3, failed=1, took_ms=900, slowest_ms=600, audio_ms=2_000, audio_took_ms=500)
    await store.tallies.add(0, "n1", sums, [TalliedError(int(time.time() * 1000), "JOB_TIMEOUT", "job-0-7")])
    words = " ".join((await lingua(server, "node-info", "n1")).split())
    assert "3 done, 1 failed (25.0 %) in the last hour mean 300 ms, slowest 600 ms real-time factor 0.25" in words
    assert "ago JOB_TIMEOUT job-0-7" in words
