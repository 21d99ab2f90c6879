"""Speaking to `lingua translate --microphone`: real processes, a recorder that plays a file, a real Ctrl-C."""

import asyncio
import base64
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lingua_sdk import wav
from lingua_sdk.microphone import RECORDERS
from lingua_sdk.processes import die_with_parent, stop
from tests.support.peers import FakeNode, Field, Frame, field, result_of, stay_silent
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.terminals import terminal
from tests.support.tones import noise
from tests.support.waiting import until

SETTINGS, INTERRUPTED = 2, 130
READY = b"listening to"
SPEECH, SILENCE = noise(3_000), noise(20)

# As the recorders it stands in for: it never ends by itself, and leaves when it is told to.
RECORDER = """#!{python}
import pathlib, signal, sys
folder = pathlib.Path(__file__).parent
sys.stdout.buffer.write(folder.joinpath("sound").read_bytes())
sys.stdout.buffer.flush()
folder.joinpath("played").write_text(" ".join(sys.argv))
signal.pause()
"""
# PortAudio as it is where only the package is installed.
NO_LIBRARY = 'raise OSError("PortAudio library not found")'


def recorder(folder: Path, sound: bytes, name: str = "arecord", script: str = RECORDER) -> Path:
    program = folder / name
    program.write_text(script.replace("{python}", sys.executable))
    program.chmod(0o755)
    (folder / "sound").write_bytes(sound)
    return program


@asynccontextmanager
async def translating(
    folder: Path, url: str, *arguments: str, device: str = NO_LIBRARY, stderr: int = PIPE
) -> AsyncIterator[Process]:
    """The command, with nothing but `folder` on its PATH."""
    modules = folder / "modules"
    modules.mkdir(exist_ok=True)
    (modules / "sounddevice.py").write_text(device)
    path = os.pathsep.join((str(modules), os.environ.get("PYTHONPATH", "")))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lingua_scheduler", "translate", "--microphone", "--from", "en", "--to", "zh"),
        *("--url", url, *arguments),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=stderr,
        env=os.environ | {"PATH": str(folder), "PYTHONPATH": path},
        preexec_fn=die_with_parent,
    )
    try:
        yield process
    finally:
        await stop(process, 10.0)


async def spoken(process: Process, folder: Path) -> str:
    """Wait until it listens and the recorder has played its sound; how the recorder was asked."""
    assert process.stderr is not None
    async with asyncio.timeout(90):
        while not (line := await process.stderr.readline()).startswith(READY):
            assert line, "it ended instead of listening"
    played: str = await until(lambda: _text(folder / "played"), within_s=30)
    return played


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def ended(process: Process, within_s: float = 90.0) -> tuple[int | None, str, str]:
    async with asyncio.timeout(within_s):
        output, errors = await process.communicate()
    return process.returncode, output.decode(), (errors or b"").decode()


def audio_of(node: FakeNode) -> bytes:
    return b"".join(base64.b64decode(job["audio"]) for job in node.jobs)


# Speaking


@pytest.mark.parametrize("name", RECORDERS)
async def test_what_was_said_before_ctrl_c_is_translated(peers: Field, tmp_path: Path, name: str) -> None:
    node = await peers.node()
    tail = SPEECH[:100]
    recorder(tmp_path, SILENCE * 3 + SPEECH * 5 + tail, name)
    async with translating(tmp_path, f"127.0.0.1:{peers.port}") as process:
        asked = await spoken(process, tmp_path)
        process.send_signal(signal.SIGINT)
        code, shown, errors = await ended(process)
    assert (code, errors) == (0, "")
    assert [line.split()[-3] for line in shown.splitlines()] == ["heard", "said"]
    # The chunk before the first word, and the samples the recorder had in hand when it was stopped.
    assert audio_of(node) == SILENCE + SPEECH * 5 + tail
    assert "16000" in asked


async def test_a_pause_ends_a_sentence_while_the_person_goes_on(server: RedisProcess, tmp_path: Path) -> None:
    async with scheduler_on(server.url, sessions__pause_ms=200) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        recorder(tmp_path, SPEECH * 5 + SILENCE * 20)
        async with translating(tmp_path, f"http://127.0.0.1:{peers.port}/ws/session", "--json") as process:
            await spoken(process, tmp_path)
            assert process.stdout is not None
            first: Frame = {"type": "ui_event"}
            while first["type"] == "ui_event":
                first = json.loads(await asyncio.wait_for(process.stdout.readline(), 20))
            assert (first["type"], first["utterance_index"]) == ("translation_result", 0)
            process.send_signal(signal.SIGINT)
            code, shown, errors = await ended(process)
    assert (code, shown, errors) == (0, "", "")


async def test_the_translated_speech_is_saved(peers: Field, tmp_path: Path) -> None:
    async def speak(node: FakeNode, job: Frame) -> None:
        speech = base64.b64encode(b"\x01\x00" * 8_000).decode()
        await node.socket.send(result_of(job, node.node_id, tts_audio=speech, tts_format="pcm16"))

    await peers.node(speak)
    recorder(tmp_path, SPEECH * 5)
    saved = tmp_path / "saved.wav"
    async with translating(tmp_path, f"127.0.0.1:{peers.port}", "--save", str(saved)) as process:
        await spoken(process, tmp_path)
        process.send_signal(signal.SIGTERM)
        code, _, errors = await ended(process)
    assert code == 0
    assert "saved 0.5 s of speech" in errors
    assert wav.read(saved) == b"\x01\x00" * 8_000


async def test_a_second_ctrl_c_leaves_at_once(peers: Field, tmp_path: Path) -> None:
    node = await peers.node(stay_silent)
    recorder(tmp_path, SPEECH * 5)
    async with translating(tmp_path, f"127.0.0.1:{peers.port}") as process:
        await spoken(process, tmp_path)
        process.send_signal(signal.SIGINT)
        await until(lambda: node.jobs)
        assert process.returncode is None  # it waits for the translation
        process.send_signal(signal.SIGINT)
        code, shown, errors = await ended(process, within_s=25)
    assert (code, shown) == (INTERRUPTED, "")
    assert "Traceback" not in errors


async def test_on_a_terminal_there_is_a_meter_and_results_go_where_they_are_sent(
    server: RedisProcess, tmp_path: Path
) -> None:
    async with scheduler_on(server.url, sessions__pause_ms=200) as (scheduler, _), field(scheduler.port) as peers:
        await peers.node()
        recorder(tmp_path, SPEECH * 5)
        with terminal() as screen:
            address = f"127.0.0.1:{peers.port}"
            async with translating(tmp_path, address, stderr=screen.program_end) as process:
                await until(lambda: "speech" in screen.shown and "━" in screen.shown, within_s=30)
                assert process.stdout is not None
                # While the meter is there, and into a pipe.
                printed = [await asyncio.wait_for(process.stdout.readline(), 20) for _ in range(2)]
                process.send_signal(signal.SIGINT)
                await asyncio.wait_for(process.wait(), 20)
    assert [line.split()[-3] for line in printed] == [b"heard", b"said"]
    assert "said" not in screen.shown


# Where the sound comes from

# A device whose thread hands over chunks, as PortAudio does.
DEVICE = """
import os, pathlib, threading
class PortAudioError(Exception): pass
class RawInputStream:
    closed = False
    def __init__(self, *, samplerate, channels, dtype, blocksize, callback):
        assert (samplerate, channels, dtype) == (16000, 1, "int16")
        self.blocksize, self.callback = blocksize, callback
    def start(self):
        threading.Thread(target=self._play).start()
    def _play(self):
        folder = pathlib.Path(os.environ["PATH"])
        sound, size = folder.joinpath("sound").read_bytes(), self.blocksize * 2
        for at in range(0, len(sound), size):
            self.callback(memoryview(sound)[at : at + size], size, None, None)
        folder.joinpath("played").write_text("through PortAudio")
    def close(self):
        self.closed = True
"""


async def test_the_installed_package_is_asked_first(peers: Field, tmp_path: Path) -> None:
    node = await peers.node()
    recorder(tmp_path, SPEECH * 5)
    async with translating(tmp_path, f"127.0.0.1:{peers.port}", device=DEVICE) as process:
        assert await spoken(process, tmp_path) == "through PortAudio"
        process.send_signal(signal.SIGINT)
        code, _, errors = await ended(process)
    assert (code, errors) == (0, "")
    assert audio_of(node) == SPEECH * 5


@pytest.mark.parametrize(
    ("device", "script", "words"),
    [
        (NO_LIBRARY, None, "no recorder is installed; pip install 'lingua-sdk[microphone]'"),
        (
            NO_LIBRARY,
            "#!/bin/sh\necho 'audio open error: No such device' >&2; exit 1",
            "error: No such device); check that a",
        ),
        (
            DEVICE.replace("self.blocksize,", "raise PortAudioError('-9996')  #"),
            None,
            "cannot be opened: -9996; check that one",
        ),
    ],
    ids=["no program", "no device", "no device for PortAudio"],
)
async def test_without_a_microphone_one_sentence_says_what_to_do(
    peers: Field, tmp_path: Path, device: str, script: str | None, words: str
) -> None:
    if script is not None:
        recorder(tmp_path, b"", script=script)
    await peers.node()
    async with translating(tmp_path, f"127.0.0.1:{peers.port}", device=device) as process:
        code, shown, errors = await ended(process)
    assert (code, shown) == (SETTINGS, "")
    assert errors.splitlines()[-1].startswith("lingua: ")
    assert words in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("arguments", [("speech.wav",), ("--fast",)])
async def test_what_does_not_go_with_a_microphone_is_refused(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    async with translating(tmp_path, "127.0.0.1:1", *arguments) as process:
        code, _, errors = await ended(process)
    assert code == SETTINGS
    assert f"--microphone cannot be combined with {arguments[0]}" in errors
