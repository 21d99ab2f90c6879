"""The spoken sample of the demo: translated, shown with the time of each stage, saved, and played if possible."""

import asyncio
import base64
import shutil
from importlib import resources
from pathlib import Path

from rich.text import Text

from lingua_scheduler.cli.wording import PlainConsole
from lingua_sdk import wav
from lingua_sdk.audio import SAMPLE_RATE, Audio
from lingua_sdk.client import Client
from lingua_sdk.protocol.session import TranslationResult, UiEvent

RESULT_WITHIN_S = 30.0
PLAYED_WITHIN_S = 20.0
# Each plays a WAV file without printing anything.
PLAYERS = (("paplay",), ("aplay", "-q"), ("afplay",), ("play", "-q"), ("ffplay", "-nodisp", "-autoexit", "-v", "quiet"))


def spoken_sample() -> Audio:
    """Some seconds of English."""
    with resources.as_file(resources.files("lingua_scheduler.cli") / "assets" / "sample-en.wav") as path:
        return Audio(wav.read(path))


async def translate(console: PlainConsole, address: str, tgt_lang: str, save: Path, *, is_kept: bool) -> bool:
    """Speak the sample sentence and wait for its translation; whether it came."""
    is_translated = False
    spoken = spoken_sample()
    console.print(f"speaking    {spoken.seconds:.1f} s of English, to be translated into '{tgt_lang}' …")
    async with Client(address, "en", tgt_lang, token="") as client, asyncio.timeout(RESULT_WITHIN_S):
        started = asyncio.get_running_loop().time()
        await client.utterance(spoken.samples)
        await client.finish()
        async for heard in client.heard():
            if isinstance(heard, UiEvent) and heard.status == "error":
                console.print(Text.assemble("failed      ", (f"{heard.error_code}: {heard.hint}", "red")))
            if isinstance(heard, TranslationResult):
                is_translated = True
                took_ms = (asyncio.get_running_loop().time() - started) * 1000
                console.print(f"understood  {heard.text_asr}")
                console.print(f"translated  {heard.text_translated}", style="bold green")
                await _hear(console, Audio(base64.b64decode(heard.tts_audio)), save, is_kept)
                console.print(f"took        {took_ms:.0f} ms after the end of the sentence{_stages(heard)}")
    return is_translated


async def _hear(console: PlainConsole, speech: Audio, save: Path, is_kept: bool) -> None:
    if not speech.samples:
        console.print("spoken      no: no node has a voice for this language")
        return
    wav.write(save, speech.samples, SAMPLE_RATE)
    how_long = "" if is_kept else " (kept only while the demo runs; --save FILE keeps it)"
    console.print(f"spoken      {speech.seconds:.1f} s, in {save}{how_long}", soft_wrap=True)
    # Only on a terminal, where a person may be listening.
    player = _player() if console.is_terminal else None
    if player is not None:
        await _play(player, save)


def _player() -> tuple[str, ...] | None:
    return next((player for player in PLAYERS if shutil.which(player[0])), None)


async def _play(player: tuple[str, ...], sound: Path) -> None:
    """As well as it goes: a machine with a player may have no loudspeaker."""
    nowhere = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*player, str(sound), stdin=nowhere, stdout=nowhere, stderr=nowhere)
    try:
        await asyncio.wait_for(process.wait(), PLAYED_WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _stages(heard: TranslationResult) -> str:
    told = heard.service_timings
    if told is None:
        return ""
    named = {"recognition": told.asr_ms, "translation": told.nmt_ms, "speech": told.tts_ms}
    shown = ", ".join(f"{stage} {took_ms:.0f}" for stage, took_ms in named.items() if took_ms is not None)
    return f" ({shown} ms)" if shown else ""
