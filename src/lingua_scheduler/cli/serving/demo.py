"""`lingua demo`: a scheduler, Redis and nodes on this machine, with a live view."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import aiohttp
import click
from rich.live import Live
from rich.text import Text

from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.scheduler_access import node_command
from lingua_scheduler.cli.speech import sample
from lingua_scheduler.cli.watching import status
from lingua_scheduler.cli.watching.pictures import watch
from lingua_scheduler.cli.wording import PlainConsole, now_ms, table_console
from lingua_scheduler.domain.watching.following import Seen
from lingua_sdk.access import KEY_VARIABLE
from lingua_sdk.client import SessionFailed
from lingua_sdk.processes import die_with_parent, stop
from lingua_sdk.watching import Interrupted

# Real engines load their models first.
READY_WITHIN_S = 60.0
LOOK_WITHIN_S = 60.0
SIM_NODES = 3
ONE_WAY = (
    "For now only English is understood. For both directions: make both-ways (about 240 MB, once), then start again.\n"
    "Without a checkout: pip install 'lingua-scheduler[speech-both]' && lingua models get whisper-base"
)


class Cast(NamedTuple):
    """The processes of the demo: how many nodes, real or simulated."""

    is_real: bool
    nodes: int
    tgt_lang: str
    # Why the nodes are simulated.
    reason: str = ""
    # Whether the listener's answer is translated too.
    is_two_way: bool = True


# Everything stops after it, so there are no addresses to name.
ONCE = "Next: run it without --once (make run, or lingua demo): it keeps running, for the dashboard and /talk."


@click.command()
@click.option(
    "--port",
    "-p",
    type=click.IntRange(0, 65535),
    default=5010,
    show_default=True,
    help="Port to listen on; 0 = any free port.",
)
@click.option(
    "--engine",
    type=click.Choice(["auto", "sim"]),
    default="auto",
    show_default=True,
    help="auto = real speech engines if installed, else simulated; sim = simulated.",
)
@click.option(
    "--nodes", "node_count", type=click.IntRange(1, 20), help="Nodes to start.  [default: 1 real, or 3 simulated]"
)
@click.option("--to", "tgt_lang", help="Language to translate the sample into.  [default: pt; simulated: zh]")
@click.option(
    "--save", type=click.Path(path_type=Path, dir_okay=False), help="Write the translated speech to this WAV file."
)
@click.option("--data-dir", help="Data directory of the embedded Redis.  [default: a temporary folder]")
@click.option("--once", is_flag=True, help="Exit after the sample has been translated.")
def demo(
    port: int,
    engine: str,
    node_count: int | None,
    tgt_lang: str | None,
    save: Path | None,
    data_dir: str | None,
    once: bool,
) -> None:
    """Try everything on this machine: scheduler, Redis and node.

    Starts a scheduler with an embedded Redis and a node, translates a spoken sample, and shows a live view.

    If real speech engines are installed (make speech, or pip install 'lingua-scheduler[speech]'), the node uses them.
    Otherwise simulated nodes measure the audio and invent the words. Everything else is real: processes, sockets,
    Redis, leases. Ctrl-C stops all of it and removes its files.

    \b
    lingua demo
    lingua demo --to es --save spanish.wav
    lingua demo --engine sim --port 8000 --nodes 5 --to zh
    """
    cast = _cast(engine, node_count, tgt_lang)
    try:
        asyncio.run(_demo(port or _free_port(), cast, save, data_dir, once))
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None


def _cast(engine: str, node_count: int | None, tgt_lang: str | None) -> Cast:
    """Real engines if they make this translation here; looked at in a process of its own, since they are heavy."""
    simulated = Cast(False, node_count or SIM_NODES, tgt_lang or "zh")
    if engine == "sim":
        return simulated
    looked = subprocess.run(
        [sys.executable, "-m", "lingua_scheduler", "node", "--list", "--json"],
        capture_output=True,
        check=False,
        timeout=LOOK_WITHIN_S,
    )
    try:
        pairs = [(pair["from"], pair["to"]) for pair in json.loads(looked.stdout)["pairs"]]
    except (ValueError, LookupError):
        pairs = []
    if ("en", tgt_lang or "pt") in pairs:
        is_two_way = (tgt_lang or "pt", "en") in pairs
        return Cast(True, node_count or 1, tgt_lang or "pt", is_two_way=is_two_way)
    lacking = f"no installed engine translates from English to '{tgt_lang}'" if pairs else "they are not installed"
    return simulated._replace(reason=f"{lacking}; lingua node --list shows what is missing and how to install it")


async def _demo(port: int, cast: Cast, save: Path | None, data_dir: str | None, once: bool) -> None:
    console = table_console()
    if _is_taken(port):
        # make sets MAKELEVEL for what it runs.
        how = "make run ARGS='--port 0'" if "MAKELEVEL" in os.environ else "--port"
        fail(f"port {port} is in use by another program; choose another with {how} (0 = any free port)", Exit.PORT)
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    address = f"127.0.0.1:{port}"
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lingua-demo-")))
        _introduce(console, cast)
        log = stack.enter_context((folder / "demo.log").open("wb"))
        family = DemoProcesses(stack, log)
        data_dir = data_dir or str(folder / "redis")
        scheduler = await family.start("serve", "--port", str(port), "--data-dir", data_dir)
        if not await _until(lambda: _is_ready(address), scheduler, asked_to_stop):
            log.flush()
            console.print((folder / "demo.log").read_text("utf-8", "replace"), style="dim")
            fail("the scheduler did not start; its output is above", Exit.SCHEDULER)
        console.print(f"scheduler   ready on port {port}")
        kind = "auto" if cast.is_real else "sim"
        for i in range(cast.nodes):
            await family.start("node", "--engine", kind, "--url", f"ws://{address}", "--id", f"{kind}-{i + 1}")
        if not await _until(lambda: _has_nodes(address, cast.nodes), scheduler, asked_to_stop):
            if asked_to_stop.is_set():
                return
            log.flush()
            console.print((folder / "demo.log").read_text("utf-8", "replace"), style="dim")
            fail("the nodes did not become ready; their output is above", Exit.SCHEDULER)
        console.print(f"nodes       {cast.nodes} connected")
        try:
            speech = save or folder / f"speech-{cast.tgt_lang}.wav"
            is_translated = await sample.translate(console, address, cast.tgt_lang, speech, is_kept=save is not None)
        except SessionFailed as error:
            fail(str(error), Exit.SETTINGS)
        if once and not is_translated:
            fail("the sample was not translated", Exit.SCHEDULER)
        if once:
            console.print(ONCE if cast.is_two_way else f"{ONCE}\n{ONE_WAY}", soft_wrap=True)
        else:
            _show_addresses(console, address, cast, data_dir)
            await _live(console, address, asked_to_stop)
        console.print("stopping …")


def _introduce(console: PlainConsole, cast: Cast) -> None:
    nodes = "a node with real speech engines" if cast.is_real else f"{cast.nodes} simulated nodes"
    console.print(Text.assemble(("Lingua Scheduler", "bold"), f" demo: one scheduler, an embedded Redis, {nodes}."))
    if cast.reason:
        console.print(f"Without real speech engines: {cast.reason}.", style="yellow")


class DemoProcesses:
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
            # The scheduler of the demo knows no key, and would refuse one that is meant for another.
            env=os.environ | {KEY_VARIABLE: ""},
            start_new_session=True,  # Ctrl-C is ours to pass on
            preexec_fn=die_with_parent,
        )
        self._stack.push_async_callback(stop, process, 20.0)
        return process


def _show_addresses(console: PlainConsole, address: str, cast: Cast, data_dir: str) -> None:
    console.print()
    console.print("Next:", style="bold")
    for what, where in (
        ("watch it", f"http://{address}/dashboard"),
        ("talk to it", f"http://{address}/talk"),
        ("clients connect to", f"ws://{address}/ws/session"),
        ("nodes connect to", f"ws://{address}/ws/node"),
        ("in another terminal", f".venv/bin/lingua top --url ws://{address}"),
        ("or", f".venv/bin/lingua translate FILE.wav --from en --to {cast.tgt_lang} --url ws://{address}"),
        ("or", f".venv/bin/lingua nodes --data-dir {data_dir}"),
    ):
        console.print(f"  {what:20} {where}", soft_wrap=True)
    console.print()
    if not cast.is_two_way:
        console.print(ONE_WAY, soft_wrap=True)
        console.print()


async def _live(console: PlainConsole, address: str, asked_to_stop: asyncio.Event) -> None:
    """A small live view of the scheduler, until Ctrl-C."""
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
    command = node_command(address)
    async for said in watch(address, seen, token=""):
        if isinstance(said, Interrupted):
            live.update(f"the scheduler does not answer: {said.reason}", refresh=True)
        elif seen.picture is not None:
            lines = status.screen(seen.picture, now_ms(), live.console.width, live.console.height, command)
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
