"""The programs of examples/ without a page: transcription of a file, a node that only translates text, a GPU node."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lingua_scheduler.store.servers.local_cluster import free_port
from lingua_sdk import wav
from lingua_sdk.client import Client, Translation
from lingua_sdk.processes import die_with_parent, stop
from lingua_sdk.room_events import Said
from tests.support import tiny_models
from tests.support.engines import fetched
from tests.support.js_client import ROOT
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.talking import Recorder, recording_node
from tests.support.tones import silence, tone
from tests.support.waiting import PATIENCE_S, until

EXAMPLES = ROOT / "examples"
SAMPLE = ROOT / "src" / "lingua_scheduler" / "cli" / "assets" / "sample-en.wav"


async def run(*command: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a program that ends by itself."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=EXAMPLES,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | variables,
        preexec_fn=die_with_parent,
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            said, complained = await process.communicate()
    finally:
        await stop(process, 15.0)
    return process.returncode or 0, said.decode(), complained.decode()


@asynccontextmanager
async def started(log: Path, *command: str) -> AsyncIterator[Path]:
    """The log of a node that has registered."""
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", *command),
            cwd=EXAMPLES,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
    try:
        await until(lambda: "registered" in log.read_text("utf-8") or process.returncode is not None)
        assert process.returncode is None, log.read_text("utf-8")
        yield log
    finally:
        await stop(process, 15.0)


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """Three sentences, of which the second begins at four seconds and the third at seven."""
    rate = 16_000
    pause = silence(rate, 2.0)
    samples = tone(440, rate, 2.0) + pause + tone(550, rate, 1.0) + pause + tone(440, rate, 1.0)
    wav.write(tmp_path / "speech.wav", samples.tobytes())
    return str(tmp_path / "speech.wav")


async def test_a_recording_becomes_subtitles_with_their_times(server: RedisProcess, recording: str) -> None:
    recorder = Recorder()
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, recorder, "en", "pt"):
        address = f"ws://127.0.0.1:{scheduler.port}"
        code, said, complained = await run(sys.executable, "transcribe.py", recording, "en", "pt", address)
    assert (code, complained) == (0, "")
    first, second, third, rest = said.split("\n\n")
    number, times, heard, translated = first.split("\n")
    assert (number, translated) == ("1", heard.replace("heard", "<b>said</b>") + " in pt")
    assert times.startswith("00:00:00,000 --> 00:00:02,")
    assert second.split("\n")[1].startswith("00:00:03,")
    assert third.split("\n")[1].startswith("00:00:06,")
    assert rest == ""
    assert len(recorder.jobs) == 3


async def test_curl_transcribes_a_file(server: RedisProcess, recording: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    async with scheduler_on(server.url) as (scheduler, _), recording_node(scheduler.port, Recorder(), "en", "pt"):
        address = f"http://127.0.0.1:{scheduler.port}"
        code, said, complained = await run("sh", "transcribe.sh", recording, "en", "pt", address, LINGUA_KEY="")
        assert (code, complained) == (0, "")
        found = json.loads(said)
        assert (found["state"], len(found["utterances"])) == ("DONE", 3)
        # What the scheduler says is shown, and the program fails.
        code, said, _ = await run("sh", "transcribe.sh", recording, "en", "ko", address, LINGUA_KEY="lk_unknown")
        assert code != 0
        assert json.loads(said)["error"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("transcribe.py",), "usage: python transcribe.py speech.wav en pt"),
        (("transcribe.py", "nowhere.wav", "en", "pt"), "nowhere.wav cannot be opened"),
        (("transcribe.py", str(SAMPLE), "en", "pt", f"ws://127.0.0.1:{free_port()}"), "start one with: lingua serve"),
        (("text_node.py", "ftp://x"), "'ftp://x' is not an address"),
        (("transcribe.sh",), "usage: sh transcribe.sh speech.wav en pt"),
        (("transcribe.sh", "nowhere.wav", "en", "pt"), "nowhere.wav cannot be read"),
    ],
)
async def test_an_example_that_cannot_begin_says_what_to_do(command: tuple[str, ...], said: str) -> None:
    interpreter = "sh" if command[0].endswith(".sh") else sys.executable
    code, _, complained = await run(interpreter, *command)
    assert code == 1
    assert said in complained
    assert "Traceback" not in complained


async def test_the_text_node_translates_what_another_node_recognises(server: RedisProcess, tmp_path: Path) -> None:
    """For a pair that no node serves alone, and for the languages of a room."""
    async with scheduler_on(server.url) as (scheduler, _):
        address = f"ws://127.0.0.1:{scheduler.port}"
        (tmp_path / "ears.py").write_text(EARS.format(address=address), "utf-8")
        ears = started(tmp_path / "ears.log", str(tmp_path / "ears.py"))
        async with ears, started(tmp_path / "text.log", "text_node.py", address):
            async with Client(address, "en", "pt") as client:
                await client.utterance(bytes(32_000), speech=False)
                result = await anext(aiter(client.results()))
                assert isinstance(result, Translation)
                assert (result.text, result.translated) == ("good morning", "bom dia")
            async with Client(address, "en", "en") as ann, Client(address, "es", "es") as eva:
                room = await ann.create_room(name="Ann", language="en", speech=False)
                other = await eva.join_room(room.code, name="Eva", language="es", speech=False)
                await room.say(bytes(32_000))
                async for event in other:
                    if isinstance(event, Said):
                        assert event.translated == "buenos días"
                        break


EARS = """
from lingua_sdk.node import Node, Pipeline, run_node

class Ears:
    languages = ("en",)

    def recognise(self, audio, language, partial):
        return "good morning"

run_node(Node("{address}", Pipeline(Ears()), on_event=print))
"""


def gpu_node(folder: Path, whisper: Path) -> tuple[str, ...]:
    """The command, with tiny models of random weights but for Whisper."""
    nllb = tiny_models.many_to_many(folder / "nllb", "eng_Latn", "por_Latn")
    voice = tiny_models.piper_voice(folder / "pt_BR-tiny.onnx", "pt_BR")
    models = ("--whisper", str(whisper), "--nllb", str(nllb), "--voice", str(voice))
    return ("gpu_node.py", *models, "--device", "cpu", "--languages", "en,pt")


@pytest.mark.slow
async def test_the_gpu_node_serves_a_spoken_sentence_on_a_cpu(server: RedisProcess, tmp_path: Path) -> None:
    for package in ("faster_whisper", "ctranslate2", "piper"):
        pytest.importorskip(package, reason=f"{package} is not installed (pip install 'lingua-scheduler[gpu]')")
    command = gpu_node(tmp_path, fetched("whisper-base"))
    async with scheduler_on(server.url) as (scheduler, _):
        address = f"ws://127.0.0.1:{scheduler.port}"
        async with started(tmp_path / "node.log", *command, address), Client(address, "en", "pt") as client:
            await client.utterance(wav.read(SAMPLE))
            result = await anext(aiter(client.results()))
    assert isinstance(result, Translation)
    assert "train station" in result.text
    # The weights of the translator are random; that there are words and a voice is all that can be known.
    assert result.translated
    assert result.speech


async def test_the_gpu_node_says_what_is_missing(tmp_path: Path) -> None:
    models = ("--whisper", str(tmp_path), "--nllb", str(tmp_path))
    code, _, complained = await run(sys.executable, "gpu_node.py", *models)
    assert code == 1
    assert "is not installed; install it with: pip install" in complained or "contains no model.bin" in complained
