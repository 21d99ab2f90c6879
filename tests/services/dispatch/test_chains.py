"""Chains: the jobs of a plan, one after the other, with one outcome."""

from typing import Any

import msgspec
import pytest

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.pools.ladder import LadderRules, Rung, StagePlan
from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.sessions.terms import PipelineTerms, Terms
from lingua_scheduler.services.attempts.work import Outcome, Work
from lingua_scheduler.services.dispatch.chains import Chains
from lingua_scheduler.services.dispatch.direct_jobs import SURPRISED
from lingua_scheduler.settings import Settings
from lingua_sdk.protocol.node import JobResult
from tests.support.speech import work

HEARD = Pool("zh", "zh", "text")
WRITTEN = Pool.from_text("zh", "en", "text")
SPOKEN = Pool.from_text("en", "en", "speech")
PLAN = StagePlan((HEARD, WRITTEN, SPOKEN), Rung.SPLIT)


def result(job_id: str, **said: Any) -> JobResult:
    return JobResult(
        job_id=job_id,
        attempt_id=1,
        node_id="n",
        session_id="s",
        utterance_index=0,
        success=True,
        trace_id="t",
        **said,
    )


def done(job_id: str, **said: Any) -> Outcome:
    return Outcome(JobState.DONE, job_id, result(job_id, **said), attempts=1)


class Dispatcher:
    """Answers jobs in turn, and keeps what it was asked."""

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self._outcomes = list(outcomes)
        self.asked: list[Work] = []

    async def translate(self, stage: Work) -> Outcome:
        self.asked.append(stage)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


class Recorder:
    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def tell_ladder(self, job_id: str, told: str) -> None:
        self.told[job_id] = told


class Languages:
    def __init__(self, *served: str) -> None:
        self._served = served

    def find(self, pool: Pool, whose: Whose) -> Pool | None:
        return pool if whose == Whose() and str(pool) in self._served else None


def chains(dispatcher: Dispatcher, *served: str, now_s: float = 100.0) -> Chains:
    return Chains(dispatcher, Recorder(), Languages(*served), Settings(), lambda: now_s)  # type: ignore[arg-type]


@pytest.fixture
def spoken() -> Work:
    return work(terms=Terms("zh", "en"), pools=("zh:en:speech",), audio=b"1234")


async def test_each_job_brings_the_text_of_the_one_before(spoken: Work) -> None:
    said = (done("j1", text_asr="你好"), done("j2", text_translated="hello"), done("j3", tts_audio="AA=="))
    dispatcher = Dispatcher(*said)
    outcome = await chains(dispatcher).run(spoken, PLAN, "en")
    assert [stage.text for stage in dispatcher.asked] == [None, "你好", "hello"]
    assert [stage.branch for stage in dispatcher.asked] == ["en", "en.2", "en.3"]
    assert [stage.pools for stage in dispatcher.asked] == [(str(pool),) for pool in PLAN.stages]
    assert outcome.result is not None
    assert (outcome.result.text_asr, outcome.result.text_translated, outcome.result.tts_audio) == (
        "你好",
        "hello",
        "AA==",
    )
    assert (outcome.job_id, outcome.attempts, outcome.plan) == ("j3", 3, None)


async def test_all_jobs_share_one_deadline(spoken: Work) -> None:
    dispatcher = Dispatcher(done("j1", text_asr="x"), done("j2", text_translated="y"), done("j3"))
    one = chains(dispatcher)
    await one.run(spoken, PLAN)
    assert {stage.give_up_at_s for stage in dispatcher.asked} == {one.deadline_s()}
    assert one.within(spoken, 0.5) == 100 + (one.deadline_s() - 100) / 2
    assert one.within(msgspec.structs.replace(spoken, give_up_at_s=110.0), 0.5) == 105


async def test_a_job_without_text_is_the_last(spoken: Work) -> None:
    dispatcher = Dispatcher(done("j1", text_asr=""))
    outcome = await chains(dispatcher).run(spoken, PLAN)
    assert (outcome.state, len(dispatcher.asked)) == (JobState.NO_TEXT, 1)


async def test_an_empty_translation_is_not_spoken(spoken: Work) -> None:
    dispatcher = Dispatcher(done("j1", text_asr="你好"), done("j2", text_translated=""), done("j3"))
    outcome = await chains(dispatcher).run(spoken, PLAN)
    assert (outcome.state, len(dispatcher.asked)) == (JobState.NO_TEXT, 2)


@pytest.mark.expects_surprise("job.surprised")
async def test_a_job_that_fails_is_the_outcome(spoken: Work) -> None:
    dispatcher = Dispatcher(done("j1", text_asr="x"), ValueError("a defect"))
    outcome = await chains(dispatcher).run(spoken, PLAN)
    assert (outcome.state, outcome.error, outcome.attempts) == (JobState.FAILED, SURPRISED.error, 1)


async def test_what_was_given_up_is_in_the_outcome(spoken: Work) -> None:
    plan = StagePlan((Pool("zh", "ja", "text"), Pool.from_text("ja", "en", "speech")), Rung.PIVOT, "ja")
    outcome = await chains(Dispatcher(done("j1", text_translated="x"), done("j2"))).run(spoken, plan)
    assert outcome.plan == plan


async def test_a_plan_is_made_of_what_is_asked_for_and_allowed(spoken: Work) -> None:
    one = chains(Dispatcher(), "zh:ja:text", "text/ja:en:speech")
    assert one.plan(spoken) is None
    one.rules = LadderRules(("ja",))
    plan = one.plan(spoken)
    assert plan is not None
    assert plan.pivot == "ja"
    assert one.plan(msgspec.structs.replace(spoken, allows_pivot=False)) is None
    assert one.plan(msgspec.structs.replace(spoken, belongs_to="x", tenant_id="acme")) is None
    auto = work(terms=Terms("auto", "en", auto_langs=("zh",)), pools=("zh:en:speech",))
    assert one.plan(auto) is None
    written = PipelineTerms(use_tts=False)
    assert one.plan(work(terms=Terms("zh", "ja", pipeline=written), pools=("zh:ja:text",))) is not None
