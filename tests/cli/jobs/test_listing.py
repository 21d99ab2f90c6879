"""`lingua jobs`: the latest jobs and the failure history, by node, session, pair and time."""

import time

import pytest

from lingua_scheduler.store.store import Store
from tests.cli.jobs.test_jobs import ask, asked, refuse
from tests.cli.test_commands import SETTINGS, lingua
from tests.domain.watching.test_failures import failure
from tests.support.fleet import POOL, dispatch, entry, join, order
from tests.support.servers import RedisProcess


async def test_jobs_of_a_node_and_of_a_pair(server: RedisProcess, store: Store) -> None:
    await join(store, entry("n1"))
    await dispatch(store, order("runs"))
    await refuse(store, "job-0-refused")
    src, tgt, _ = POOL.split(":")
    for chosen in (("--node", "n1"), ("--pair", f"{src}:{tgt}"), ("--pair", f"{src}→{tgt.upper()}", "--since", "1h")):
        assert [job["job_id"] for job in (await asked(server, "jobs", *chosen))["jobs"]] == ["job-0-runs"]
    assert "no recent job matches" in (await ask(server, "jobs", "--node", "n9")).stdout


async def test_the_failure_history_is_shown_and_chosen(server: RedisProcess, store: Store) -> None:
    assert "no job has failed" in (await ask(server, "jobs", "--failed")).stdout
    at_ms = int(time.time() * 1000)
    await store.failures.add(
        [
            failure(at_ms=at_ms - 3 * 3_600_000, job_id="job-0-old"),
            failure(at_ms=at_ms, job_id="job-0-new", node_id="n2", reason="the node was too slow", tenant_id="zoo"),
            failure(at_ms=at_ms, job_id="", session_id="", utterance_index=-1, count=12),
        ],
        100,
        86_400_000,
    )

    async def found(*chosen: str) -> list[str]:
        return [one["job_id"] for one in (await asked(server, "jobs", "--failed", *chosen))["failures"]]

    assert await found() == ["", "job-0-new", "job-0-old"]
    assert await found("--since", "2h") == ["", "job-0-new"]
    assert (
        await found("--node", "n2") == await found("--session", "s-0123456789ABCDEF", "--limit", "1") == ["job-0-new"]
    )
    assert await found("--pair", "de:en") == []
    assert await found("--tenant", "zoo") == ["job-0-new"]
    shown = (await ask(server, "jobs", "--failed")).stdout
    (line,) = (line for line in shown.splitlines() if "job-0-new" in line)
    assert "n2" in line
    assert "the node was too slow" in line
    assert "12 failures of this kind" in shown
    assert "no failed job matches" in (await ask(server, "jobs", "--failed", "--node", "n9")).stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--since", "soon"), "write 90s, 30m, 2h or 7d"),
        (("--pair", "en"), "write it as en:de"),
        (("--failed", "--state", "DONE"), "leave --state out"),
        (("--tenant", "acme"), "add --failed"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused_with_the_next_step(arguments: tuple[str, ...], told: str) -> None:
    refused = lingua("jobs", *arguments)
    assert refused.exit_code == SETTINGS
    assert told in refused.stderr
