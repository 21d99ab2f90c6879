"""`lingua translate`"""

import asyncio
import base64
import sys
from pathlib import Path

import aiohttp
import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from lingua_scheduler.cli import wav
from lingua_scheduler.cli.options import DEFAULT_ADDRESS, Exit, fail
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.session import MissingResult, TranslationResult, UiEvent
from lingua_scheduler.sdk.address import BadAddress
from lingua_scheduler.sdk.client import Client, Heard, SessionFailed

CHUNK_MS = 200
CHUNK_BYTES = wav.SAMPLE_RATE * 2 * CHUNK_MS // 1000


@click.command()
@click.argument("sound", type=click.Path(path_type=Path))
@click.option("--from", "src_lang", required=True, metavar="LANG", help="What is spoken, e.g. en.")
@click.option("--to", "tgt_lang", required=True, metavar="LANG", help="What to hear, e.g. zh.")
@click.option(
    "--url", default=DEFAULT_ADDRESS, show_default=True, help="The scheduler: ws:// or http://, with or without a path."
)
@click.option("--save", type=click.Path(path_type=Path), help="Write the translated speech to this WAV file.")
@click.option("--fast", is_flag=True, help="Send as fast as it goes instead of at the pace of speech.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: results, gaps and events.")
@click.option(
    "--timeout", "timeout_s", type=float, default=60, show_default=True, help="Seconds to wait for the last result."
)
def translate(
    sound: Path, src_lang: str, tgt_lang: str, url: str, save: Path | None, fast: bool, as_json: bool, timeout_s: float
) -> None:
    """Translate a sound file (WAV, any rate) by streaming it to a scheduler, as a person would speak.

    \b
    lingua translate speech.wav --from en --to zh
    lingua translate speech.wav --from en --to es --save spanish.wav --fast
    lingua translate speech.wav --from en --to es --json | jq .text_translated
    """
    try:
        pcm16 = wav.read(sound)
    except wav.BadSound as error:
        fail(str(error), Exit.SETTINGS)
    try:
        speech = asyncio.run(_stream(pcm16, url, (src_lang, tgt_lang), fast, as_json, timeout_s))
    except BadAddress as error:
        fail(str(error), Exit.SETTINGS)
    except SessionFailed as error:
        fail(str(error), Exit.SCHEDULER)
    except TimeoutError:
        fail(f"no result within {timeout_s:g} s; lingua status shows the nodes", Exit.SCHEDULER)
    except aiohttp.WSServerHandshakeError as error:
        fail(
            f"the scheduler at {url} takes no sessions now ({error.status}): it stops or is full; try again",
            Exit.SCHEDULER,
        )
    except (aiohttp.ClientError, OSError) as error:
        fail(f"no scheduler answers at {url} ({error}); start one with: lingua serve", Exit.SCHEDULER)
    if save is not None:
        try:
            wav.write(save, speech)
        except OSError as error:
            fail(f"{save} cannot be written: {error.strerror}", Exit.SETTINGS)
        click.echo(f"saved {len(speech) / 2 / wav.SAMPLE_RATE:.1f} s of speech to {save}", err=True)


async def _stream(
    pcm16: bytes, url: str, languages: tuple[str, str], fast: bool, as_json: bool, timeout_s: float
) -> bytes:
    """Send the sound, show what comes back; return the speech of all results."""
    speech = bytearray()
    translated = failed = 0
    async with Client(url, *languages) as client:
        sending = asyncio.ensure_future(_send(client, pcm16, fast, quiet=as_json))
        try:
            spoken_s = 0 if fast else len(pcm16) / 2 / wav.SAMPLE_RATE
            async with asyncio.timeout(spoken_s + timeout_s):
                async for heard in client.heard():
                    speech += show(heard, as_json)
                    translated += isinstance(heard, TranslationResult)
                    failed += isinstance(heard, MissingResult) and heard.reason == "job_failed"
            if failed and not translated:
                raise SessionFailed("nothing was translated; lingua status shows the nodes, lingua pools the pairs")
            if not client.is_finished:
                raise SessionFailed("the scheduler hung up before everything was translated; try again")
        finally:
            sending.cancel()
    return bytes(speech)


async def _send(client: Client, pcm16: bytes, fast: bool, quiet: bool) -> None:
    loop = asyncio.get_running_loop()
    progress = Progress(
        TextColumn("speaking"),
        BarColumn(),
        TextColumn("{task.completed:.1f} of {task.total:.1f} s"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=quiet or not sys.stderr.isatty(),
        transient=True,
    )
    with progress:
        bar = progress.add_task("", total=len(pcm16) / 2 / wav.SAMPLE_RATE)
        started = loop.time()
        for number, place in enumerate(range(0, len(pcm16), CHUNK_BYTES)):
            if not fast:
                await asyncio.sleep(max(0, started + number * CHUNK_MS / 1000 - loop.time()))
            await client.send(pcm16[place : place + CHUNK_BYTES])
            progress.update(bar, advance=CHUNK_MS / 1000)
        await client.final()
        await client.finish()


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
