"""The simulated engine: measures the audio, says so in both languages, and admits that it is simulated."""

import asyncio
import math
from array import array
from itertools import pairwise
from typing import Any

import pytest

from lingua_scheduler.engines.sim import LANGUAGES, SAMPLE_RATE, SimEngine
from lingua_sdk.node import JobOutput
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.protocol.shapes import JobPipeline

AT_ONCE = SimEngine(base_ms=0, per_second_ms=0)
TWO_SECONDS = b"\x00\x01" * 2 * SAMPLE_RATE
MARKS = ("simul", "模拟", "模擬")


def job(**fields: Any) -> JobAssign:
    pipeline = {"use_asr": True, "use_nmt": True, "use_tts": True, "use_semantic": True, "use_tone": False}
    known: dict[str, Any] = {
        "job_id": "job-0-1",
        "attempt_id": 1,
        "session_id": "s-1",
        "utterance_index": 0,
        "src_lang": "en",
        "tgt_lang": "zh",
        "pipeline": JobPipeline(**pipeline | fields.pop("pipeline", {})),
        "audio": TWO_SECONDS,
        "audio_format": "pcm16",
        "sample_rate": SAMPLE_RATE,
        "enable_streaming_asr": False,
        "partial_update_interval_ms": 1000,
        "trace_id": "t",
        "turn_id": "turn-1",
    }
    return JobAssign(**known | fields)


async def translate(**fields: Any) -> tuple[JobOutput, list[str]]:
    partials: list[str] = []
    return await AT_ONCE.translate(job(**fields), partials.append), partials


async def test_it_says_how_long_it_listened_in_both_languages() -> None:
    made, partials = await translate()
    assert made.text_source == "(simulated) I heard 2.0 seconds of speech."
    assert made.text_translated == "（模拟）我听到了 2.0 秒的语音。"
    assert partials == []


@pytest.mark.parametrize("language", LANGUAGES)
async def test_every_language_it_claims_it_speaks_and_admits_the_simulation(language: str) -> None:
    made, _ = await translate(src_lang=language, tgt_lang=language)
    assert made.text_source == made.text_translated
    assert any(mark in made.text_source for mark in MARKS)
    assert "2.0" in made.text_source


def test_the_sentences_differ_from_language_to_language() -> None:
    async def sentences() -> set[str]:
        return {(await translate(tgt_lang=language))[0].text_translated for language in LANGUAGES}

    assert len(asyncio.run(sentences())) == len(LANGUAGES)


async def test_the_speech_lasts_as_long_as_what_was_said_and_is_a_soft_tone() -> None:
    made, _ = await translate()
    samples = array("h", made.speech)
    assert made.speech_format == "pcm16"
    assert len(samples) == 2 * SAMPLE_RATE
    assert 3_900 <= max(samples) <= 4_000
    upward = sum(1 for before, after in pairwise(samples) if before < 0 <= after)
    assert math.isclose(upward / 2, 220, abs_tol=1)


async def test_a_long_speech_is_hummed_for_three_seconds_only() -> None:
    made, _ = await translate(audio=TWO_SECONDS * 5)
    assert len(made.speech) == 3 * 2 * SAMPLE_RATE
    assert "10.0" in made.text_source


async def test_opus_is_measured_by_its_packets() -> None:
    made, _ = await translate(audio=b"\x03\x00abc" * 25, audio_format="opus")
    assert "0.5" in made.text_source


async def test_the_sample_rate_of_the_job_counts() -> None:
    made, _ = await translate(sample_rate=8_000)
    assert "4.0" in made.text_source


async def test_who_wants_no_speech_or_no_translation_gets_none() -> None:
    made, _ = await translate(pipeline={"use_tts": False})
    assert (made.speech, bool(made.text_translated)) == (b"", True)
    made, _ = await translate(pipeline={"use_nmt": False})
    assert (made.text_translated, bool(made.text_source)) == ("", True)


async def test_a_partial_is_the_beginning_of_what_it_understood() -> None:
    made, partials = await translate(enable_streaming_asr=True)
    assert len(partials) == 1
    assert partials[0]
    assert made.text_source.startswith(partials[0])
    assert len(partials[0]) < len(made.text_source)


@pytest.mark.parametrize(
    ("fields", "source", "target"),
    [
        ({"src_lang": "auto", "lang_a": "de", "lang_b": "fr", "tgt_lang": "fr"}, "simuliert", "simulé"),
        ({"src_lang": "auto", "lang_a": "de", "lang_b": "fr", "tgt_lang": "auto"}, "simuliert", "simulé"),
        ({"src_lang": "auto", "tgt_lang": "de"}, "simulated", "simuliert"),
        ({"src_lang": "sw", "tgt_lang": "xh"}, "simulated", "simulated"),
        ({"src_lang": "auto", "lang_a": "sw", "lang_b": "xh", "tgt_lang": "auto"}, "simulated", "simulated"),
    ],
)
async def test_languages_it_does_not_know_are_guessed_from_the_two_of_the_session_or_english(
    fields: dict[str, str], source: str, target: str
) -> None:
    made, _ = await translate(**fields)
    assert source in made.text_source
    assert target in made.text_translated


@pytest.mark.parametrize(
    ("engine", "seconds"), [(SimEngine(), 0.24), (SimEngine(base_ms=1000, per_second_ms=500), 2.0), (AT_ONCE, 0.0)]
)
async def test_it_takes_its_time_and_more_for_a_longer_speech(
    monkeypatch: pytest.MonkeyPatch, engine: SimEngine, seconds: float
) -> None:
    rested: list[float] = []

    async def rest(seconds: float) -> None:
        rested.append(seconds)

    monkeypatch.setattr("lingua_scheduler.engines.sim.asyncio.sleep", rest)
    await engine.translate(job(), lambda text: None)
    assert rested == [pytest.approx(seconds)]


async def test_a_text_is_marked_with_its_language_and_costs_no_recognition() -> None:
    from_text = {"use_asr": False, "use_semantic": False}
    made = await AT_ONCE.translate(job(audio=b"", text_input="hello", pipeline=from_text), lambda _: None)
    assert (made.text_source, made.text_translated, made.speech != b"") == ("hello", "(zh) hello", True)
    made = await AT_ONCE.translate(
        job(audio=b"", text_input="hi", pipeline=from_text | {"use_nmt": False}), lambda _: None
    )
    assert (made.text_source, made.text_translated) == ("hi", "")


@pytest.mark.parametrize(
    ("text", "src", "tgt", "said"),
    [
        ("(simulated) I heard 2.0 seconds of speech.", "en", "pt", "(simulado) Ouvi 2.0 segundos de voz."),
        ("（模拟）我听到了 12.5 秒的语音。", "zh", "en", "(simulated) I heard 12.5 seconds of speech."),
        # Of a language without a sentence of its own.
        ("(simulated) I heard 2.0 seconds of speech.", "en", "nl", "(nl) (simulated) I heard 2.0 seconds of speech."),
        ("(en) hello", "en", "pt", "(pt) hello"),
        ("(ok) hello", "en", "pt", "(pt) (ok) hello"),
    ],
)
async def test_a_translation_that_is_translated_again_has_one_mark(text: str, src: str, tgt: str, said: str) -> None:
    wanted = job(src_lang=src, tgt_lang=tgt, audio=b"", text_input=text, pipeline={"use_asr": False})
    made = await AT_ONCE.translate(wanted, lambda _: None)
    assert (made.text_source, made.text_translated) == (text, said)
