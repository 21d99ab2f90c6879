"""Jobs from the command line: straight from Redis, for people and for scripts."""

import asyncio
import json
from functools import partial
from typing import Any

import aiohttp
import msgspec
import pytest
from click.testing import Result

from lingua_scheduler.store.jobs.jobs import JobNote
from lingua_scheduler.store.store import Store
from tests.cli.test_commands import SETTINGS, lingua
from tests.support.fleet import POOL, dispatch, entry, join, order
from tests.support.peers import field, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

OTHER = "job-0-i-1234abcd-5678abcdef0123456789"
NO_FRENCH = "no node speaks French"


async def ask(server: RedisProcess, *arguments: str) -> Result:
    """As a person would, in a process that holds nothing: here, in a thread of its own, on a wide screen."""
    return await asyncio.to_thread(partial(lingua, *arguments, "--redis-url", server.url, COLUMNS="400"))


async def asked(server: RedisProcess, *arguments: str) -> Any:
    shown = await ask(server, *arguments, "--json")
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


async def refuse(store: Store, job_id: str, session: str = "s-1") -> None:
    note = JobNote(job_id, ("en:fr:speech",), session, 4, "i-1", "NO_CAPABLE_NODE", NO_FRENCH)
    await store.jobs.note(0, note, 60_000)


async def test_jobs_are_listed_and_chosen(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    await dispatch(store, order("runs"))
    await refuse(store, "job-0-refused")
    await refuse(store, OTHER, "s-2")
    listed = await asked(server, "jobs")
    assert [job["job_id"] for job in listed["jobs"]] == [OTHER, "job-0-refused", "job-0-runs"]
    assert [job["job_id"] for job in (await asked(server, "jobs", "--state", "failed"))["jobs"]] == [
        OTHER,
        "job-0-refused",
    ]
    assert [job["job_id"] for job in (await asked(server, "jobs", "--session", "s-2"))["jobs"]] == [OTHER]
    assert len((await asked(server, "jobs", "--limit", "1"))["jobs"]) == 1
    shown = (await ask(server, "jobs")).stdout
    assert "\x1b" not in shown
    assert OTHER in shown  # never cut
    (line,) = (line for line in shown.splitlines() if line.startswith("job-0-refused"))
    assert line.split()[:5] == ["job-0-refused", "FAILED", "en→fr", "0", "-"]


@pytest.mark.parametrize("command", [("jobs",), ("job", "job-0-1"), ("job", "job-0-2"), ("explain", "job-0-2")])
async def test_words_of_strangers_are_shown_as_they_are_and_obeyed_by_nobody(
    server: RedisProcess, store: Store, command: tuple[str, ...]
) -> None:
    words = "[/nope]\x1b]0;X\x07 [red]"
    await join(store, entry("[/n]\x1b[red]"))
    await dispatch(store, msgspec.structs.replace(order(1), session_id=words))
    await store.jobs.note(0, JobNote("job-0-2", (POOL,), words, 4, "i-1", "NO_CAPABLE_NODE", words), 60_000)
    shown = await ask(server, *command)
    assert shown.exit_code == 0, shown.exception
    assert "[/nope] ]0;X" in shown.stdout
    assert "[red]" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "\x07" not in shown.stdout


async def test_a_node_with_a_strange_name_is_named_by_the_jobs_it_has(server: RedisProcess, store: Store) -> None:
    await join(store, entry("[/n]\x1b[red]"))
    await dispatch(store, order(1))
    for command in (("jobs",), ("job", "job-0-1"), ("explain", "job-0-1"), ("cancel", "job-0-1")):
        shown = await ask(server, *command)
        assert shown.exit_code == 0, shown.exception
        assert "[/n] [red]" in shown.stdout
        assert "\x1b" not in shown.stdout


async def test_no_jobs_are_a_sentence(server: RedisProcess, store: Store) -> None:
    assert "no recent jobs" in (await ask(server, "jobs")).stdout
    assert "lingua jobs shows all" in (await ask(server, "jobs", "--state", "DONE")).stdout


async def test_a_state_that_does_not_exist_is_refused_with_those_that_do(server: RedisProcess) -> None:
    refused = await ask(server, "jobs", "--state", "LOST")
    assert refused.exit_code == SETTINGS
    assert "retrying" in refused.stderr


async def test_one_job_is_shown_with_its_history(server: RedisProcess, store: Store) -> None:
    await refuse(store, "job-0-1")
    job = await asked(server, "job", "job-0-1")
    assert (job["state"], job["reason"], job["detail"]) == ("FAILED", "NO_CAPABLE_NODE", NO_FRENCH)
    assert [line["state"] for line in job["history"]] == ["FAILED"]
    shown = (await ask(server, "job", "job-0-1")).stdout
    for words in (NO_FRENCH, "s-1, utterance 4", "en→fr", "lingua explain job-0-1"):
        assert words in shown


@pytest.mark.parametrize("command", ["job", "explain", "cancel"])
async def test_a_job_nobody_knows_is_one_sentence_with_a_next_step(
    server: RedisProcess, store: Store, command: str
) -> None:
    for job_id in ("job-0-nobody", "nonsense"):
        refused = await ask(server, command, job_id)
        assert refused.exit_code == SETTINGS
        assert refused.stderr.startswith(f"lingua: there is no job {job_id}")
        assert "lingua jobs lists the latest" in refused.stderr


async def test_what_is_no_record_is_a_job_nobody_knows_over_http_too(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), aiohttp.ClientSession() as http:
        await store.line.call("SET", store.keys.shard(0).job("job-0-bad-1"), "garbage")
        for command in ("job", "explain", "cancel"):
            assert "lingua: there is no job job-0-bad-1" in (await ask(server, command, "job-0-bad-1")).stderr
        async with http.get(f"http://127.0.0.1:{scheduler.port}/v1/jobs/job-0-bad-1") as answer:
            assert answer.status == 404


async def test_explain_names_the_missing_ability(server: RedisProcess, store: Store) -> None:
    await refuse(store, "job-0-1")
    explained = await asked(server, "explain", "job-0-1")
    assert explained["headline"] == NO_FRENCH
    assert explained["now"]["headline"].startswith("no node is connected; start one with: lingua node")
    assert NO_FRENCH in (await ask(server, "explain", "job-0-1")).stdout


async def test_explain_says_a_sentence_once(server: RedisProcess, store: Store) -> None:
    note = JobNote(OTHER, ("en:fr:speech",), "s-1", 4, "i-1", "NO_CAPABLE_NODE", "")
    await store.jobs.note(0, note, 60_000)
    missing = (await asked(server, "explain", OTHER))["now"]["headline"]
    note = JobNote("job-0-1", ("en:fr:speech",), "s-1", 4, "i-1", "NO_CAPABLE_NODE", missing)
    await store.jobs.note(0, note, 60_000)
    shown = (await ask(server, "explain", "job-0-1")).stdout
    assert shown.count(missing) == 1
    assert "now: (0 nodes looked at)" in shown


async def test_explain_lists_the_candidates_of_a_job_that_waits(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1", max_jobs=1))
    await dispatch(store, order(1))
    await store.jobs.note(0, JobNote("job-0-w", (POOL,), "s-1", 0, "i-1"), 60_000)
    shown = (await ask(server, "explain", "job-0-w")).stdout
    assert "it is waiting for its first node: no node for en→zh can take the job: 1 full" in shown
    assert "1 of 1 slots taken" in shown


async def test_cancel_ends_a_job_and_says_where_it_was(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    attempt, _ = await dispatch(store, order(1))
    assert await asked(server, "cancel", attempt.job_id) == {
        "job_id": attempt.job_id,
        "was": "DISPATCHED",
        "attempt": 1,
        "node_id": "n1",
    }
    again = await ask(server, "cancel", attempt.job_id)
    assert again.exit_code == SETTINGS
    assert "has already ended (CANCELLED)" in again.stderr
    await dispatch(store, order(2))
    assert "is cancelled; it was DISPATCHED, attempt 1 on n1" in (await ask(server, "cancel", "job-0-2")).stdout


async def test_cancel_reaches_the_scheduler_that_has_the_job(server: RedisProcess) -> None:
    async with scheduler_on(server.url) as (scheduler, store), field(scheduler.port) as peers:
        await until(store.signals.listening.is_set)
        node = await peers.node(stay_silent)
        client = await peers.client()
        await client.utterance(0)
        job = (await until(lambda: node.jobs))[0]
        assert (await ask(server, "cancel", job["job_id"])).exit_code == 0
        assert (await client.outcome())["reason"] == "job_failed"


@pytest.mark.parametrize("command", ["jobs", "job", "explain", "cancel"])
def test_without_redis_it_is_one_sentence(command: str) -> None:
    arguments = () if command == "jobs" else ("job-0-1",)
    refused = lingua(command, *arguments, "--redis-url", "redis://127.0.0.1:1")
    assert refused.exit_code == 3
    assert "cannot be reached" in refused.stderr
