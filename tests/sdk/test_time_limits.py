"""An engine asks for more time: from its thread, for its own job, or for all jobs of a batch."""

import asyncio
import contextvars
import math
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from lingua_scheduler.setting_sections.jobs import JobSettings
from lingua_sdk import time_limits
from lingua_sdk.audio import Audio
from lingua_sdk.engines import ShowPartial
from lingua_sdk.node import Node, Pipeline, more_time
from lingua_sdk.self_test import try_pair
from lingua_sdk.time_limits import asking_with, current, together
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.toys import Ears, Mind, Voice, job
from tests.support.waiting import until


def test_outside_a_job_nothing_is_asked_and_one_warning_says_so(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limits, "_has_warned", False)
    more_time(3)
    more_time(3)
    assert current() is None
    (logged,) = caplog.records
    assert (logged.name, logged.levelname) == ("lingua.node", "WARNING")
    assert "more_time() was called outside a job" in logged.getMessage()
    assert "contextvars.copy_context().run" in logged.getMessage()


@pytest.mark.parametrize("seconds", ["10", None, True, [1]])
def test_the_time_must_be_a_number(seconds: Any) -> None:
    with pytest.raises(
        TypeError, match=r"more_time\(\) takes a number of seconds such as 10, got (str|None|bool|list)"
    ):
        more_time(seconds)


@pytest.mark.parametrize("seconds", [0, -3, math.nan, math.inf, 1e30])
def test_the_time_must_be_positive_and_sane(seconds: float) -> None:
    with pytest.raises(ValueError, match=r"more_time\(\) takes seconds above 0 and up to 86400, got "):
        more_time(seconds)


def test_a_thread_that_an_engine_starts_asks_in_a_copy_of_its_context() -> None:
    asked: list[float] = []
    with asking_with(asked.append):
        thread = threading.Thread(target=contextvars.copy_context().run, args=(more_time, 3))
        thread.start()
        thread.join()
    assert asked == [3]


async def test_a_self_test_is_not_outside_a_job(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limits, "_has_warned", False)
    pipeline = Pipeline(Ears(work=lambda: more_time(3)), translator=Mind(), speaker=Voice())
    assert (await try_pair(pipeline, ("en", "zh"), pipeline.abilities(), bytes(32_000))).problem == ""
    assert caplog.records == []


def test_the_request_goes_to_the_job_or_to_all_of_a_batch() -> None:
    asked: list[tuple[str, float]] = []
    one, other = (lambda s: asked.append(("one", s))), (lambda s: asked.append(("other", s)))
    with asking_with(one):
        more_time(1)
        with asking_with(together([one, None, other])):
            more_time(2)
        more_time(3)
    assert asked == [("one", 1), ("one", 2), ("other", 2), ("one", 3)]


class Patient(Ears):
    """Asks for time in its thread, then works until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def recognise(self, audio: Audio, language: str, partial: ShowPartial) -> str:
        more_time(3_600)
        self.go_on.wait(60)
        return super().recognise(audio, language, partial)


async def test_a_job_whose_engine_asked_for_time_outlives_its_timeout(server: RedisProcess) -> None:
    patient = Patient()
    limits = {"job__timeout_base_ms": 2_000, "job__timeout_factor": 0.0, "job__max_retries": 0}
    async with scheduler_on(server.url, **limits) as (scheduler, store), field(scheduler.port) as peers:
        node = Node(f"127.0.0.1:{scheduler.port}", Pipeline(patient, translator=Mind(), speaker=Voice(), slots=1))
        running = asyncio.create_task(node.run())
        await until(lambda: node.node_id is not None)
        client = await peers.client()
        await client.utterance(0)
        leases = store.keys.shard(0).leases

        async def left_ms() -> float:
            """Of the job's time, once it is more than the half minute that nothing else would give it."""
            now_s, _ = await store.line.call("TIME")
            found = await store.line.call("ZRANGE", leases, 0, -1, "WITHSCORES")
            left = float(found[1]) - int(now_s) * 1000 if found else 0.0
            return left if left > 30_000 else 0.0

        # An hour was asked for; no more is given than a job may take in all.
        assert await until(left_ms, 30) <= JobSettings().deadline_ms + 1_000
        # Another job of the same length, at a node that says nothing, is given up meanwhile.
        await peers.node(_never, languages=("en", "zh"))
        other = await peers.client()
        await other.utterance(0)
        assert (await other.outcome())["type"] == "missing_result"
        patient.go_on.set()
        assert (await client.outcome())["type"] == "translation_result"
        await node.stop()
        await running


async def _never(*_: object) -> None:
    pass


class Batching:
    pairs = (("en", "zh"),)

    def __init__(self) -> None:
        self.batches: list[Sequence[str]] = []

    async def translate_batch(self, texts: Sequence[str], source: str, target: str) -> list[str]:
        self.batches.append(texts)
        more_time(5)
        return list(texts)


async def test_a_batch_asks_for_each_of_its_jobs() -> None:
    pipeline = Pipeline(Ears(), translator=Batching(), speaker=Voice())  # type: ignore[arg-type]
    asked: list[str] = []

    async def translate(name: str) -> None:
        with asking_with(lambda _: asked.append(name)):
            await pipeline.translate(job(), lambda _: None)

    await asyncio.gather(translate("a"), translate("b"))
    assert sorted(asked) == ["a", "b"]
