"""`lingua translate`"""

import asyncio
import base64
import math
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from lingua_scheduler.cli.credentials import shown_to
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import addressed, not_allowed, url_option
from lingua_scheduler.cli.speech.failures import UNREACHABLE, why_unreachable
from lingua_scheduler.cli.speech.screen import LiveScreen
from lingua_sdk import microphone, wav
from lingua_sdk.access import AccessDenied
from lingua_sdk.address import BadAddress
from lingua_sdk.audio import SAMPLE_RATE
from lingua_sdk.client import Client, Heard, SessionFailed
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.pairing import NO_PAIRING_CODE, code_in
from lingua_sdk.microphone import Gate, NoMicrophone
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import AsrPartial, MissingResult, TranslationResult
from lingua_sdk.recording import played

# The meter shows this many decibels below the loudest sound there is.
METER_DB = 60
LOUDEST = 32_768

# Sends everything there is to say, and returns when all of it is sent.
Speak = Callable[[Client, LiveScreen], Awaitable[None]]


class _Session(NamedTuple):
    url: str
    src_lang: str
    tgt_lang: str
    pairing_code: str


@click.command()
@click.argument("sound", type=click.Path(path_type=Path), required=False)
@click.option("--microphone", "speaks", is_flag=True, help="Use the microphone instead of a file, until Ctrl-C.")
@click.option("--from", "src_lang", required=True, metavar="LANG", help="Language spoken, such as en.")
@click.option("--to", "tgt_lang", required=True, metavar="LANG", help="Language to translate into, such as zh.")
@url_option
@click.option("--save", type=click.Path(path_type=Path), help="Write the translated speech to this WAV file.")
@click.option("--fast", is_flag=True, help="Send the file as fast as possible, not at the pace of speech.")
@click.option("--pairing-code", default="", metavar="CODE", help="Use one private node: the code of lingua pair.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Output one JSON object per line: results, missing results, partial results, events.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    default=60,
    show_default=True,
    help="Maximum seconds to wait for the last result.",
)
def translate(
    sound: Path | None,
    speaks: bool,
    src_lang: str,
    tgt_lang: str,
    url: str,
    save: Path | None,
    fast: bool,
    pairing_code: str,
    as_json: bool,
    timeout_s: float,
) -> None:
    """Translate a WAV file or live speech from a microphone.

    The audio is streamed to a scheduler at the pace of speech. A WAV file may have any sample rate.

    \b
    lingua translate speech.wav --from en --to zh
    lingua translate speech.wav --from en --to es --save spanish.wav --fast
    lingua translate a.wav --from en --to es --json | jq '.text_translated//empty'
    lingua translate --microphone --from en --to zh
    lingua translate a.wav --from en --to es --pairing-code 4TXK2M7Q

    In a file, a pause of a second or more ends a sentence; the pause itself is not sent.

    With a microphone, the first Ctrl-C ends the speech and waits for its translation; the second exits immediately.
    """
    speak: Speak
    if save is not None:
        _must_be_writable(save)
    if speaks:
        if sound is not None or fast:
            fail(f"--microphone cannot be combined with {sound or '--fast'}; remove one of them", Exit.SETTINGS)
        speak = partial(_talk, timeout_s=timeout_s)
    elif sound is None:
        fail("nothing to translate: name a WAV file, or use --microphone", Exit.SETTINGS)
    else:
        try:
            pcm16 = wav.read(sound)
        except wav.BadSound as error:
            fail(str(error), Exit.SETTINGS)
        if not pcm16:
            fail(f"{sound} contains no audio", Exit.SETTINGS)
        speak = partial(_play, pcm16=pcm16, is_fast=fast, timeout_s=timeout_s)
    speech = _run(speak, _Session(url, src_lang, tgt_lang, pairing_code), as_json, timeout_s)
    if save is not None:
        try:
            wav.write(save, speech)
        except OSError as error:
            fail(f"{save} cannot be written: {error.strerror}", Exit.SETTINGS)
        click.echo(f"saved {len(speech) / 2 / SAMPLE_RATE:.1f} s of speech to {save}", err=True)


def _must_be_writable(path: Path) -> None:
    """Check that the file can be written before the speech begins. An existing file is kept until there is a result."""
    place = path if path.exists() else path.parent
    if path.is_dir():
        fail(f"{path} cannot be written: it is a directory", Exit.SETTINGS)
    if not place.exists():
        fail(f"{path} cannot be written: directory {place} does not exist", Exit.SETTINGS)
    if not place.is_file() and not place.is_dir():
        return  # a pipe or a device says for itself what it thinks
    if not os.access(place, os.W_OK):
        fail(f"{path} cannot be written: permission denied", Exit.SETTINGS)


def _run(speak: Speak, wanted: _Session, as_json: bool, timeout_s: float) -> bytes:
    """The speech of all results. Every failure becomes a one-sentence error."""
    url = wanted.url
    if wanted.pairing_code and not code_in(wanted.pairing_code):
        fail(NO_PAIRING_CODE.format(wanted.pairing_code), Exit.SETTINGS)
    try:
        return asyncio.run(_converse(speak, wanted, as_json, timeout_s))
    except (BadAddress, NoMicrophone) as error:
        fail(str(error), Exit.SETTINGS)
    except AccessDenied as error:
        not_allowed(url, error)
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None
    except BrokenPipeError:
        raise  # our own output
    except UNREACHABLE as error:
        fail(why_unreachable(error, url, timeout_s), Exit.SCHEDULER)


async def _converse(speak: Speak, wanted: _Session, as_json: bool, timeout_s: float) -> bytes:
    """Speak, show what comes back meanwhile and after it; return the speech of all results."""
    url, *languages, code = wanted
    async with Client(url, *languages, partials=True, pairing_code=code, token=shown_to(url)) as client:
        if client.unserved:
            # Nothing is sent: it would only be a failed job, and an alarm for the operators.
            why = addressed(client.unserved, url)
            raise SessionFailed(f"{'→'.join(languages)} cannot be translated now: {why}; lingua pools shows the pairs")
        with LiveScreen(is_quiet=as_json) as screen:
            return await _speak_and_hear(speak, client, screen, as_json, timeout_s)


async def _speak_and_hear(speak: Speak, client: Client, screen: LiveScreen, as_json: bool, timeout_s: float) -> bytes:
    speaking = asyncio.ensure_future(speak(client, screen))
    hearing = asyncio.ensure_future(_hear(client, screen, as_json))
    try:
        await asyncio.wait((speaking, hearing), return_when=asyncio.FIRST_COMPLETED)
        if speaking.done():
            await speaking
        # Who hears the end before everything is said has been hung up on, and raises that.
        async with asyncio.timeout(timeout_s):
            return await hearing
    finally:
        speaking.cancel()
        hearing.cancel()
        await asyncio.gather(speaking, hearing, return_exceptions=True)


async def _hear(client: Client, screen: LiveScreen, as_json: bool) -> bytes:
    speech = bytearray()
    translated = failed = outcomes = 0
    async for heard in client.heard(steps=as_json):
        screen.understood(heard.utterance_index, heard.text if isinstance(heard, AsrPartial) else "")
        speech += show(heard, as_json)
        translated += isinstance(heard, TranslationResult)
        outcomes += isinstance(heard, TranslationResult | MissingResult)
        failed += isinstance(heard, MissingResult) and heard.reason == "job_failed"
    if failed and not translated:
        raise SessionFailed("nothing was translated; lingua status shows the nodes, lingua pools the pairs")
    if not client.is_finished:
        raise SessionFailed("the scheduler closed the connection before everything was translated; try again")
    if not outcomes:
        click.echo("no speech was detected: the audio is silent, or quieter than sessions.silence_pcm_rms", err=True)
    return bytes(speech)


async def _play(client: Client, screen: LiveScreen, pcm16: bytes, is_fast: bool, timeout_s: float) -> None:
    """Send a recording, at the pace of speech; its sentences end at its pauses."""
    columns = (TextColumn("speaking"), BarColumn(), TextColumn("{task.completed:.1f} of {task.total:.1f} s"))
    seconds = len(pcm16) / 2 / SAMPLE_RATE
    progress = screen.progress(*columns, TimeRemainingColumn())
    bar = progress.add_task("", total=seconds)
    async with asyncio.timeout(seconds + timeout_s):
        async for part in played(pcm16, is_fast=is_fast):
            await client.send(part.audio, is_final=not part.audio)
            progress.update(bar, completed=part.begins_ms / 1000 + len(part.audio) / 2 / SAMPLE_RATE)
        await client.final()
        await client.finish()
    screen.end_progress()


async def _talk(client: Client, screen: LiveScreen, timeout_s: float) -> None:
    """Send what the microphone hears until Ctrl-C; silence is left out, so the scheduler hears the pauses."""
    async with microphone.listening() as source, _stopped_by_signal(source):
        click.echo(f"listening to {source.name}; press Ctrl-C when you have finished", err=True)
        gate = Gate()
        progress = screen.progress(TextColumn("{task.description:8}"), BarColumn())
        meter = progress.add_task("silence", total=METER_DB)
        async for chunk in source.chunks():
            async with asyncio.timeout(timeout_s):
                for part in gate.take(chunk):
                    await client.send(part)
            heard = "speech" if gate.is_open else "silence"
            progress.update(meter, completed=_decibels(chunk), description=heard)
        screen.end_progress()
        async with asyncio.timeout(timeout_s):
            await client.final()
            await client.finish()


@asynccontextmanager
async def _stopped_by_signal(source: microphone.Microphone) -> AsyncIterator[None]:
    """The first Ctrl-C ends the speech; the second is not caught and ends the program."""
    loop = asyncio.get_running_loop()
    said_enough = asyncio.Event()

    def let_go() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    async def stop() -> None:
        await said_enough.wait()
        let_go()
        await source.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, said_enough.set)
    stopping = asyncio.ensure_future(stop())
    try:
        yield
    finally:
        stopping.cancel()
        let_go()


def _decibels(chunk: bytes) -> float:
    _, loudest = microphone.levels(chunk)
    return max(0.0, METER_DB + 20 * math.log10(max(loudest, 1) / LOUDEST))


def show(heard: Heard, as_json: bool) -> bytes:
    """Print what came; return its speech."""
    if as_json:
        click.echo(codec.encode(heard))
    elif isinstance(heard, TranslationResult):
        click.secho(f"{heard.utterance_index + 1:>3}  {heard.text_asr}", dim=True)
        click.secho(f"     {heard.text_translated}", bold=True)
    elif isinstance(heard, MissingResult):
        click.secho(f"{heard.utterance_index + 1:>3}  no result: {why_missing(heard)}", fg="yellow")
    if isinstance(heard, TranslationResult) and heard.tts_format == "pcm16":
        return base64.b64decode(heard.tts_audio)
    return b""


def why_missing(missing: MissingResult) -> str:
    """A timeout is not silence, and neither is a cancelled job."""
    if missing.reason in ("no_text", "silence_detected"):
        return "no speech was recognised"
    if missing.code == ErrorCode.JOB_CANCELLED:
        return "it was cancelled"
    return f"{missing.detail} ({missing.code})" if missing.code and missing.detail else missing.reason
