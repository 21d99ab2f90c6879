"""A self-test of an engine: every pair it would serve, with the time it took and what went wrong."""

import time
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from lingua_sdk.audio import SAMPLE_RATE, Audio
from lingua_sdk.checks import checked_translation, must_be_abilities
from lingua_sdk.declared_pairs import pairs_in
from lingua_sdk.domain.languages import tag_of
from lingua_sdk.engines import Abilities, Engine, EngineRefused, to_nobody
from lingua_sdk.failures import stage_of, whole_description_of
from lingua_sdk.pipeline import Pipeline
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.protocol.shapes import JobPipeline
from lingua_sdk.time_limits import asking_with, current

# A node may translate thousands of pairs.
MAX_PAIRS = 100
# Any translator and any voice can do something with it.
TEXT = "1."


class PairTest(NamedTuple):
    """One pair: `problem` is empty if it works. `heard` is False if the recogniser found no speech in the sample."""

    source: str
    target: str
    is_spoken: bool
    took_ms: float
    stage_ms: dict[str, float]
    heard: bool = True
    problem: str = ""
    # How long the translated speech is.
    speech_s: float = 0.0


def pairs_of(able: Abilities) -> list[tuple[str, str]]:
    """The pairs of two languages that a scheduler would give it jobs for."""
    must_be_abilities(able)
    recognises, repairs, speaks = (_tags(listed) for listed in (able.recognises, able.repairs, able.speaks))
    heard = [language for language in recognises if language in repairs]
    if able.translates is not None:
        return [(source, target) for source, target in map(_tags, pairs_in(able.translates)) if source in heard]
    targets = dict.fromkeys((*recognises, *repairs, *speaks))
    return [(source, target) for source, target in product(heard, targets) if source != target]


def _tags(languages: Iterable[str]) -> list[str]:
    """As a scheduler writes them in its jobs."""
    return [tag_of(language) or language for language in languages]


async def try_pair(engine: Engine, pair: tuple[str, str], able: Abilities, samples: bytes) -> PairTest:
    """Translate a sample as a job of this pair would be."""
    source, target = pair
    is_spoken = target in _tags(able.speaks)
    job = _job(source, target, is_spoken, samples)
    began_s = time.monotonic()
    try:
        with asking_with(current() or _without_limit):
            made = checked_translation(await engine.translate(job, to_nobody))
        heard = bool(made.text_source)
        if not heard and isinstance(engine, Pipeline):
            # The sample is of another language, or the recogniser ignores it; the other stages are tried all the same.
            with asking_with(current() or _without_limit):
                made = await engine.from_text(TEXT, job)
    except EngineRefused as error:
        return PairTest(source, target, is_spoken, _since_ms(began_s), {}, problem=f"{error.code}: {error.reason}")
    except Exception as error:
        stage = stage_of(error).stage
        problem = f"{stage}: {whole_description_of(error)}" if stage else whole_description_of(error)
        return PairTest(source, target, is_spoken, _since_ms(began_s), {}, problem=problem)
    speech_s = Audio(made.speech).seconds
    return PairTest(source, target, is_spoken, _since_ms(began_s), dict(made.stage_ms), heard=heard, speech_s=speech_s)


def _without_limit(seconds: float) -> None:
    """The `more_time` of a sample, which no scheduler waits for."""


def _since_ms(began_s: float) -> float:
    return round((time.monotonic() - began_s) * 1000, 1)


def _job(source: str, target: str, is_spoken: bool, samples: bytes) -> JobAssign:
    return JobAssign(
        job_id="self-test",
        attempt_id=1,
        session_id="self-test",
        utterance_index=0,
        src_lang=source,
        tgt_lang=target,
        pipeline=JobPipeline(use_asr=True, use_nmt=True, use_tts=is_spoken, use_semantic=True, use_tone=False),
        audio=samples,
        audio_format="pcm16",
        sample_rate=SAMPLE_RATE,
        enable_streaming_asr=False,
        partial_update_interval_ms=1000,
        trace_id="self-test",
        turn_id="self-test",
    )


def problems_of(tests: Sequence[PairTest]) -> list[PairTest]:
    return [test for test in tests if test.problem]
