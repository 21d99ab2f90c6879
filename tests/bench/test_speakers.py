"""Live speakers: every utterance is answered, the time to a node is the true one, and a failure is said."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from bench import children, scenarios
from bench import speakers as speaking
from bench.figures import Samples
from bench.orders import Cast, Speech, Spoken
from bench.plan import Plan
from lingua_scheduler.settings import Settings
from tests.bench.evicting import evict

TINY = Plan(repeats=1, speakers=8, nodes=2, phase_s=1.5)


async def test_every_figure_of_the_speakers_is_there() -> None:
    run = await scenarios.run(["speakers"], TINY, lambda _: None)
    medians = {figure.name: figure.median for figure in run.figures}
    for variant in ("JSON", "binary", "JSON, chunks alone", "binary, chunks alone"):
        for metric in ("scheduler CPU", "redis CPU", "load CPU", "chunks", "scheduler memory", "redis memory"):
            assert medians[f"speakers/{variant}/{metric}"] > 0, (variant, metric)
    for variant in ("JSON", "binary"):
        p50, p99 = (medians[f"speakers/{variant}/final to job_assign {share}"] for share in ("p50", "p99"))
        assert -5 < p50 <= p99
        assert medians[f"speakers/{variant}/refused"] == 0
    # Where nobody pauses, everybody says five chunks a second.
    assert 0.6 < medians["speakers/JSON, chunks alone/chunks"] / (5 * TINY.speakers) < 1.4
    assert medians["speakers/JSON/chunks"] < medians["speakers/JSON, chunks alone/chunks"]
    assert "speakers/JSON, chunks alone/final to job_assign p99" not in medians


def test_the_hangover_is_no_part_of_the_figures() -> None:
    hangover_ms = Settings().sessions.hangover_manual_ms
    samples = Samples()
    speaking._report("", Spoken(took_s=1.0, assigned_ms=(hangover_ms + 3.0, hangover_ms + 70.0)), samples)
    medians = {figure.name: figure.median for figure in samples.figures()}
    assert (medians["final to job_assign p50"], medians["final to job_assign p99"]) == (3.0, 70.0)


@pytest.mark.parametrize("is_binary", [False, True])
async def test_the_time_to_a_node_contains_the_hangover_and_no_utterance_is_lost(
    tmp_path: Path, is_binary: bool
) -> None:
    async with (
        children.scheduler(tmp_path, LINGUA_SESSIONS_HANGOVER_MANUAL_MS="700") as scheduler,
        children.speakers(Cast(port=scheduler.port, talkers=12, nodes=1, slots=64)) as speakers,
    ):
        spoken = await speakers.carry_out(Speech(seconds=2.5, is_binary=is_binary))
        rest = await speakers.carry_out(Speech())
    assert spoken.utterances > 0
    assert spoken.assigned_ms is not None
    assert 695 <= spoken.assigned_ms[0] <= spoken.assigned_ms[1]
    # Whoever was speaking has ended, with one chunk each, and all of them have their answer.
    assert 0 < rest.chunks == rest.utterances <= 12
    assert rest.answered_ms is not None
    assert (spoken.again, rest.again) == (0, 0)


async def test_speech_without_ends_makes_no_job(tmp_path: Path) -> None:
    async with (
        children.scheduler(tmp_path) as scheduler,
        children.speakers(Cast(port=scheduler.port, talkers=5, nodes=1, slots=64)) as speakers,
    ):
        spoken = await speakers.carry_out(Speech(seconds=1.5, has_ends=False))
        rest = await speakers.carry_out(Speech())
    assert (spoken.utterances, spoken.assigned_ms) == (0, None)
    assert spoken.chunks > 5
    assert rest.utterances == 5


async def test_a_job_that_fails_is_counted_and_said() -> None:
    run = await scenarios.run(["speakers"], msgspec.structs.replace(TINY, nodes=0), lambda _: None)
    medians = {figure.name: figure.median for figure in run.figures}
    assert medians["speakers/JSON/refused"] > 0
    assert "speakers/JSON/final to job_assign p99" not in medians
    assert any("utterances of “JSON” got no result" in note and "NO_CAPABLE_NODE" in note for note in run.notes)


async def test_a_node_that_is_lost_is_said(tmp_path: Path) -> None:
    async with (
        children.scheduler(tmp_path) as scheduler,
        children.speakers(Cast(port=scheduler.port, talkers=3, nodes=2, slots=8)) as speakers,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(evict(scheduler.port, "bench-1"))
        with pytest.raises(children.BenchFailed, match=r"a node was (disconnected|told)"):
            await speakers.carry_out(Speech(seconds=20))
