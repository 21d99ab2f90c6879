"""`lingua demo`: everything at once, on this machine, in front of your eyes."""

import asyncio
import signal
import socket
import sys
import tempfile
from contextlib import AsyncExitStack
from importlib import resources
from pathlib import Path

import aiohttp
import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from lingua_scheduler.cli import status, wav
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.wording import now_ms
from lingua_scheduler.domain.following import Seen
from lingua_scheduler.processes import die_with_parent, stop
from lingua_scheduler.protocol.session import TranslationResult, UiEvent
from lingua_scheduler.sdk.client import Client, SessionFailed
from lingua_scheduler.sdk.watching import Interrupted, watch

READY_WITHIN_S = 30.0


@click.command()
@click.option(
    "--port",
    "-p",
    type=click.IntRange(0, 65535),
    default=5010,
    show_default=True,
    help="Port to serve on; 0 takes a free one.",
)
@click.option(
    "--nodes", "node_count", type=click.IntRange(1, 20), default=3, show_default=True, help="Simulated nodes to start."
)
@click.option("--to", "tgt_lang", default="zh", show_default=True, help="Language to translate the sample into.")
@click.option("--data-dir", help="Keep the embedded Redis's data here.  [default: a temporary folder]")
@click.option("--once", is_flag=True, help="Stop after the sample was translated.")
def demo(port: int, node_count: int, tgt_lang: str, data_dir: str | None, once: bool) -> None:
    """Start a scheduler with an embedded Redis and a few nodes, translate a spoken sample, and show it live.

    The nodes are simulated: they measure the audio and make up the words. Everything else is real: processes,
    sockets, Redis, leases. Ctrl-C ends all of it and leaves nothing behind.

    \b
    lingua demo
    lingua demo --port 8000 --nodes 5 --to es
    """
    try:
        asyncio.run(_demo(port or _free_port(), node_count, tgt_lang, data_dir, once))
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None


async def _demo(port: int, node_count: int, tgt_lang: str, data_dir: str | None, once: bool) -> None:
    console = Console()
    if _is_taken(port):
        fail(f"port {port} is taken by another program; choose another with --port (0 takes a free one)", Exit.PORT)
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    address = f"127.0.0.1:{port}"
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lingua-demo-")))
        console.print(
            "[bold]Lingua Scheduler[/] demo: one scheduler, an embedded Redis,", f"{node_count} simulated nodes."
        )
        log = stack.enter_context((folder / "demo.log").open("wb"))
        family = Family(stack, log)
        scheduler = await family.start("serve", "--port", str(port), "--data-dir", data_dir or str(folder / "redis"))
        if not await _until(lambda: _is_ready(address), scheduler, asked_to_stop):
            log.flush()
            console.print((folder / "demo.log").read_text("utf-8", "replace"), style="dim", markup=False)
            fail("the scheduler did not start; what it said is above", Exit.SCHEDULER)
        console.print(f"scheduler   ready on port {port}")
        for i in range(node_count):
            await family.start("node", "--engine", "sim", "--url", f"ws://{address}", "--id", f"sim-{i + 1}")
        if not await _until(lambda: _has_nodes(address, node_count), scheduler, asked_to_stop):
            if asked_to_stop.is_set():
                return
            log.flush()
            console.print((folder / "demo.log").read_text("utf-8", "replace"), style="dim", markup=False)
            fail("the nodes did not become ready; what they said is above", Exit.SCHEDULER)
        console.print(f"nodes       {node_count} connected, 4 slots each")
        try:
            is_translated = await _translate_sample(console, address, tgt_lang)
        except SessionFailed as error:
            fail(str(error), Exit.SETTINGS)
        if once and not is_translated:
            fail("the sample was not translated", Exit.SCHEDULER)
        _show_addresses(console, address)
        if not once:
            await _live(console, address, asked_to_stop)
        console.print("stopping …")


class Family:
    """The processes of the demo; all of them end with it, the last started first."""

    def __init__(self, stack: AsyncExitStack, log: object) -> None:
        self._stack = stack
        self._log = log

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "lingua_scheduler",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=self._log,  # type: ignore[arg-type]
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours to pass on
            preexec_fn=die_with_parent,
        )
        self._stack.push_async_callback(stop, process, 20.0)
        return process


async def _translate_sample(console: Console, address: str, tgt_lang: str) -> bool:
    """Speak the sample sentence and wait for its translation; whether it came."""
    is_translated = False
    with resources.as_file(resources.files("lingua_scheduler.cli") / "assets" / "sample-en.wav") as path:
        pcm16 = wav.read(path)
    seconds = len(pcm16) / 2 / wav.SAMPLE_RATE
    console.print(f"speaking    {seconds:.1f} s of English, to be heard in '{tgt_lang}' …")
    async with Client(address, "en", tgt_lang) as client, asyncio.timeout(30):
        started = asyncio.get_running_loop().time()
        await client.utterance(pcm16)
        await client.finish()
        async for heard in client.heard():
            if isinstance(heard, UiEvent) and heard.status == "error":
                console.print(f"failed      [red]{heard.error_code}: {heard.hint}[/]", highlight=False)
            if isinstance(heard, TranslationResult):
                is_translated = True
                took_ms = (asyncio.get_running_loop().time() - started) * 1000
                console.print(f"understood  {heard.text_asr}", highlight=False)
                console.print(f"translated  [bold green]{heard.text_translated}[/]", highlight=False)
                speech_s = len(heard.tts_audio) * 3 / 4 / 2 / wav.SAMPLE_RATE
                console.print(
                    f"            with {speech_s:.1f} s of speech, {took_ms:.0f} ms after the end of the sentence"
                )
    return is_translated


def _show_addresses(console: Console, address: str) -> None:
    console.print()
    console.print("Next:", style="bold")
    for what, where in (
        ("status as a page", f"http://{address}/v1/status"),
        ("metrics", f"http://{address}/metrics"),
        ("clients connect to", f"ws://{address}/ws/session"),
        ("nodes connect to", f"ws://{address}/ws/node"),
        ("in another terminal", f".venv/bin/lingua top --url ws://{address}"),
        ("or", f".venv/bin/lingua translate FILE.wav --from en --to zh --url ws://{address}"),
    ):
        console.print(f"  {what:20} {where}", highlight=False, soft_wrap=True)
    console.print()


async def _live(console: Console, address: str, asked_to_stop: asyncio.Event) -> None:
    """A small view that follows the scheduler until somebody says stop."""
    if not console.is_terminal:
        console.print("Running; Ctrl-C stops everything.")
        await asked_to_stop.wait()
        return
    console.print("Ctrl-C stops everything.", style="dim")
    with Live(console=console, auto_refresh=False) as live:
        following = asyncio.create_task(_follow(live, address))
        await asked_to_stop.wait()
        following.cancel()
        await asyncio.wait((following,))


async def _follow(live: Live, address: str) -> None:
    seen = Seen()
    async for said in watch(address, seen):
        if isinstance(said, Interrupted):
            live.update(f"the scheduler does not answer: {said.reason}", refresh=True)
        elif seen.picture is not None:
            lines = status.screen(seen.picture, now_ms(), live.console.width, live.console.height)
            live.update(Text("\n").join(lines), refresh=True)


async def _until(condition: object, process: asyncio.subprocess.Process, asked_to_stop: asyncio.Event) -> bool:
    """Wait for a condition while the process lives."""
    deadline = asyncio.get_running_loop().time() + READY_WITHIN_S
    while asyncio.get_running_loop().time() < deadline and process.returncode is None and not asked_to_stop.is_set():
        try:
            if await condition():  # type: ignore[operator]
                return True
        except (aiohttp.ClientError, OSError, TimeoutError):
            pass
        await asyncio.sleep(0.1)
    return False


async def _is_ready(address: str) -> bool:
    async with aiohttp.ClientSession() as http, http.get(f"http://{address}/health/ready") as response:
        return response.status == 200


async def _has_nodes(address: str, count: int) -> bool:
    # Not the picture, which may be some seconds old.
    async with aiohttp.ClientSession() as http, http.get(f"http://{address}/v1/nodes") as response:
        return [node["state"] for node in (await response.json())["nodes"]].count("ready") >= count


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
