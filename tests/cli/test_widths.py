"""Every command that lists something, at 80 and 60 columns and in a pipe: nothing is too wide, nothing is cut."""

import asyncio
import json
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.cells import cell_len

from lingua_scheduler.store.servers.embedded import running_url
from lingua_scheduler.store.store import Store
from tests.support import commands as running
from tests.support.commands import END, outputs
from tests.support.forked import fork_command, fork_module
from tests.support.mail import ROOMY, letter
from tests.support.peers import Field, field
from tests.support.schedulers import serve_process
from tests.support.terminals import terminal
from tests.support.waiting import until

START_S = 60.0
ALL_S = 240.0
PROGRAM = running.__name__
QUICK = ("--set", "watch.interval_ms=500", "--set", "watch.watched_interval_ms=200", "--set", "inbox.keep_speech=true")
NODE = "node-in-the-third-rack-of-the-second-room-12"
INSTANCE = "scheduler-of-the-second-room-left"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# Command → what must be there whole: what people copy into the next command.
LISTINGS = {
    ("status",): ("en:ko",),
    ("status", "--nodes"): (NODE, INSTANCE),
    ("top", "--once"): (NODE,),
    ("events", "--once", "--last", "500"): (NODE, "en → ko"),
    ("alarms",): ("pair.unserved/en:ko", "lingua node --languages en,ko"),
    ("nodes",): (NODE,),
    ("node-info", NODE): (NODE, INSTANCE),
    ("pools",): ("en:zh", INSTANCE),
    ("pools", "en", "zh"): (NODE,),
    ("instances",): (INSTANCE,),
    ("instances", "--wide"): (INSTANCE,),
    ("jobs",): ("JOB", NODE, "NO_CAPABLE_NODE"),
    ("jobs", "--failed"): ("JOB", "NO_CAPABLE_NODE", "lingua node --languages en,ko"),
    ("job", "JOB"): ("JOB", INSTANCE),
    ("explain", "JOB"): ("JOB", NODE),
    ("dead-letters",): ("LETTER",),
    ("room", "list"): ("ROOM",),
    ("room", "members", "ROOM"): ("ROOM", INSTANCE),
    ("redis", "check"): (),
    ("models",): ("whisper-base",),
    ("serve", "--print-config"): ("sessions.hangover_manual_ms",),
    ("version",): ("lingua-scheduler",),
}
# Wide because somebody asked for it.
AS_WIDE_AS_ASKED = {("instances", "--wide")}
# In a pipe a row is one line, however long, so that grep finds all of it.
ONE_LINE = ("jobs", "--failed")
NEEDS_NO_SCHEDULER = {"models", "serve", "version"}


class Known:
    """A fleet with something to list, and the names that were made up for it."""

    def __init__(self, peers: Field, folder: Path, job: str, letter_id: str, room_id: str) -> None:
        self.peers = peers
        self.folder = folder
        self._names = {"JOB": job, "LETTER": letter_id, "ROOM": room_id}

    def spelled(self, word: str) -> str:
        return self._names.get(word, word)

    def arguments(self, command: tuple[str, ...]) -> list[str]:
        words = [self.spelled(word) for word in command]
        return words if command[0] in NEEDS_NO_SCHEDULER else [*words, "--data-dir", str(self.folder)]


@asynccontextmanager
async def fleet(tmp_path: Path) -> AsyncIterator[Known]:
    data = tmp_path / "data"
    arguments = ("--data-dir", str(data), "--set", f"server.instance_id={INSTANCE}", *QUICK)
    async with serve_process(tmp_path, *arguments) as serving:
        async with field(await until(lambda: serving.port, START_S)) as peers:
            # Made before the node comes, so that its coming is an event.
            await until(lambda: has_picture(peers), START_S)
            await peers.node(node_id=NODE)
            client = await peers.client()
            await client.utterance(0)
            await client.outcome()
            await client.utterance(1, tgt_lang="ko")
            await client.outcome()
            job = await until(lambda: failed(peers), START_S)
            letter_id = await a_dead_letter(peers, data)
            await until(lambda: is_alarmed(peers), START_S)
            await client.socket.send({"type": "room_create", "client_ts": 1})
            room_id = await until(lambda: listed_room(peers), START_S)
            yield Known(peers, data, job, letter_id, str(room_id))


async def has_picture(peers: Field) -> bool:
    return (await peers.get("/v1/picture"))[0] == 200


async def failed(peers: Field) -> str:
    """In the list of jobs and in the history, which is written a little later."""
    _, found = await peers.get("/v1/jobs?state=FAILED")
    _, history = await peers.get("/v1/failures")
    return str(found["jobs"][0]["job_id"]) if found["jobs"] and history["failures"] else ""


async def listed_room(peers: Field) -> str:
    _, found = await peers.get("/v1/rooms")
    return str(found["rooms"][0]["room_id"]) if found["rooms"] else ""


async def is_alarmed(peers: Field) -> bool:
    _, found = await peers.get("/v1/alarms")
    return any(alarm["code"] == "pair.unserved" for alarm in found["alarms"])


async def a_dead_letter(peers: Field, data: Path) -> str:
    store = Store(str(running_url(data)), key_prefix="lingua:v1")
    await store.open()
    await store.inboxes.post(INSTANCE, letter("u1", b"\xff", "from_the_future"), ROOMY)
    await store.close()

    async def dead() -> str:
        _, found = await peers.get("/v1/dead-letters")
        return str(found["dead_letters"][0]["letter_id"]) if found["dead_letters"] else ""

    return str(await until(dead, START_S))


async def on_terminal(columns: int, commands: list[list[str]]) -> list[str]:
    with terminal() as screen:
        screen.resize(columns, 40)
        process = await screen.run(PROGRAM, json.dumps(commands))
        # What it wrote last may be read after its end.
        await until(lambda: screen.shown.count(END) == len(commands), ALL_S, "every command ended")
        await process.wait()
        return succeeded(ESCAPE.sub("", screen.shown).replace("\r\n", "\n"))


async def in_pipe(commands: list[list[str]]) -> list[str]:
    # Not by inheritance: readline, which pytest imports, sets COLUMNS behind the back of Python.
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = await fork_module(PROGRAM, [json.dumps(commands)], (DEVNULL, PIPE, DEVNULL), clean)
    output, _ = await asyncio.wait_for(process.communicate(), ALL_S)
    return succeeded(output.decode())


def succeeded(text: str) -> list[str]:
    found = outputs(text)
    assert [output for output, code in found if code] == []
    return [output for output, _ in found]


@pytest.mark.expects_surprise("letter.dead")
@pytest.mark.timeout(600)
async def test_every_listing_fits_and_cuts_nothing(tmp_path: Path) -> None:
    async with fleet(tmp_path) as known:
        commands = [known.arguments(command) for command in LISTINGS]
        for columns in (80, 60):
            for (command, names), shown in zip(LISTINGS.items(), await on_terminal(columns, commands), strict=True):
                words = " ".join(shown.split())
                assert [name for name in map(known.spelled, names) if name not in words] == [], (
                    columns,
                    command,
                    shown,
                )
                if command not in AS_WIDE_AS_ASKED:
                    wide = [line for line in shown.splitlines() if cell_len(line.split("\r")[-1].rstrip()) > columns]
                    assert wide == [], (columns, command)
                if command[0] == "status":
                    assert "…" not in shown, (columns, shown)
        for (command, names), piped in zip(LISTINGS.items(), await in_pipe(commands), strict=True):
            assert [name for name in map(known.spelled, names) if name not in piped] == [], (command, piped)
            # Keys begin with …:, and of session ids only the beginning is shown, on purpose.
            assert "…" not in re.sub(r"…:|\b(s-[0-9A-F]{8})…", "", piped), (command, piped)
            assert "\x1b" not in piped, command
            if command == ONE_LINE:
                (row,) = [line for line in piped.splitlines() if known.spelled("JOB") in line]
                assert [name for name in map(known.spelled, names) if name not in row] == [], row


@pytest.mark.expects_surprise("letter.dead")
async def test_a_reader_that_leaves_ends_a_command_as_it_ends_others(tmp_path: Path) -> None:
    async with fleet(tmp_path) as known:
        for command in (("status",), ("pools",), ("serve", "--print-config"), ("alarms",), ("version",)):
            ours, theirs = os.pipe()
            os.close(ours)
            process = await fork_command(*known.arguments(command), stdout=theirs, stderr=PIPE)
            os.close(theirs)
            _, said = await asyncio.wait_for(process.communicate(), START_S)
            assert (process.returncode, said) == (-signal.SIGPIPE, b""), command
