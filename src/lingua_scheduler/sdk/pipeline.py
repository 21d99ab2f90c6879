"""Recogniser, repairer, translator and speaker as one engine: it does what a job asks for, stage by stage."""

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Protocol, TypeVar

from lingua_scheduler.domain.pools.languages import AUTO
from lingua_scheduler.domain.sessions.terms import TWO_WAY_AUTO
from lingua_scheduler.protocol.node import JobAssign
from lingua_scheduler.sdk.audio import SAMPLE_RATE, Audio
from lingua_scheduler.sdk.decoding import CannotDecode, NoDecoder, decode
from lingua_scheduler.sdk.engines import (
    Abilities,
    EngineRefused,
    Identifier,
    ModelNotAvailable,
    Partial,
    Recogniser,
    Repairer,
    Service,
    Speaker,
    Translation,
    Translator,
    Unsupported,
    to_nobody,
)
from lingua_scheduler.sdk.threads import Threads

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


class Pipeline:
    """Several engines of a kind may be given: the first that knows the language does the work.

    Without a repairer the text stays as it was recognised (`PassThrough`); with `[]` the node lists none, and a
    scheduler with strict admission gives it no jobs. `slots` is how many jobs are worked on at once.
    """

    def __init__(
        self,
        recogniser: Recogniser | Sequence[Recogniser],
        repairer: Repairer | Sequence[Repairer] | None = None,
        translator: Translator | Sequence[Translator] | None = None,
        speaker: Speaker | Sequence[Speaker] | None = None,
        *,
        slots: int = 2,
        name: str = "pipeline",
    ) -> None:
        self.name = name
        self._slots = slots
        self._recognisers: list[Recogniser] = _several(recogniser)
        self._repairers: list[Repairer] = _several(repairer)
        if repairer is None:
            self._repairers = [PassThrough(lambda: _union(engine.languages for engine in self._recognisers))]
        self._translators: list[Translator] = _several(translator)
        self._speakers: list[Speaker] = _several(speaker)
        self._threads = Threads(slots, name)

    def abilities(self) -> Abilities:
        """What can be done now, and nothing else."""
        recognises = _union(engine.languages for engine in self._recognisers)
        pairs = _union(engine.pairs for engine in self._translators)
        return Abilities(
            recognises=recognises,
            repairs=_union(engine.languages for engine in self._repairers),
            speaks=_union(engine.languages for engine in self._speakers),
            translates=[pair for pair in pairs if pair[0] in recognises],
            slots=self._slots,
            services=self._services(),
        )

    async def translate(self, job: JobAssign, partial: Partial) -> Translation:
        """One utterance. Raises EngineRefused when it cannot be done, and whatever a broken engine raises."""
        wanted = job.pipeline
        if not wanted.use_asr:
            raise Unsupported("a job without recognition has no text to begin with")
        stages = _Stages()
        with stages.measured("asr"):
            audio = await self._decode(job)
            source, target = await self._languages(job, audio)
            text = await self._recognise(audio, source, partial if job.enable_streaming_asr else to_nobody)
        if not text:
            return Translation("", stage_ms=stages.took_ms)
        if wanted.use_semantic:
            with stages.measured("semantic"):
                text = await self._repair(text, source)
        translated = ""
        if wanted.use_nmt:
            with stages.measured("nmt"):
                translated = await self._translate(text, source, target)
        speech = b""
        if wanted.use_tts:
            with stages.measured("tts"):
                speech = await self._speak(translated, target) if wanted.use_nmt else await self._speak(text, source)
        return Translation(text, translated, speech, stage_ms=stages.took_ms)

    async def _decode(self, job: JobAssign) -> Audio:
        try:
            if job.audio_format == "pcm16" and job.sample_rate == SAMPLE_RATE:
                return decode(job.audio, job.audio_format, job.sample_rate)
            return await self._threads.run(lambda: decode(job.audio, job.audio_format, job.sample_rate).at(SAMPLE_RATE))
        except NoDecoder as error:
            # Another node may have one.
            raise ModelNotAvailable(str(error), _service_id(self._recognisers[0], "asr")) from error
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
            raise Unsupported("the job says neither which language is spoken nor which it may be")
        if len(candidates) == 1:
            return candidates[0]
        for engine in self._recognisers:
            if isinstance(engine, Identifier):
                found: str = await self._ask(engine, "asr", engine.identify, audio, candidates)
                if found not in candidates:
                    raise EngineRefused("the recogniser heard a language that was not to choose from")
                return found
        raise Unsupported(f"no recogniser here can tell {' from '.join(candidates)}; name the spoken language")

    async def _recognise(self, audio: Audio, language: str, partial: Partial) -> str:
        engine = _knowing(self._recognisers, "asr", language)
        text: str = await self._ask(engine, "asr", engine.recognise, audio, language, partial)
        return text.strip()

    async def _repair(self, text: str, language: str) -> str:
        for engine in self._repairers:
            if language in engine.languages:
                repaired: str = await self._ask(engine, "semantic", engine.repair, text, language)
                return repaired
        return text

    async def _translate(self, text: str, source: str, target: str) -> str:
        if source == target:
            return text
        for engine in self._translators:
            if (source, target) in engine.pairs:
                translated: str = await self._ask(engine, "nmt", engine.translate, text, source, target)
                return translated
        raise _lacking("nmt", f"{source} to {target}", self._translators)

    async def _speak(self, text: str, language: str) -> bytes:
        if not text:
            return b""
        engine = _knowing(self._speakers, "tts", language)
        speech: Audio = await self._ask(engine, "tts", engine.speak, text, language)
        if speech.sample_rate != SAMPLE_RATE:
            speech = await self._threads.run(lambda: speech.at(SAMPLE_RATE))
        return speech.samples

    async def _ask(self, engine: object, kind: str, method: Callable[..., Any], *arguments: object) -> Any:
        """Await an async method, and run a plain one in a thread."""
        try:
            if inspect.iscoroutinefunction(method):
                return await method(*arguments)
            made = await self._threads.run(functools.partial(method, *arguments))
            return await made if inspect.isawaitable(made) else made
        except EngineRefused as error:
            error.service_id = error.service_id or _service_id(engine, kind)
            raise

    def _services(self) -> list[Service]:
        kinds: dict[str, Sequence[object]] = {
            "asr": self._recognisers,
            "semantic": self._repairers,
            "nmt": self._translators,
            "tts": self._speakers,
        }
        return [
            Service(_service_id(engine, kind), kind, getattr(engine, "device", "cpu"))
            for kind, engines in kinds.items()
            for engine in engines
        ]


class _Stages:
    def __init__(self) -> None:
        self.took_ms: dict[str, float] = {}

    @contextmanager
    def measured(self, stage: str) -> Iterator[None]:
        began_s = time.monotonic()
        yield
        self.took_ms[stage] = round((time.monotonic() - began_s) * 1000, 1)


class _KnowsLanguages(Protocol):
    @property
    def languages(self) -> Sequence[str]: ...


K = TypeVar("K", bound=_KnowsLanguages)


def _knowing(engines: Sequence[K], kind: str, language: str) -> K:
    for engine in engines:
        if language in engine.languages:
            return engine
    raise _lacking(kind, language, engines)


def _lacking(kind: str, what: str, engines: Sequence[object]) -> ModelNotAvailable:
    """What was declared a heartbeat ago may be gone by now; another node does the job."""
    return ModelNotAvailable(f"no {kind} for {what} here now", _service_id(engines[0], kind) if engines else "")


def _service_id(engine: object, kind: str) -> str:
    return f"{getattr(engine, 'name', type(engine).__name__.lower())}-{kind}"


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, Sequence) else [given]


def _union(lists: Iterable[Iterable[T]]) -> list[T]:
    """In order, each once."""
    return list(dict.fromkeys(chain.from_iterable(lists)))
