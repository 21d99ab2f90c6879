"""`lingua translate` in front of a person: live text, and the truth about what did not come."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lingua_scheduler.cli.options import Exit
from lingua_scheduler.cli.speech.translate import why_missing
from lingua_sdk import wav
from lingua_sdk.protocol.session import MissingResult
from tests.support.forked import fork_command
from tests.support.peers import FakeNode, Field, Frame, answer, field, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.terminals import terminal
from tests.support.tones import noise
from tests.support.waiting import until

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal as Linux has it")


@asynccontextmanager
async def place(server: RedisProcess, **changes: Any) -> AsyncIterator[Field]:
    async with scheduler_on(server.url, **changes) as (scheduler, _), field(scheduler.port) as peers:
        yield peers


def arguments(peers: Field, folder: Path, *more: str) -> list[str]:
    sound = folder / "speech.wav"
    wav.write(sound, noise(3_000) * 10)
    pair = ("--from", "en", "--to", "zh", "--fast", "--url", f"ws://127.0.0.1:{peers.port}")
    return ["translate", str(sound), *pair, *more]


async def run(words: list[str]) -> tuple[int | None, str, str]:
    process = await fork_command(*words, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@needs_linux
async def test_on_a_terminal_partial_text_is_shown_while_it_is_recognised(server: RedisProcess, tmp_path: Path) -> None:
    seen = asyncio.Event()

    async def understand(node: FakeNode, job: Frame) -> None:
        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
        for text in ("good", "good morning"):
            await node.socket.send(
                {"type": "asr_partial", "node_id": node.node_id, "text": text, "is_final": False} | about
            )
        await seen.wait()
        await answer(node, job)

    async with place(server) as peers:
        await peers.node(understand)
        with terminal() as screen:
            process = await screen.run("lingua_scheduler", *arguments(peers, tmp_path))
            await until(lambda: "good morning" in screen.shown, 30, "the partial text on the screen")
            seen.set()
            await until(lambda: "said s-" in screen.shown, 30, "the translation on the screen")
            assert await process.wait() == 0
        tail = screen.shown[screen.shown.rindex("said s-") :]
        assert "good morning" not in tail, "it is gone when the translation is there"


async def test_in_a_pipe_partial_text_is_not_printed(server: RedisProcess, tmp_path: Path) -> None:
    async def understand(node: FakeNode, job: Frame) -> None:
        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
        await node.socket.send(
            {"type": "asr_partial", "node_id": node.node_id, "text": "goo", "is_final": False} | about
        )
        await answer(node, job)

    async with place(server) as peers:
        await peers.node(understand)
        code, out, err = await run(arguments(peers, tmp_path))
        assert (code, err) == (0, "")
        assert len(out.splitlines()) == 2
        assert "goo" not in out


async def test_a_timeout_is_not_told_as_silence(server: RedisProcess, tmp_path: Path) -> None:
    changes = {"job__timeout_base_ms": 200, "job__timeout_factor": 0.0, "job__max_retries": 0}
    async with place(server, **changes) as peers:
        await peers.node(stay_silent)
        code, out, err = await run(arguments(peers, tmp_path))
        assert code == Exit.SCHEDULER
        assert "no result: no node answered in time" in out
        assert "no speech" not in out + err


async def test_a_cancelled_sentence_is_told_as_cancelled(server: RedisProcess, tmp_path: Path) -> None:
    async with place(server) as peers:
        node = await peers.node(stay_silent)
        running = asyncio.create_task(run(arguments(peers, tmp_path)))
        await until(lambda: node.jobs, 30)
        await peers.post(f"/v1/jobs/{node.jobs[0]['job_id']}/cancel")
        _, out, _ = await running
        assert "no result: it was cancelled" in out


async def test_nothing_is_sent_if_no_node_serves_the_pair(server: RedisProcess, tmp_path: Path) -> None:
    """Otherwise there is a failed job, and an alarm for the operators."""
    async with place(server) as peers:
        await peers.node(languages=("en", "pt"))
        code, out, err = await run(arguments(peers, tmp_path))
        assert (code, out) == (Exit.SCHEDULER, "")
        step = f"start one with: lingua node --url ws://127.0.0.1:{peers.port} --languages en,zh"
        told = f"no node translates English into Chinese or speaks Chinese; {step}"
        assert err == f"lingua: en→zh cannot be translated now: {told}; lingua pools shows the pairs\n"
        _, found = await peers.get("/v1/jobs")
        assert found["jobs"] == []


@pytest.mark.parametrize(
    ("reason", "code", "detail", "said"),
    [
        ("job_failed", "JOB_CANCELLED", "the job was cancelled", "it was cancelled"),
        ("job_failed", "JOB_TIMEOUT", "no node answered in time", "no node answered in time (JOB_TIMEOUT)"),
        ("job_failed", None, None, "job_failed"),
        ("no_text", None, None, "no speech was recognised"),
        ("silence_detected", None, None, "no speech was recognised"),
        ("gap_timeout", None, None, "gap_timeout"),
    ],
)
def test_reasons_are_told_in_words(reason: str, code: str | None, detail: str | None, said: str) -> None:
    missing = MissingResult(session_id="s", utterance_index=0, reason=reason, created_at_ms=0, code=code, detail=detail)
    assert why_missing(missing) == said
