"""`lingua load` as people and scripts use it: what it shows, how it ends, what it refuses."""

import asyncio
import json
import re
import signal
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.cli.load import load as command
from lingua_scheduler.cli.options import Failure
from lingua_sdk.audio import SAMPLE_RATE
from tests.support.forked import fork_command
from tests.support.peers import FakeNode, Field, Frame, result_of, stay_silent
from tests.support.terminals import Terminal, terminal
from tests.support.tones import tone, write_wav
from tests.support.waiting import until

FOUND, SETTINGS, SCHEDULER, INTERRUPTED = 1, 2, 5, 130


@pytest.fixture
def sound(tmp_path: Path) -> str:
    return str(write_wav(tmp_path / "tone.wav", tone(300, SAMPLE_RATE, 0.4), SAMPLE_RATE))


async def fail(node: FakeNode, job: Frame) -> None:
    """All but the first job, which is the probe."""
    if len(node.jobs) == 1:
        await node.socket.send(result_of(job, node.node_id))
    else:
        error = {"code": "UNSUPPORTED_FEATURE", "message": "no"}
        await node.socket.send(result_of(job, node.node_id, success=False, error=error))


async def started(*arguments: str) -> Process:
    return await fork_command("load", *arguments, stdout=PIPE, stderr=PIPE)


async def ended(process: Process) -> tuple[int | None, str, str]:
    async with asyncio.timeout(90):
        out, told = await process.communicate()
    return process.returncode, out.decode(), told.decode()


async def loaded(port: int, *arguments: str) -> tuple[int | None, str, str]:
    return await ended(await started(f"ws://127.0.0.1:{port}", "--ramp-up", "0", *arguments))


async def shown_on(screen: Terminal, port: int, sound: str) -> Process:
    """Ten utterances a second for an hour, unless it is stopped."""
    options = ("--rate", "10", "--seconds", "3600", "--audio", sound)
    return await screen.run("lingua_scheduler", "load", f"ws://127.0.0.1:{port}", *options)


async def test_speakers_are_translated_and_the_result_is_json(peers: Field, sound: str) -> None:
    await peers.node(max_concurrent_jobs=50)
    code, out, told = await loaded(peers.port, "--speakers", "3", "--seconds", "4", "--audio", sound, "--json")
    assert (code, told) == (0, "")
    report: dict[str, Any] = json.loads(out)
    assert report["url"] == f"ws://127.0.0.1:{peers.port}"
    assert (report["from"], report["to"], report["speakers"], report["rate"]) == ("en", "zh", 3, None)
    assert report["said"] == report["translated"] > 0
    assert (report["failed"], report["gaps"], report["unanswered"], report["problems"]) == ({}, {}, 0, [])
    # The hangover is part of it.
    assert 150 < report["latency_ms"]["p50"] <= report["latency_ms"]["p99"] <= report["latency_ms"]["max"] + 10


async def test_a_rate_is_kept_and_the_result_is_a_sheet(peers: Field, sound: str) -> None:
    node = await peers.node(max_concurrent_jobs=50)
    code, out, told = await loaded(peers.port, "--rate", "10", "--seconds", "2", "--audio", sound)
    assert code == 0
    # Everybody who was due was heard; the probe is no part of the result.
    assert re.search(rf"^said +{len(node.jobs) - 1} ", out, re.MULTILINE)
    assert 10 <= len(node.jobs) - 1 <= 30
    assert re.search(r"^  p50 [\d.]+ m?s +p95 .+ p99 .+ max ", out, re.MULTILINE)
    assert "sessions, 0 said, 0 translated, 0 failed, p99 -" in told.splitlines()[0]


async def test_what_fails_is_counted_by_its_code_and_ends_with_1(peers: Field, sound: str) -> None:
    await peers.node(fail, max_concurrent_jobs=50)
    code, out, told = await loaded(peers.port, "--rate", "5", "--seconds", "1", "--audio", sound, "--json")
    report = json.loads(out)
    assert code == FOUND
    assert report["translated"] == 0
    assert report["latency_ms"]["p99"] is None
    ((_, failures),) = report["failed"].items()
    assert failures == report["said"]
    assert report["problems"] == [f"{failures} utterances failed", "nothing was translated"]
    assert told == f"lingua: {failures} utterances failed; nothing was translated\n"


async def test_a_p99_that_is_too_high_ends_with_1(peers: Field, sound: str) -> None:
    await peers.node(max_concurrent_jobs=50)
    code, _, told = await loaded(
        peers.port, "--rate", "5", "--seconds", "1", "--audio", sound, "--json", "--max-p99-ms", "0.001"
    )
    assert code == FOUND
    assert re.fullmatch(r"lingua: p99 is [\d.]+ ms, more than 0.001 ms\n", told)


async def test_the_first_ctrl_c_ends_the_load_and_shows_the_result(peers: Field, sound: str) -> None:
    node = await peers.node(max_concurrent_jobs=50)
    process = await started(
        f"ws://127.0.0.1:{peers.port}", "--rate", "10", "--seconds", "3600", "--audio", sound, "--json"
    )
    await until(lambda: len(node.jobs) > 5, within_s=60)
    process.send_signal(signal.SIGINT)
    code, out, told = await ended(process)
    assert (code, told) == (0, "")
    report = json.loads(out)
    assert report["seconds"] < 3600
    assert report["said"] == report["translated"] == len(node.jobs) - 1


async def test_a_second_ctrl_c_leaves_at_once(peers: Field, sound: str) -> None:
    node = await peers.node(max_concurrent_jobs=50)
    with terminal() as screen:
        process = await shown_on(screen, peers.port, sound)
        await until(lambda: len(node.jobs) > 5, within_s=60)
        node.work = stay_silent
        before = len(node.jobs)
        await until(lambda: len(node.jobs) > before)
        screen.type("\x03")
        await until(lambda: "waiting for the last results" in screen.shown)
        screen.type("\x03")
        async with asyncio.timeout(90):
            assert await process.wait() == INTERRUPTED
    assert "Traceback" not in screen.shown


@pytest.mark.parametrize("columns", [80, 60])
async def test_on_a_terminal_it_is_live_and_nothing_is_cut(peers: Field, sound: str, columns: int) -> None:
    node = await peers.node(max_concurrent_jobs=50)
    with terminal() as screen:
        screen.resize(columns, 24)
        process = await shown_on(screen, peers.port, sound)
        await until(lambda: len(node.jobs) > 5, within_s=60)
        await until(lambda: "of 1 h 0 min" in screen.shown and "under way" in screen.shown, within_s=60)
        screen.type("\x03")
        async with asyncio.timeout(60):
            assert await process.wait() == 0
        await until(lambda: re.search(r"p99 .*max ", screen.shown.rsplit("lingua load", 1)[-1]))
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.shown).replace("\r", "\n").split("\n")
    assert max(map(len, lines)) <= columns
    assert "Traceback" not in screen.shown


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nonsense://x",), SETTINGS, "is not an address"),
        (("ws://127.0.0.1:1",), SCHEDULER, "no scheduler answers at ws://127.0.0.1:1"),
        (("ws://127.0.0.1:1", "--speakers", "5", "--rate", "5"), SETTINGS, "exclude each other"),
        (("ws://127.0.0.1:1", "--speakers", "1000000"), SETTINGS, "1<=x<=2000"),
        (("ws://127.0.0.1:1", "--rate", "1000000"), SETTINGS, "0.1<=x<=500"),
        (("ws://127.0.0.1:1", "--from", "klingon!"), SETTINGS, "'klingon!' is not a language code"),
        (("ws://127.0.0.1:1", "--audio", "/nowhere.wav"), SETTINGS, "/nowhere.wav cannot be opened"),
    ],
)
async def test_what_cannot_be_is_said_at_once(arguments: tuple[str, ...], code: int, words: str) -> None:
    found, out, told = await ended(await started(*arguments))
    assert (found, out) == (code, "")
    assert words in told


async def test_an_address_with_a_wrong_path_is_said(peers: Field) -> None:
    code, _, told = await ended(await started(f"http://127.0.0.1:{peers.port}/elsewhere"))
    assert code == SCHEDULER
    assert "the path is wrong (HTTP 404)" in told


async def test_a_pair_that_nobody_serves_is_said_before_any_load(peers: Field) -> None:
    await peers.node()
    code, out, told = await loaded(peers.port, "--to", "fr")
    assert (code, out) == (SCHEDULER, "")
    assert told.startswith("lingua: no node serves en → fr (NO_CAPABLE_NODE: ")
    assert "lingua pools shows the pairs" in told


def test_more_sessions_than_files_may_be_open_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 1_000))
    monkeypatch.setattr("resource.setrlimit", lambda _, limits: asked.append(limits))
    command._allow_files(500)
    assert asked == [(600, 1_000)]
    with pytest.raises(Failure, match=r"950 sessions need 1050 open files, and this process may have 1000"):
        command._allow_files(950)
