"""Recogniser, repairer, translator and speaker as one engine: it does what a job asks for, stage by stage."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from lingua_sdk.audio import SAMPLE_RATE, Audio
from lingua_sdk.calling import EngineCalls
from lingua_sdk.checks import must_be_engine
from lingua_sdk.choosing import knowing, lacking, own_name, service_id, tag
from lingua_sdk.declared_pairs import pairs_in
from lingua_sdk.decoding import CannotDecode, NoDecoder, decode
from lingua_sdk.domain.languages import AUTO
from lingua_sdk.domain.losses import STAGES
from lingua_sdk.domain.vocabulary import TWO_WAY_AUTO
from lingua_sdk.engines import (
    Abilities,
    EngineRefused,
    Identifier,
    JobOutput,
    ModelNotAvailable,
    Recogniser,
    Repairer,
    Service,
    ShowPartial,
    Speaker,
    Translator,
    Unsupported,
    to_nobody,
)
from lingua_sdk.failures import at_stage
from lingua_sdk.job_course import reached
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.threads import Threads

T = TypeVar("T")


class PassThrough:
    """Repairs nothing, and says so by its name: schedulers give work only to nodes that list a repairer."""

    name = "pass-through"

    def __init__(self, languages: Callable[[], Sequence[str]]) -> None:
        self._languages = languages

    @property
    def languages(self) -> Sequence[str]:
        return self._languages()

    async def repair(self, text: str, language: str) -> str:  # noqa: ARG002 - the shape of a repairer
        return text


class Parts(NamedTuple):
    """The engines of a pipeline, by their kinds."""

    recognisers: Sequence[Recogniser]
    repairers: Sequence[Repairer]
    translators: Sequence[Translator]
    speakers: Sequence[Speaker]


class Pipeline:
    """Several engines of a kind may be given: the first that knows the language does the work.

    Without a repairer the text stays as it was recognised (`PassThrough`); with `[]` the node lists none, and a
    scheduler with strict admission gives it no jobs. Without a recogniser it translates or speaks the text of others.
    `slots` is how many jobs are worked on at once.
    """

    def __init__(
        self,
        recogniser: Recogniser | Sequence[Recogniser] | None = None,
        repairer: Repairer | Sequence[Repairer] | None = None,
        translator: Translator | Sequence[Translator] | None = None,
        speaker: Speaker | Sequence[Speaker] | None = None,
        *,
        slots: int = 2,
        name: str = "pipeline",
    ) -> None:
        self.name = name
        self._recognisers: list[Recogniser] = _several(recogniser)
        self._repairers: list[Repairer] = _several(repairer)
        if repairer is None and self._recognisers:
            self._repairers = [PassThrough(lambda: _union(engine.languages for engine in self._recognisers))]
        self._translators: list[Translator] = _several(translator)
        self._speakers: list[Speaker] = _several(speaker)
        self.resize(slots)
        self._check()

    @property
    def parts(self) -> Parts:
        return Parts(self._recognisers, self._repairers, self._translators, self._speakers)

    def resize(self, slots: int) -> None:
        """Work on so many jobs at once: plain methods have a thread for each. Call it before the first job."""
        self._slots = slots
        self._threads = Threads(slots, self.name)
        self._calls = EngineCalls(self._threads)

    def _check(self) -> None:
        """Raises BrokenContract, with a sentence about the first engine that cannot be used."""
        for engines, method, declares in (
            (self._recognisers, "recognise", "languages"),
            (self._repairers, "repair", "languages"),
            (self._translators, "translate", "pairs"),
            (self._speakers, "speak", "languages"),
        ):
            for engine in engines:
                must_be_engine(engine, method, declares)

    async def load(self) -> None:
        """Load the models of all engines that have a method `load`, one after the other."""
        for engine in (*self._recognisers, *self._repairers, *self._translators, *self._speakers):
            if callable(load := getattr(engine, "load", None)):
                await self._calls.call(load)

    def abilities(self) -> Abilities:
        """What can be done now, and nothing else."""
        self._check()
        return Abilities(
            recognises=_union(engine.languages for engine in self._recognisers),
            repairs=_union(engine.languages for engine in self._repairers),
            speaks=_union(engine.languages for engine in self._speakers),
            translates=_union(pairs_in(engine.pairs) for engine in self._translators),
            slots=self._slots,
            services=self._services(),
            takes_text=bool(self._translators or self._speakers),
        )

    async def translate(self, job: JobAssign, partial: ShowPartial) -> JobOutput:
        """One utterance. Raises EngineRefused when it cannot be done, and any exception of a broken engine."""
        if job.text_input is not None:
            return await self.from_text(job.text_input, job)
        if not job.pipeline.use_asr:
            raise Unsupported("a job without recognition has no text to translate")
        stages = _Stages()
        with stages.measured("asr"):
            audio = await self._decode(job)
            source, target = await self._languages(job, audio)
            text = await self._recognise(audio, source, partial if job.enable_streaming_asr else to_nobody)
        if not text:
            return JobOutput("", stage_ms=stages.took_ms)
        return await self._go_on(text, (source, target), job, stages)

    async def from_text(self, text: str, job: JobAssign) -> JobOutput:
        """The stages after recognition, for a job that brings text, and for a self-test."""
        return await self._go_on(text, (job.src_lang, job.tgt_lang), job, _Stages())

    async def _go_on(self, text: str, pair: tuple[str, str], job: JobAssign, stages: "_Stages") -> JobOutput:
        wanted, (source, target) = job.pipeline, pair
        stages.texts.append(text)
        if wanted.use_semantic:
            with stages.measured("semantic"):
                text = await self._repair(text, source)
                stages.texts.append(text)
        translated = ""
        if wanted.use_nmt:
            with stages.measured("nmt"):
                translated = await self._translate(text, source, target)
                stages.texts.append(translated)
        speech = b""
        if wanted.use_tts:
            with stages.measured("tts"):
                speech = await self._speak(translated, target) if wanted.use_nmt else await self._speak(text, source)
        return JobOutput(text, translated, speech, stage_ms=stages.took_ms)

    async def _decode(self, job: JobAssign) -> Audio:
        try:
            if job.audio_format == "pcm16" and job.sample_rate == SAMPLE_RATE:
                return decode(job.audio, job.audio_format, job.sample_rate)
            return await self._threads.run(lambda: decode(job.audio, job.audio_format, job.sample_rate).at(SAMPLE_RATE))
        except NoDecoder as error:
            # Another node may have one.
            raise ModelNotAvailable(str(error), service_id(self._recognisers[0], "asr")) from error
        except CannotDecode as error:
            raise Unsupported(str(error)) from error

    async def _languages(self, job: JobAssign, audio: Audio) -> tuple[str, str]:
        """What is spoken, and what is to be heard; in a conversation both ways that is the other one of the two."""
        if job.src_lang != AUTO:
            return job.src_lang, job.tgt_lang
        both = (job.lang_a, job.lang_b) if job.mode == TWO_WAY_AUTO else ()
        candidates = both or job.auto_langs or (job.lid.candidates if job.lid else (job.lang_a, job.lang_b))
        source = await self._identify(audio, list(dict.fromkeys(language for language in candidates if language)))
        if both:
            return source, (job.lang_b if source == job.lang_a else job.lang_a) or job.tgt_lang
        return source, job.tgt_lang

    async def _identify(self, audio: Audio, candidates: Sequence[str]) -> str:
        if not candidates:
            raise Unsupported("the job names neither the spoken language nor candidates for it")
        if len(candidates) == 1:
            return candidates[0]
        for engine in self._recognisers:
            if isinstance(engine, Identifier):
                found: str = await self._ask(engine, "asr", "identify", audio, candidates)
                if found not in candidates:
                    raise EngineRefused("the recogniser returned a language that is not among the candidates")
                return found
        raise Unsupported(f"no recogniser of this node can tell {' from '.join(candidates)}; name the spoken language")

    async def _recognise(self, audio: Audio, language: str, partial: ShowPartial) -> str:
        engine, name = knowing(self._recognisers, "asr", language)
        text: str = await self._ask(engine, "asr", "recognise", audio, name, partial)
        return text.strip()

    async def _repair(self, text: str, language: str) -> str:
        for engine in self._repairers:
            if (name := own_name(language, engine.languages)) is not None:
                repaired: str = await self._ask(engine, "semantic", "repair", text, name)
                return repaired
        return text

    async def _translate(self, text: str, source: str, target: str) -> str:
        if source == target:
            return text
        for engine in self._translators:
            for pair in pairs_in(engine.pairs):
                if (tag(pair[0]), tag(pair[1])) == (source, target):
                    translated: str = await self._ask(engine, "nmt", "translate", text, *pair)
                    return translated
        raise lacking("nmt", f"{source} to {target}", self._translators)

    async def _speak(self, text: str, language: str) -> bytes:
        if not text:
            return b""
        engine, name = knowing(self._speakers, "tts", language)
        speech: Audio = await self._ask(engine, "tts", "speak", text, name)
        if speech.sample_rate != SAMPLE_RATE:
            speech = await self._threads.run(lambda: speech.at(SAMPLE_RATE))
        return speech.samples

    async def _ask(self, engine: object, kind: str, method: str, *arguments: object) -> Any:
        return await self._calls.ask(engine, service_id(engine, kind), method, *arguments)

    def _services(self) -> list[Service]:
        kinds: dict[str, Sequence[object]] = {
            "asr": self._recognisers,
            "semantic": self._repairers,
            "nmt": self._translators,
            "tts": self._speakers,
        }
        return [
            Service(service_id(engine, kind), kind, getattr(engine, "device", "cpu"))
            for kind, engines in kinds.items()
            for engine in engines
        ]


class _Stages:
    def __init__(self) -> None:
        self.took_ms: dict[str, float] = {}
        # What was recognised and made of it, which must not be told when a stage fails.
        self.texts: list[str] = []

    @contextmanager
    def measured(self, stage: str) -> Iterator[None]:
        began_s = time.monotonic()
        reached(STAGES[stage])
        with at_stage(STAGES[stage], self.texts):
            yield
        self.took_ms[stage] = round((time.monotonic() - began_s) * 1000, 1)


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, Sequence) else [given]


def _union(lists: Iterable[Iterable[T]]) -> list[T]:
    """In order, each once."""
    return list(dict.fromkeys(chain.from_iterable(lists)))
