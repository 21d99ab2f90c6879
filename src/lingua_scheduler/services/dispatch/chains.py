"""An utterance by way of several jobs, one after the other, where no single node does all of it."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.pools.ladder import LadderRules, Rung, StagePlan, plan_of
from lingua_scheduler.domain.pools.lanes import Whose
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.services.attempts.work import Outcome, Work, attributes_of
from lingua_scheduler.services.dispatch.direct_jobs import SURPRISED
from lingua_scheduler.services.dispatch.dispatcher import Dispatcher
from lingua_scheduler.services.dispatch.languages import LanguageLookup
from lingua_scheduler.services.dispatch.recording import Recorder
from lingua_scheduler.services.dispatch.stages import joined, stage_of, text_after, without_text
from lingua_scheduler.settings import Settings
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.languages import AUTO

_log = logs.get()

Dispatch = Callable[[Work], Awaitable[Outcome]]

_RUNGS = metrics.by(metrics.RUNGS, Rung.SPLIT, Rung.PIVOT, Rung.TEXT_ONLY)


class Chains:
    """Runs plans of the ladder; `rules` is what the operator allows."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        recorder: Recorder,
        languages: LanguageLookup,
        settings: Settings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.dispatcher = dispatcher
        self._recorder = recorder
        self.languages = languages
        self.rules = LadderRules(settings.pools.pivot_langs, settings.pools.text_fallback)
        self._deadline_s = settings.job.deadline_ms / 1000
        self._clock = clock

    def plan(self, work: Work) -> StagePlan | None:
        """For the languages of a work; None if no nodes serve it, or the spoken language is not known."""
        return self.plan_for(work.terms, work.whose, allows_pivot=work.allows_pivot)

    def plan_if_unserved(self, work: Work) -> StagePlan | None:
        """For a work that no node does alone; None also if one does."""
        return None if self.languages.is_served(work) else self.plan(work)

    def plan_for(self, terms: Terms, whose: Whose, *, allows_pivot: bool) -> StagePlan | None:
        if terms.src_lang == AUTO:
            return None
        (name,) = terms.pools()
        find, rules = partial(self.languages.find, whose=whose), self.rules_for(allows_pivot=allows_pivot)
        return plan_of(*Pool.parse(name).pair, speaks=terms.pipeline.use_tts, find=find, rules=rules)

    def rules_for(self, *, allows_pivot: bool) -> LadderRules:
        return self.rules if allows_pivot else self.rules._replace(pivots=())

    def deadline_s(self) -> float:
        """Of an utterance that begins now, whatever number of jobs it takes."""
        return self._clock() + self._deadline_s

    def within(self, work: Work, share: float) -> float:
        """When a part of the time is over that the utterance has left."""
        now_s = self._clock()
        until_s = self.deadline_s() if work.give_up_at_s is None else work.give_up_at_s
        return now_s + share * (until_s - now_s)

    async def run(
        self,
        work: Work,
        plan: StagePlan,
        branch: str = "",
        before: Outcome | None = None,
        first: Dispatch | None = None,
    ) -> Outcome:
        """All of its jobs; `before` is what was recognised already. The first that brings no text is the outcome.

        `first` dispatches the first of them in another way, such as for a caller that waits for the id of its job.
        """
        work = msgspec.structs.replace(work, give_up_at_s=work.give_up_at_s or self.deadline_s())
        count(plan)
        text = (before.result.text_asr or "") if before is not None and before.result is not None else None
        outcome = before
        earlier = [before.job_id] if before is not None else []
        for place, pool in enumerate(plan.stages):
            stage = stage_of(work, pool, _branch(branch, place), text)
            latest = await self.job(stage, first if not place else None)
            if latest.job_id and plan.rung is not Rung.WHOLE:
                self._recorder.tell_ladder(latest.job_id, plan.in_words(place, earlier))
                earlier.append(latest.job_id)
            outcome = latest if outcome is None else joined(outcome, latest, pool, text or "")
            if latest.state is not JobState.DONE or latest.result is None or place + 1 == len(plan.stages):
                break
            text = text_after(pool, latest.result)
            if not text:
                outcome = without_text(outcome)
                break
        assert outcome is not None
        return msgspec.structs.replace(outcome, plan=plan if plan.is_degraded else None)

    async def job(self, stage: Work, dispatch: Dispatch | None = None) -> Outcome:
        """One of the jobs; it always has an outcome."""
        trail = stage.trail
        if trail is not None:
            stage = msgspec.structs.replace(stage, trail=trail.stage(attributes_of(stage)))
        try:
            outcome = await (dispatch or self.dispatcher.translate)(stage)
        except asyncio.CancelledError:
            _finish(stage, None)
            raise
        except Exception:
            _log.exception("job.surprised")
            outcome = SURPRISED
        _finish(stage, outcome)
        return outcome


def count(plan: StagePlan) -> None:
    if plan.rung is not Rung.WHOLE:
        _RUNGS[plan.rung].inc()


def _branch(branch: str, place: int) -> str:
    """Jobs of one language at one node must differ."""
    return f"{branch}.{place + 1}" if place else branch


def _finish(stage: Work, outcome: Outcome | None) -> None:
    if stage.trail is not None:
        if outcome is not None:
            stage.trail.settled(outcome.state, outcome.error, outcome.job_id)
        stage.trail.finish()
