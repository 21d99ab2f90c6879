"""`lingua translate`"""

import asyncio
import base64
import math
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import click
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn

from lingua_scheduler.cli.options import DEFAULT_ADDRESS, Exit, fail
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.session import MissingResult, TranslationResult, UiEvent
from lingua_scheduler.sdk import microphone, wav
from lingua_scheduler.sdk.address import BadAddress
from lingua_scheduler.sdk.audio import SAMPLE_RATE
from lingua_scheduler.sdk.client import Client, Heard, SessionFailed
from lingua_scheduler.sdk.microphone import Gate, NoMicrophone
from lingua_scheduler.sdk.recording import played

# The meter shows this many decibels below the loudest sound there is.
METER_DB = 60
LOUDEST = 32_768

SERVICE_UNAVAILABLE = 503

# Sends everything there is to say, and returns when all of it is sent.
Speak = Callable[[Client], Awaitable[None]]


@click.command()
@click.argument("sound", type=click.Path(path_type=Path), required=False)
@click.option("--microphone", "speaks", is_flag=True, help="Listen to the microphone instead, until Ctrl-C.")
@click.option("--from", "src_lang", required=True, metavar="LANG", help="What is spoken, e.g. en.")
@click.option("--to", "tgt_lang", required=True, metavar="LANG", help="What to hear, e.g. zh.")
@click.option(
    "--url", default=DEFAULT_ADDRESS, show_default=True, help="The scheduler: ws:// or http://, with or without a path."
)
@click.option("--save", type=click.Path(path_type=Path), help="Write the translated speech to this WAV file.")
@click.option("--fast", is_flag=True, help="Send a file as fast as it goes instead of at the pace of speech.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line, as they come: results, gaps, partials, events."
)
@click.option(
    "--timeout", "timeout_s", type=float, default=60, show_default=True, help="Seconds to wait for the last result."
)
def translate(
    sound: Path | None,
    speaks: bool,
    src_lang: str,
    tgt_lang: str,
    url: str,
    save: Path | None,
    fast: bool,
    as_json: bool,
    timeout_s: float,
) -> None:
    """Translate a sound file (WAV, any rate) or a microphone by streaming it to a scheduler, as a person would speak.

    \b
    lingua translate speech.wav --from en --to zh
    lingua translate speech.wav --from en --to es --save spanish.wav --fast
    lingua translate speech.wav --from en --to es --json | jq '.text_translated // empty'
    lingua translate --microphone --from en --to zh

    A sentence ends at a pause of a second or more in the file; the pause itself is not sent.

    With a microphone the first Ctrl-C says that you have finished, and the rest is still translated; a second one
    leaves at once.
    """
    speak: Speak
    if save is not None:
        _must_be_writable(save)
    if speaks:
        if sound is not None or fast:
            fail(f"--microphone does not go with {sound or '--fast'}; leave one of them out", Exit.SETTINGS)
        speak = partial(_talk, is_quiet=as_json, timeout_s=timeout_s)
    elif sound is None:
        fail("nothing to translate: name a WAV file, or speak with --microphone", Exit.SETTINGS)
    else:
        try:
            pcm16 = wav.read(sound)
        except wav.BadSound as error:
            fail(str(error), Exit.SETTINGS)
        if not pcm16:
            fail(f"{sound} is a WAV file without any sound in it", Exit.SETTINGS)
        speak = partial(_play, pcm16=pcm16, is_fast=fast, is_quiet=as_json, timeout_s=timeout_s)
    speech = _run(speak, url, (src_lang, tgt_lang), as_json, timeout_s)
    if save is not None:
        try:
            wav.write(save, speech)
        except OSError as error:
            fail(f"{save} cannot be written: {error.strerror}", Exit.SETTINGS)
        click.echo(f"saved {len(speech) / 2 / SAMPLE_RATE:.1f} s of speech to {save}", err=True)


def _must_be_writable(path: Path) -> None:
    """Before anybody has spoken for an hour; what is there already stays until there is something better."""
    place = path if path.exists() else path.parent
    if path.is_dir():
        fail(f"{path} cannot be written: it is a folder", Exit.SETTINGS)
    if not place.exists():
        fail(f"{path} cannot be written: there is no folder {place}", Exit.SETTINGS)
    if not place.is_file() and not place.is_dir():
        return  # a pipe or a device says for itself what it thinks
    if not os.access(place, os.W_OK):
        fail(f"{path} cannot be written: permission denied", Exit.SETTINGS)


def _run(speak: Speak, url: str, languages: tuple[str, str], as_json: bool, timeout_s: float) -> bytes:
    """The speech of all results; whatever goes wrong is one sentence."""
    try:
        return asyncio.run(_converse(speak, url, languages, as_json, timeout_s))
    except (BadAddress, NoMicrophone) as error:
        fail(str(error), Exit.SETTINGS)
    except SessionFailed as error:
        fail(str(error), Exit.SCHEDULER)
    except TimeoutError:
        fail(f"no result within {timeout_s:g} s; lingua status shows the nodes", Exit.SCHEDULER)
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None
    except aiohttp.WSServerHandshakeError as error:
        why = f"what answers at {url} is no scheduler, or its path is wrong"
        if error.status == SERVICE_UNAVAILABLE:
            why = f"the scheduler at {url} takes no sessions now: it stops or is full; try again"
        fail(f"{why} (HTTP {error.status})", Exit.SCHEDULER)
    except (aiohttp.ClientError, OSError) as error:
        fail(f"no scheduler answers at {url} ({error}); start one with: lingua serve", Exit.SCHEDULER)


async def _converse(speak: Speak, url: str, languages: tuple[str, str], as_json: bool, timeout_s: float) -> bytes:
    """Speak, show what comes back meanwhile and after it; return the speech of all results."""
    async with Client(url, *languages, partials=as_json) as client:
        speaking = asyncio.ensure_future(speak(client))
        hearing = asyncio.ensure_future(_hear(client, as_json))
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


async def _hear(client: Client, as_json: bool) -> bytes:
    speech = bytearray()
    translated = failed = outcomes = 0
    async for heard in client.heard(steps=as_json):
        speech += show(heard, as_json)
        translated += isinstance(heard, TranslationResult)
        outcomes += isinstance(heard, TranslationResult | MissingResult)
        failed += isinstance(heard, MissingResult) and heard.reason == "job_failed"
    if failed and not translated:
        raise SessionFailed("nothing was translated; lingua status shows the nodes, lingua pools the pairs")
    if not client.is_finished:
        raise SessionFailed("the scheduler hung up before everything was translated; try again")
    if not outcomes:
        click.echo("no speech was heard: it is silent, or quieter than sessions.silence_pcm_rms allows", err=True)
    return bytes(speech)


async def _play(client: Client, pcm16: bytes, is_fast: bool, is_quiet: bool, timeout_s: float) -> None:
    """Send a recording, at the pace of speech; its sentences end at its pauses."""
    columns = (TextColumn("speaking"), BarColumn(), TextColumn("{task.completed:.1f} of {task.total:.1f} s"))
    seconds = len(pcm16) / 2 / SAMPLE_RATE
    with _bar(*columns, TimeRemainingColumn(), is_quiet=is_quiet) as progress:
        bar = progress.add_task("", total=seconds)
        async with asyncio.timeout(seconds + timeout_s):
            async for part in played(pcm16, is_fast=is_fast):
                await client.send(part.audio, is_final=not part.audio)
                progress.update(bar, completed=part.begins_ms / 1000 + len(part.audio) / 2 / SAMPLE_RATE)
            await client.final()
            await client.finish()


async def _talk(client: Client, is_quiet: bool, timeout_s: float) -> None:
    """Send what the microphone hears until Ctrl-C; silence is left out, so the scheduler hears the pauses."""
    async with microphone.listening() as source, _stopped_by_signal(source):
        click.echo(f"listening through {source.name}; Ctrl-C when you have finished", err=True)
        gate = Gate()
        with _bar(TextColumn("{task.description:8}"), BarColumn(), is_quiet=is_quiet) as progress:
            meter = progress.add_task("silence", total=METER_DB)
            async for chunk in source.chunks():
                async with asyncio.timeout(timeout_s):
                    for part in gate.take(chunk):
                        await client.send(part)
                heard = "speech" if gate.is_open else "silence"
                progress.update(meter, completed=_decibels(chunk), description=heard)
        async with asyncio.timeout(timeout_s):
            await client.final()
            await client.finish()


@asynccontextmanager
async def _stopped_by_signal(source: microphone.Microphone) -> AsyncIterator[None]:
    """The first Ctrl-C ends the speech; a second one finds nobody who catches it."""
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


def _bar(*columns: ProgressColumn, is_quiet: bool) -> Progress:
    """On a terminal only. What is printed meanwhile goes above it, unless it goes somewhere else altogether."""
    return Progress(
        *columns,
        console=Console(stderr=True),
        disable=is_quiet or not sys.stderr.isatty(),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )


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
        click.secho(f"{heard.utterance_index + 1:>3}  nothing came of this one: {heard.reason}", fg="yellow")
    elif isinstance(heard, UiEvent) and heard.status == "error":
        click.secho(f"     {heard.error_code}: {heard.hint}", fg="red", err=True)
    if isinstance(heard, TranslationResult) and heard.tts_format == "pcm16":
        return base64.b64decode(heard.tts_audio)
    return b""
