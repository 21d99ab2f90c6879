"""Instances and dead letters from the command line, straight from Redis."""

import asyncio
import json
import os
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from lingua_scheduler.cli.main import main
from lingua_scheduler.protocol.bus import decode
from lingua_scheduler.store.store import Store
from tests.support.mail import ROOMY, letter, who, written
from tests.support.schedulers import serve_process
from tests.support.servers import RedisProcess
from tests.support.terminals import terminal
from tests.support.waiting import until

SETTINGS = 2
SECRET = b"what somebody said"


def lingua(server: RedisProcess, *arguments: str) -> Result:
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("LINGUA_")}
    return CliRunner(env={**clean, "COLUMNS": "300"}).invoke(main, [*arguments, "--redis-url", server.url])


def on_store(server: RedisProcess, work: Callable[[Store], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        store = Store(server.url, key_prefix="lingua:v1")
        await store.open()
        await work(store)
        await store.close()

    asyncio.run(run())


async def bury_three(store: Store) -> None:
    """Two of instance a, of which one is of a kind that nobody knows, and one of b, which is dead."""
    for instance in "ab":
        await store.inboxes.prepare(instance)
        await store.instances.join(who(instance), 6_000)
    await store.instances.leave(who("b"), 6_000)
    await store.inboxes.post("a", written(1), ROOMY)
    await store.inboxes.post("a", letter("u2", SECRET, "from_the_future"), ROOMY)
    await store.inboxes.post("b", written(3), ROOMY)
    for instance in "ab":
        adoption = await store.inboxes.adopt(instance, "x", 1)
        assert adoption is not None
        for entry in (await store.inboxes.claim_adopted(adoption, 10, 0)).entries:
            subject = "" if entry.kind == "from_the_future" else decode(entry.body).lane
            await store.inboxes.bury(instance, entry, "failed", ROOMY, subject=subject, keeps_body=bool(subject))


def test_instances_are_shown_alive_stopped_and_dead(server: RedisProcess) -> None:
    assert "no scheduler has used this Redis recently" in lingua(server, "instances").output
    on_store(server, bury_three)
    found = {
        about["instance_id"]: about for about in json.loads(lingua(server, "instances", "--json").output)["instances"]
    }
    assert {name: (about["state"], about["dead_letters"]) for name, about in found.items()} == {
        "a": ("alive", 2),
        "b": ("stopped", 1),
    }

    async def die(store: Store) -> None:
        """As if b had told its figures and then fallen silent."""
        await store.instances.show("b", b"{}")

    on_store(server, die)
    shown = lingua(server, "instances").output.splitlines()
    assert [line.split()[:2] for line in shown[1:]] == [["a", "alive"], ["b", "dead"]]
    wide = lingua(server, "instances", "--wide").output.splitlines()
    assert {"host", "pid", "version", "pending"} == set(wide[0].split()) - set(shown[0].split())


def test_living_instances_come_first_and_stopped_ones_last(server: RedisProcess) -> None:
    async def three(store: Store) -> None:
        for name in ("a", "b", "c"):
            await store.instances.join(who(name), 6_000)
        for name in ("a", "b"):
            await store.line.call("ZADD", store.keys.instances_alive, 1, name)
        await store.line.call("HDEL", store.keys.figures, "a")

    on_store(server, three)
    shown = lingua(server, "instances").output.splitlines()
    assert [line.split()[:2] for line in shown[1:]] == [["c", "alive"], ["b", "dead"], ["a", "stopped"]]


async def test_instances_fit_on_a_terminal_and_no_name_is_cut(server: RedisProcess) -> None:
    name = "host-with-a-name.example.com-1234567-abcdefgh"
    store = Store(server.url, key_prefix="lingua:v1")
    await store.open()
    await store.inboxes.prepare(name)
    await store.instances.join(who(name)._replace(address="192.168.100.100:15010"), 6_000)
    await store.close()
    with terminal() as screen:
        arguments = ("lingua_scheduler", "instances", "--redis-url", server.url)
        process = await screen.run(*arguments, NO_COLOR="1")
        assert await asyncio.wait_for(process.wait(), 30) == 0
        await until(lambda: "192.168" in screen.shown)
        lines = re.sub(r"\x1b\[[0-9;?]*[a-z]", "", screen.shown).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(name)
    assert "192.168.100.100:15010" in " ".join(lines)


def test_dead_letters_are_listed_without_what_they_say(server: RedisProcess) -> None:
    assert lingua(server, "dead-letters").output == "there are no dead letters\n"
    on_store(server, bury_three)
    listed = lingua(server, "dead-letters", "list", "--json").output
    assert SECRET.decode() not in listed
    found = json.loads(listed)
    assert found["total"] == 3
    assert [(dead["instance_id"], dead["kind"], dead["subject"], dead["reason"]) for dead in found["dead_letters"]] == [
        ("a", "attempt_lost", "job-0-1", "failed"),
        ("a", "from_the_future", "", "failed"),
        ("b", "attempt_lost", "job-0-3", "failed"),
    ]
    shown = lingua(server, "dead-letters", "--limit", "1").output
    assert "job-0-1" in shown
    assert "and 2 more" in shown


def test_dead_letters_are_replayed_one_by_one_or_all(server: RedisProcess) -> None:
    on_store(server, bury_three)
    letter_id = json.loads(lingua(server, "dead-letters", "--json").output)["dead_letters"][0]["letter_id"]
    assert lingua(server, "dead-letters", "replay", letter_id).output == "1 dead letters were put back\n"
    again = lingua(server, "dead-letters", "replay", letter_id)
    assert (again.exit_code, "1 of these letters do not exist" in again.output) == (SETTINGS, True)
    assert json.loads(lingua(server, "dead-letters", "replay", "--all", "--json").output) == {
        "replayed": 1,
        "full": 0,
        "gone": 0,
        "bare": 1,
    }
    assert (
        "1 cannot be replayed, because their speech was not kept"
        in lingua(server, "dead-letters", "replay", "--all").output
    )
    found = json.loads(lingua(server, "instances", "--json").output)["instances"]
    assert [(about["inbox_letters"], about["dead_letters"]) for about in found] == [(1, 1), (1, 0)]


def test_dead_letters_are_purged(server: RedisProcess) -> None:
    on_store(server, bury_three)
    letter_id = json.loads(lingua(server, "dead-letters", "--json").output)["dead_letters"][0]["letter_id"]
    assert json.loads(lingua(server, "dead-letters", "purge", letter_id, "--json").output) == {"purged": 1}
    assert lingua(server, "dead-letters", "purge", "--all").output == "2 dead letters were deleted\n"
    assert lingua(server, "dead-letters").output == "there are no dead letters\n"


def test_which_letters_must_be_said(server: RedisProcess) -> None:
    for arguments in (("replay",), ("purge",), ("list", "a:1-1"), ("replay", "a:1-1", "--all")):
        assert lingua(server, "dead-letters", *arguments).exit_code == SETTINGS
    strange = lingua(server, "dead-letters", "purge", "rubbish")
    assert (strange.exit_code, "rubbish is not the id of a dead letter" in strange.output) == (SETTINGS, True)


async def test_a_second_scheduler_with_the_same_id_is_refused_in_one_sentence(
    server: RedisProcess, tmp_path: Path
) -> None:
    arguments = ("--redis-url", server.url, "--set", "server.instance_id=s1", "--set", "instances.beat_ms=200")
    (tmp_path / "second").mkdir()
    async with serve_process(tmp_path, *arguments) as first:
        await until(lambda: first.port, within_s=60)
        async with serve_process(tmp_path / "second", *arguments) as second:
            assert await asyncio.wait_for(second.process.wait(), 20) == SETTINGS
            said = second.log.strip().splitlines()[-1]
            assert said.startswith("lingua: an instance named s1 is already running; give this one a unique name")
        # What the sentence tells to do helps.
        (tmp_path / "third").mkdir()
        advice = (*arguments, *("--set", "server.instance_id=auto"))
        async with serve_process(tmp_path / "third", *advice) as third:
            assert await until(lambda: third.port, within_s=60)
