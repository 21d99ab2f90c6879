"""Four kinds of engine as one: it does what a job asks for, with what it has, and says what it has not."""

import asyncio
import io
import threading
import wave
from importlib.util import find_spec
from typing import Any

import pytest

from lingua_sdk.engines import EngineRefused, JobOutput, ModelNotAvailable, Service, Unsupported
from lingua_sdk.pipeline import Pipeline
from tests.support.toys import Ears, Knowing, Mending, Mind, Voice, job
from tests.support.waiting import until


def whole(ears: Ears | None = None, voice: Voice | None = None, **more: Any) -> Pipeline:
    return Pipeline(ears or Ears(), Mending(), Mind(), voice or Voice(), **more)


async def translated(engine: Pipeline, /, **fields: Any) -> tuple[JobOutput, list[str]]:
    partials: list[str] = []
    return await engine.translate(job(**fields), partials.append), partials


# What it can do


def test_it_can_do_what_its_engines_can_and_nothing_else() -> None:
    pipeline = Pipeline(
        [Ears("en"), Ears("en", "fr")],
        Mending("en"),
        [Mind(("en", "pt")), Mind(("en", "es"), ("de", "es"))],
        Voice("es"),
        slots=3,
    )
    able = pipeline.abilities()
    assert (able.recognises, able.repairs, able.speaks) == (["en", "fr"], ["en"], ["es"])
    # No engine here understands German, but a job may bring German text.
    assert able.translates == [("en", "pt"), ("en", "es"), ("de", "es")]
    assert (able.slots, able.takes_text) == (3, True)


def test_it_may_have_no_recogniser() -> None:
    able = Pipeline(translator=Mind(("en", "pt"))).abilities()
    assert (able.recognises, able.repairs, able.translates, able.takes_text) == ([], [], [("en", "pt")], True)
    able = Pipeline(speaker=Voice("pt")).abilities()
    assert (able.speaks, able.translates, able.takes_text) == (["pt"], [], True)
    assert not Pipeline(Ears("en")).abilities().takes_text


def test_what_it_can_do_is_asked_each_time() -> None:
    ears = Ears("en", "fr")
    pipeline = whole(ears)
    ears.languages = ["en"]
    assert pipeline.abilities().recognises == ["en"]


def test_without_a_repairer_the_text_passes_through_and_the_node_says_so() -> None:
    able = Pipeline(Ears("en", "fr")).abilities()
    assert able.repairs == ["en", "fr"]
    assert able.services == [Service("ears-asr", "asr"), Service("pass-through-semantic", "semantic")]


def test_who_says_that_there_is_no_repairer_has_none() -> None:
    assert Pipeline(Ears("en"), []).abilities().repairs == []


def test_engines_may_have_a_name_and_a_device() -> None:
    ears = Ears()
    ears.name, ears.device = "whisper", "gpu"  # type: ignore[attr-defined]
    assert Service("whisper-asr", "asr", "gpu") in (Pipeline(ears).abilities().services or ())


# What it does


async def test_engines_are_called_by_their_own_names_of_languages() -> None:
    voice = Voice("zh_CN")
    pipeline = Pipeline(Ears("EN"), Mending("En"), Mind(("EN", "zh_CN")), voice)
    assert pipeline.abilities().translates == [("EN", "zh_CN")]
    made, _ = await translated(pipeline, src_lang="en", tgt_lang="zh-CN")
    assert made.text_translated == "hello [EN>zh_CN]"
    assert voice.said == [("hello [EN>zh_CN]", "zh_CN")]


async def test_it_goes_through_every_stage_and_measures_each() -> None:
    made, _ = await translated(whole())
    assert (made.text_source, made.text_translated) == ("hello", "hello [en>zh]")
    assert made.speech == b"\x01\x00" * 16_000
    assert list(made.stage_ms) == ["asr", "semantic", "nmt", "tts"]


@pytest.mark.parametrize(
    ("left_out", "source", "target", "said"),
    [
        ("use_semantic", "um hello", "um hello [en>zh]", [("um hello [en>zh]", "zh")]),
        ("use_tts", "hello", "hello [en>zh]", []),
        ("use_nmt", "hello", "", [("hello", "en")]),
    ],
)
async def test_stages_that_are_not_asked_for_are_left_out(
    left_out: str, source: str, target: str, said: list[tuple[str, str]]
) -> None:
    voice = Voice("zh", "en")
    made, _ = await translated(whole(voice=voice), pipeline={left_out: False})
    assert (made.text_source, made.text_translated, voice.said) == (source, target, said)


async def test_text_is_translated_and_spoken_without_recognition() -> None:
    voice = Voice("zh", "en")
    engine = Pipeline(translator=Mind(), speaker=voice)
    text_only = {"use_asr": False, "use_semantic": False}
    made, partials = await translated(engine, text_input="hello", audio=b"", pipeline=text_only)
    assert made.text_source == "hello"
    assert made.text_translated
    assert [text for text, *_ in voice.said] == [made.text_translated]
    assert partials == []
    made, _ = await translated(
        engine, text_input="hello", audio=b"", tgt_lang="en", src_lang="en", pipeline=text_only | {"use_nmt": False}
    )
    assert (made.text_source, made.text_translated, made.speech != b"") == ("hello", "", True)


async def test_without_recognition_there_is_nothing_to_translate() -> None:
    with pytest.raises(Unsupported, match="no text"):
        await translated(whole(), pipeline={"use_asr": False})


async def test_who_hears_nothing_says_nothing() -> None:
    voice = Voice()
    made, _ = await translated(whole(Ears(heard=" \n"), voice))
    assert (made.text_source, made.text_translated, made.speech, voice.said) == ("", "", b"", [])


async def test_the_same_language_needs_no_translator() -> None:
    made, _ = await translated(Pipeline(Ears(), speaker=Voice("en")), tgt_lang="en")
    assert made.text_translated == "um hello"


async def test_of_several_engines_the_first_that_knows_the_language_works() -> None:
    english, both = Ears("en"), Ears("en", "fr", heard="bonjour")
    pipeline = Pipeline([english, both], translator=[Mind(("en", "zh")), Mind(("fr", "zh"))], speaker=Voice())
    assert (await translated(pipeline))[0].text_source == "um hello"
    assert (await translated(pipeline, src_lang="fr"))[0].text_translated == "bonjour [fr>zh]"


async def test_partials_are_shown_to_those_who_want_them() -> None:
    assert (await translated(whole()))[1] == []
    assert (await translated(whole(), enable_streaming_asr=True))[1] == ["um"]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [({"src_lang": "fr"}, "ears-asr"), ({"tgt_lang": "de"}, "mind-nmt")],
)
async def test_what_is_not_there_now_is_for_another_node(fields: dict[str, str], kind: str) -> None:
    with pytest.raises(ModelNotAvailable) as caught:
        await translated(whole(), **fields)
    assert caught.value.service_id == kind


async def test_a_voice_that_is_missing_is_for_another_node_too() -> None:
    with pytest.raises(ModelNotAvailable, match="no tts for zh is available on this node"):
        await translated(Pipeline(Ears(), translator=Mind()))


# Whoever speaks

BOTH = {"src_lang": "auto", "tgt_lang": "zh", "mode": "two_way_auto", "lang_a": "en", "lang_b": "zh"}


@pytest.mark.parametrize(("hears", "into"), [("en", "zh"), ("zh", "en")])
async def test_of_two_who_talk_each_hears_the_other_language(hears: str, into: str) -> None:
    ears = Knowing("en", "zh", hears=hears)
    pipeline = Pipeline(ears, translator=Mind(("en", "zh"), ("zh", "en")), speaker=Voice("en", "zh"))
    made, _ = await translated(pipeline, **BOTH)
    assert made.text_translated == f"um hello [{hears}>{into}]"
    assert ears.asked == [["en", "zh"]]
    assert ears.given[0][1] == hears


async def test_one_of_several_languages_goes_into_the_one_that_is_wanted() -> None:
    pipeline = Pipeline(Knowing("en", "fr", hears="fr"), translator=Mind(("fr", "zh")), speaker=Voice())
    made, _ = await translated(pipeline, src_lang="auto", auto_langs=["en", "fr"])
    assert made.text_translated == "um hello [fr>zh]"


async def test_a_choice_of_one_needs_nobody_to_choose() -> None:
    made, _ = await translated(whole(), src_lang="auto", auto_langs=["en"])
    assert made.text_translated == "hello [en>zh]"


async def test_who_cannot_tell_languages_apart_says_so() -> None:
    with pytest.raises(Unsupported, match="can tell en from zh; name the spoken language"):
        await translated(whole(Ears("en", "zh")), **BOTH)


async def test_who_does_not_say_what_to_choose_from_is_told_so() -> None:
    with pytest.raises(Unsupported, match="nor candidates for it"):
        await translated(whole(Knowing("en", "zh", hears="en")), src_lang="auto")


async def test_a_language_that_was_not_to_choose_from_is_no_answer() -> None:
    with pytest.raises(EngineRefused, match="not among the candidates"):
        await translated(whole(Knowing("en", "zh", hears="fr")), **BOTH)


# Sound


def wav_file(rate: int, seconds: int) -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(bytes(2 * rate * seconds))
    return content.getvalue()


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 1.0),
        ({"sample_rate": 8_000}, 2.0),
        ({"audio_format": "opus"}, 1.0),  # PCM16 with the wrong label
        ({"audio_format": "wav", "audio": wav_file(44_100, 2)}, 2.0),
    ],
    ids=["pcm16", "8 kHz", "mislabelled", "wav"],
)
async def test_a_recogniser_always_gets_16_khz(fields: dict[str, Any], seconds: float) -> None:
    ears = Ears()
    await translated(whole(ears), **fields)
    audio, _ = ears.given[0]
    assert audio.sample_rate == 16_000
    assert audio.seconds == pytest.approx(seconds, abs=0.01)


@pytest.mark.skipif(find_spec("opuslib_next") is None, reason="needs the Opus library")
async def test_opus_is_decoded() -> None:
    import opuslib_next

    encoder = opuslib_next.Encoder(16_000, 1, "voip")
    packets = [encoder.encode(bytes(640), 320) for _ in range(50)]
    ears = Ears()
    framed = b"".join(len(packet).to_bytes(2, "little") + packet for packet in packets)
    await translated(whole(ears), audio=framed, audio_format="opus")
    assert ears.given[0][0].seconds == 1.0


async def test_opus_without_its_library_is_for_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opuslib_next", None)
    with pytest.raises(ModelNotAvailable, match=r"lingua-sdk\[opus\]") as caught:
        await translated(whole(), audio=b"\x03\x00abc", audio_format="opus")
    assert caught.value.service_id == "ears-asr"


@pytest.mark.parametrize("fields", [{"audio_format": "mp3"}, {"audio_format": "wav", "audio": b"RIFF"}])
async def test_sound_nobody_can_read_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        await translated(whole(), **fields)


async def test_a_voice_of_any_rate_is_heard_at_16_khz() -> None:
    made, _ = await translated(whole(voice=Voice(rate=22_050)))
    assert len(made.speech) == pytest.approx(32_000, abs=4)


# Threads


class Work:
    """What a thread is at until it is told to end."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.began.set()
        self.may_end.wait()


async def test_plain_engines_do_not_hold_the_loop_up() -> None:
    work = Work()
    translating = asyncio.create_task(translated(whole(Ears(work=work))))
    await until(work.began.is_set)
    for _ in range(10):
        await asyncio.sleep(0.001)  # the loop turns
    assert not translating.done()
    work.may_end.set()
    assert (await translating)[0].text_source == "hello"


async def test_threads_are_kept_and_not_more_than_slots() -> None:
    seen: set[str] = set()
    pipeline = whole(Ears(work=lambda: seen.add(threading.current_thread().name)), slots=2, name="toy")
    for _ in range(5):
        await asyncio.gather(translated(pipeline), translated(pipeline))
    assert seen <= {"toy-1", "toy-2"}


async def test_an_engine_that_wants_to_end_the_process_fails_its_job() -> None:
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="the engine raised SystemExit"):
        await translated(whole(Ears(work=leave)))


async def test_a_job_that_is_cancelled_ends_when_its_thread_does() -> None:
    work = Work()
    translating = asyncio.create_task(translated(whole(Ears(work=work))))
    await until(work.began.is_set)
    translating.cancel()
    await asyncio.sleep(0.01)
    assert not translating.done()
    work.may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await translating


async def test_who_is_cancelled_twice_does_not_wait_for_a_thread() -> None:
    work = Work()
    translating = asyncio.create_task(translated(whole(Ears(work=work))))
    await until(work.began.is_set)
    translating.cancel()
    await asyncio.sleep(0.01)
    translating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await translating
    work.may_end.set()
