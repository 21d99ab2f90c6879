"""`lingua status`: one screen, and an answer for scripts."""

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from lingua_scheduler.cli.main import main
from lingua_scheduler.cli.watching.status import screen
from lingua_scheduler.domain.watching.picture import Level, Picture, RoomsLook
from tests.support.watched import AT_MS, Watched, alarm, instance, moment, node, pair, picture, watched

SCHEDULER, CRITICAL = 5, 6


async def status(scheduler: Watched, *arguments: str, **environment: str) -> Result:
    runner = CliRunner(env={"COLUMNS": "80", "LINES": "24"} | environment)
    return await asyncio.to_thread(runner.invoke, main, ["status", "--url", scheduler.url, *arguments])


async def shown(picture: Picture, *arguments: str) -> str:
    async with watched(picture) as scheduler:
        found = await status(scheduler, *arguments)
        assert found.exit_code == 0, found.output
        return found.stdout


def troubled(nodes: int = 1_000) -> Picture:
    """A large fleet on a bad day."""
    states: dict[int, dict[str, Any]] = {
        0: {"state": "quarantined", "quarantined_until_ms": AT_MS + 9_000},
        1: {"state": "draining"},
        2: {"unavailable": ["tts"]},
    }
    languages = [f"{a}{b}" for a in "abcdefghij" for b in "kl"]
    return picture(
        nodes=[node(f"node-{i:08d}", **states.get(i % 50, {})) for i in range(nodes)],
        pairs=[pair(f"{a}:{b}", hangs_on="node-00000000") for a in languages for b in languages],
        alarms=[
            alarm(f"{code}.{i}", level, f"{code}:{i}", f"{code} number {i} is not as it should be. " * 3)
            for level, code in ((Level.CRITICAL, "lost"), (Level.WARNING, "node"), (Level.NOTICE, "thin"))
            for i in range(40)
        ]
        + [alarm("pair.lost", Level.CRITICAL, f"x{i}:y") for i in range(50)],
        instances=[instance(f"host-{i}-1234-abcdefgh", is_alive=i < 5) for i in range(20)],
        dead_letters=9,
        now=moment(failed_per_s=1.5, retries_per_s=20.5, jobs_waiting=99, sessions=12_345),
    )


async def test_people_see_at_once_that_all_is_well() -> None:
    lines = (await shown(picture())).splitlines()
    assert lines[0] == "All is well: people are being translated."
    text = "\n".join(lines)
    for words in (
        "12.5 jobs/s   p50 420 ms  p95 1.2 s  p99 2.4 s",
        "34 sessions, 0 jobs wait, 2 of 8 slots taken",
        "pairs      1 served",
        "nodes      2: 2 ready",
        "instances  1 alive, led by s1",
        "Valkey 9.1.0",
        "s1, version 0.1.0",
    ):
        assert words in text


async def test_private_nodes_are_counted_apart() -> None:
    nodes = [node("n1"), node("n2", is_private=True), node("n3", is_private=True)]
    text = await shown(picture(nodes=nodes, pairs=[pair(nodes=1, hangs_on="n1")], now=moment(slots_total=4)))
    for words in ("of 4 public slots taken", "1 served by public nodes", "nodes      3 (2 private): 3 ready"):
        assert words in text
    # There is one public node, and every pair depends on it.
    assert "thin" not in text


@pytest.mark.parametrize("arguments", [(), ("--nodes",)])
async def test_the_command_that_starts_a_node_has_the_address(arguments: tuple[str, ...]) -> None:
    lost = alarm("nodes.none", Level.CRITICAL, text="No node is connected. Start one with: lingua node --languages en")
    async with watched(picture(nodes=[], alarms=[lost])) as scheduler:
        told = " ".join((await status(scheduler, *arguments, COLUMNS="300")).stdout.split())
    commands = re.findall(r"lingua node\b(?!-)(?: --url)? (\S+)", told)
    assert commands
    assert set(commands) == {scheduler.url.replace("http", "ws").rstrip("/")}


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50), (60, 24)])
async def test_a_bad_day_of_a_thousand_nodes_fits_on_the_screen(columns: int, lines: int) -> None:
    async with watched(troubled()) as scheduler:
        found = await status(scheduler, COLUMNS=str(columns), LINES=str(lines))
    said = found.stdout.splitlines()
    # One line is for the prompt.
    assert len(said) <= lines - 1
    assert max(map(cell_len, said)) <= columns
    assert said[0].startswith("Some languages cannot be")
    for word in ("more alarms", "1000:", "20 quarantined", "lost:", "thin:", "need attention", "5 alive", "Valkey"):
        assert any(word in line for line in said), word


async def test_nobody_is_left_to_guess_without_nodes() -> None:
    text = await shown(picture(nodes=[], pairs=[], now=moment(p50_ms=None, p95_ms=None, p99_ms=None, slots_total=0)))
    assert "none; start one with: lingua node --url " in text
    assert "p50 -  p95 -  p99 -" in text


async def test_a_table_without_nodes_says_so_with_the_next_step() -> None:
    async with watched(picture(nodes=[], alarms=[])) as scheduler:
        found = await status(scheduler, "--nodes")
        told = found.stdout.splitlines()[-1]
        assert told.startswith("No node is connected. Start one with: lingua node --url ws://127.0.0.1:")
        assert "instance" not in found.stdout


async def test_what_was_known_last_is_marked() -> None:
    text = await shown(picture(is_stale=True))
    assert text.startswith("Translation is down: Redis is unavailable.")
    assert "last known state" in text


async def test_every_node_is_in_the_table() -> None:
    lines = (await shown(troubled(300), "--nodes")).splitlines()
    (head,) = [line.split() for line in lines if line.startswith("node ")]
    assert head[-2:] == ["instance", "pairs"]
    rows = [line.split() for line in lines if line.startswith("node-")]
    assert len(rows) == 300
    assert rows[50][:2] == ["node-00000050", "quarantined"]
    assert "en:zh" in rows[7]


async def test_scripts_get_the_picture_as_it_is() -> None:
    made = troubled(3)
    assert msgspec.json.decode(await shown(made, "--json"), type=Picture) == made


@pytest.mark.parametrize("form", [(), ("--json",), ("--nodes",)])
async def test_a_script_may_ask_whether_something_is_critical(form: tuple[str, ...]) -> None:
    async with watched() as scheduler:
        assert (await status(scheduler, "--check", *form)).exit_code == 0
        scheduler.picture = picture(alarms=[alarm("node.silent", Level.WARNING, "node-1")])
        assert (await status(scheduler, "--check", *form)).exit_code == 0
        scheduler.picture = picture(alarms=[alarm("pair.lost", Level.CRITICAL, "en:zh")])
        found = await status(scheduler, "--check", *form)
        assert found.exit_code == CRITICAL
        assert found.stdout
        assert (await status(scheduler, *form)).exit_code == 0


async def test_there_is_no_colour_where_nobody_sees_it() -> None:
    assert "\x1b" not in await shown(troubled(5))


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        ((404, {"error": "NOT_FOUND", "detail": "there is nothing here"}), "or the public port of a proxy"),
        ((503, {"error": "SCHEDULER_DEPENDENCY_DOWN", "detail": "Redis is away"}), "Redis is away"),
        ((200, {"hello": "world"}), "is not a scheduler"),
    ],
)
async def test_who_does_not_tell_its_status_is_named_in_one_sentence(refusal: Any, words: str) -> None:
    async with watched() as scheduler:
        scheduler.refusal = refusal
        found = await status(scheduler)
    assert found.exit_code == SCHEDULER
    assert found.stdout == ""
    assert words in found.stderr
    assert len(found.stderr.splitlines()) == 1


async def test_the_example_of_the_help_is_true() -> None:
    made = json.loads(
        await shown(picture(alarms=[alarm("leader.none", Level.WARNING, text="Nobody leads.")]), "--json")
    )
    assert [one["text"] for one in made["alarms"]] == ["Nobody leads."]


def test_rooms_have_a_line_while_there_are_some() -> None:
    rooms = RoomsLook(rooms=2, members=5, guests=1, languages={"en": 3, "ja": 2}, lag_p95_ms={"ja": 1_400.0})
    lines = [line.plain for line in screen(picture(rooms=rooms), AT_MS, 80, 40, "lingua node")]
    assert "rooms      2 with 5 members and 1 guest: en 3, ja 2 (p95 1.4 s)" in lines
    without = [line.plain for line in screen(picture(), AT_MS, 80, 40, "lingua node")]
    assert not any(line.startswith("rooms") for line in without)
