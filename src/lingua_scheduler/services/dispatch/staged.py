"""One utterance into several languages: recognised once and then translated from text, or a whole job for each."""

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.pools.ladder import Rung, Shares, StagePlan, shares_of
from lingua_scheduler.domain.pools.names import Pool
from lingua_scheduler.services.attempts.work import Binding, Outcome, Work
from lingua_scheduler.services.dispatch.chains import Chains
from lingua_scheduler.services.dispatch.direct_jobs import SURPRISED, DirectJobs, Rest
from lingua_scheduler.services.dispatch.stages import stage_of, without_text
from lingua_scheduler.telemetry import logs, metrics
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.languages import AUTO

_log = logs.get()

# A recognition may take this part of the time an utterance has: if it fails, whole jobs need the rest.
RECOGNITION_SHARE = 0.5

_SHARED = metrics.by(metrics.RECOGNITIONS_SHARED, "done", "no_text", "failed")


class Listeners(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of an utterance is told here. Every language of it gets one outcome, whichever way it goes."""

    # The text, in the language it was said in; at most once, and before the outcome that brought it.
    on_recognised: Callable[[str, str], None]
    on_outcome: Callable[[str, Outcome], None]
    # The node to which a language of this turn sticks, for jobs that bring audio.
    binding_of: Callable[[str], Binding | None]


class StagedJobs:
    """Utterances for several languages. With `shares_recognition` false, each language is a job of its own."""

    def __init__(self, chains: Chains, shares_recognition: bool) -> None:
        self._chains = chains
        self._languages = chains.languages
        self._shares_recognition = shares_recognition
        self.jobs = Nursery("staged")
        # Without it every job is a task.
        self.direct: DirectJobs | None = None

    def start(self, work: Work, targets: Mapping[str, bool], listeners: Listeners) -> None:
        """`targets`: language → whether it is to be spoken. The target of `work` itself does not count."""
        if not targets:
            return
        work = msgspec.structs.replace(work, give_up_at_s=work.give_up_at_s or self._chains.deadline_s())
        utterance = _Utterance(work, targets, listeners)
        shares = self._shares(utterance)
        # One stream of partial texts is enough.
        streams = shares.recognition is None
        for lang, plan in shares.others.items():
            self._start(utterance, lang, plan, streams=streams)
            streams = False
        if shares.recognition is not None:
            self.jobs.start(self._recognise(utterance, shares.recognition, shares.from_text))

    def served_as(self, work: Work, lang: str) -> str | None:
        """The tag by which nodes get there in any way that is allowed, at least as text; None if none does."""
        terms = work.terms._replace(tgt_lang=lang, pipeline=work.terms.pipeline._replace(use_tts=False))
        whole = msgspec.structs.replace(work, terms=terms, pools=terms.pools())
        if self._languages.is_served(whole):
            return lang
        used = self._languages.used(terms, work.whose)
        if used is not None:
            return used.tgt_lang
        plan = self._chains.plan(whole)
        return None if plan is None else plan.stages[-1].pair.tgt

    def _shares(self, utterance: "_Utterance") -> Shares:
        work, targets = utterance.work, utterance.targets
        if work.terms.src_lang == AUTO:
            return Shares(None, {}, dict.fromkeys(targets))
        if self._shares_recognition:
            find = partial(self._languages.find, whose=work.whose)
            return shares_of(work.terms.src_lang, targets, find, self._chains.rules_for(allows_pivot=work.allows_pivot))
        plans = {lang: self._chains.plan(utterance.whole(lang)) for lang in targets}
        return Shares(None, {}, plans)

    # Languages by themselves

    def _start(self, utterance: "_Utterance", lang: str, plan: StagePlan | None, *, streams: bool = False) -> None:
        if plan is not None and plan.rung is not Rung.WHOLE:
            self.jobs.start(self._chain(utterance, lang, plan))
            return
        whole = utterance.whole(lang, streams=streams)
        ended = partial(utterance.ended, lang)
        direct = self.direct
        if (
            direct is None
            or not self._languages.is_served(whole)
            or not direct.start(whole, ended, partial(self._go_on, ended))
        ):
            self.jobs.start(self._whole(utterance, lang, whole))

    def _go_on(self, ended: Callable[[Outcome], None], rest: Rest) -> None:
        self.jobs.start(_rest(ended, rest))

    async def _whole(self, utterance: "_Utterance", lang: str, whole: Work) -> None:
        """A job that is unusual: it is traced, or no node is known that serves it."""
        if not self._languages.is_served(whole):
            whole = await self._languages.matched(whole)
        if not self._languages.is_served(whole) and (plan := self._chains.plan(whole)) is not None:
            outcome = await self._chains.run(utterance.work, plan, lang)
        else:
            outcome = await self._chains.job(whole)
        utterance.ended(lang, outcome)

    async def _chain(self, utterance: "_Utterance", lang: str, plan: StagePlan, before: Outcome | None = None) -> None:
        """A language that does not get there from text gets a whole job, if there are nodes for one."""
        outcome = await self._chains.run(utterance.work, plan, lang, before)
        whole = utterance.whole(lang)
        if outcome.state is JobState.FAILED and before is not None and self._languages.is_served(whole):
            _log.info("text.unserved", job_id=outcome.job_id, lang=lang)
            # Nodes may have seen the language's first job.
            whole = msgspec.structs.replace(whole, branch=f"{lang}.0")
            outcome = await self._chains.job(whole)
        utterance.ended(lang, outcome)

    # Languages with a common recognition

    async def _recognise(self, utterance: "_Utterance", pool: Pool, plans: Mapping[str, StagePlan]) -> None:
        recognition = utterance.recognition(pool, self._chains.within(utterance.work, RECOGNITION_SHARE))
        outcome = await self._chains.job(recognition)
        if outcome.state is JobState.FAILED:
            _SHARED["failed"].inc()
            _log.info("recognition.failed", job_id=outcome.job_id, languages=len(plans))
            for place, lang in enumerate(plans):
                plan = self._chains.plan(utterance.whole(lang))
                self._start(utterance, lang, plan, streams=not place)
            return
        text = outcome.result.text_asr if outcome.result is not None and outcome.state is JobState.DONE else ""
        if not text:
            # Nothing was said, or the job was cancelled: the same holds for every language.
            _SHARED["no_text"].inc()
            ended = without_text(outcome) if outcome.state is JobState.DONE else outcome
            for lang in plans:
                utterance.ended(lang, ended)
            return
        _SHARED["done"].inc()
        utterance.recognised(text)
        for lang, plan in plans.items():
            self.jobs.start(self._chain(utterance, lang, plan, outcome))


async def _rest(ended: Callable[[Outcome], None], rest: Rest) -> None:
    """What is left of a job that was begun without a task."""
    try:
        outcome = await rest()
    except Exception:
        # Every language gets an outcome, also after an unexpected exception.
        _log.exception("job.surprised")
        outcome = SURPRISED
    ended(outcome)


class _Utterance:
    """One utterance on its way into its languages."""

    __slots__ = ("_is_recognised", "_listeners", "targets", "work")

    def __init__(self, work: Work, targets: Mapping[str, bool], listeners: Listeners) -> None:
        self.work = work
        self.targets = targets
        self._listeners = listeners
        self._is_recognised = False

    def recognition(self, pool: Pool, give_up_at_s: float) -> Work:
        return msgspec.structs.replace(stage_of(self.work, pool, "asr"), give_up_at_s=give_up_at_s)

    def whole(self, lang: str, *, streams: bool = False) -> Work:
        """One job for a language, as if it were the only one."""
        terms = self.work.terms
        pipeline = terms.pipeline._replace(use_tts=self.targets[lang])
        terms = terms._replace(
            tgt_lang=lang, pipeline=pipeline, enable_streaming_asr=terms.enable_streaming_asr and streams
        )
        binding = self._listeners.binding_of(lang)
        return msgspec.structs.replace(self.work, terms=terms, pools=terms.pools(), branch=lang, binding=binding)

    def recognised(self, text: str) -> None:
        if not self._is_recognised:
            self._is_recognised = True
            self._listeners.on_recognised(text, self.work.terms.src_lang)

    def ended(self, lang: str, outcome: Outcome) -> None:
        if outcome.result is not None and outcome.result.text_asr:
            self.recognised(outcome.result.text_asr)
        self._listeners.on_outcome(lang, outcome)
