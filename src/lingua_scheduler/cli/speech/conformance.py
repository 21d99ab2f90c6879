"""`lingua conformance`: plays a scheduler to a node or a client, and gives a verdict on each requirement."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from lingua_scheduler.cli.groups import Group
from lingua_scheduler.cli.options import Exit, fail
from lingua_scheduler.cli.speech.sample import spoken_sample
from lingua_scheduler.cli.wording import plain_lines
from lingua_scheduler.conformance.book import NEEDS_COMMAND, Book, CheckResult, CheckVerdict, as_json
from lingua_scheduler.conformance.checks import CLIENT_CHECKS, NODE_CHECKS, Check, PeerProfile
from lingua_scheduler.conformance.client_script import check_client
from lingua_scheduler.conformance.client_talk import ClientTalk
from lingua_scheduler.conformance.listening import Entrance, listening
from lingua_scheduler.conformance.node_script import check_node
from lingua_scheduler.conformance.node_talk import NodeTalk
from lingua_scheduler.conformance.play import Play
from lingua_scheduler.conformance.program import URL_VARIABLE, Program
from lingua_sdk import wav

HOST = "127.0.0.1"
_COLOURS = {
    CheckVerdict.PASSED: "green",
    CheckVerdict.FAILED: "red",
    CheckVerdict.NOT_TESTED: "yellow",
    CheckVerdict.NOT_REACHED: "yellow",
}


class PeerKind(NamedTuple):
    """What is tested: where it connects, by what it is judged, and the script."""

    path: str
    checks: tuple[Check, ...]
    script: Callable[[Entrance, Book, Play], Awaitable[None]]


NODE = PeerKind("/ws/node", NODE_CHECKS, lambda door, book, play: check_node(NodeTalk(door, book, play)))
CLIENT = PeerKind("/ws/session", CLIENT_CHECKS, lambda door, book, play: check_client(ClientTalk(door, book, play)))


@click.group(cls=Group)
def conformance() -> None:
    """Test a node or a client in any language against the protocol.

    Plays a scheduler that follows a script: it cuts connections, sends unknown messages and fields, and sends messages
    twice. Afterwards each requirement is passed, failed (with what was expected and what came), not tested, or not
    reached; see docs/write-a-node.md.

    \b
    lingua conformance node
    lingua conformance client --command "node client.mjs"
    """


def _options(command: Callable[..., None]) -> Callable[..., None]:
    about_command = f"Command that starts the program; the address is in {URL_VARIABLE}. Its end is tested, too."
    for option in (
        click.option("--json", "as_json_too", is_flag=True, help="Output JSON."),
        click.option("--wait", default=120.0, show_default=True, help="Seconds to wait for the first connection."),
        click.option("--patience", default=10.0, show_default=True, help="Seconds to wait for an answer."),
        click.option("--command", default="", help=about_command),
        click.option(
            "--profile",
            type=click.Choice([one.value for one in PeerProfile]),
            default=PeerProfile.STANDARD.value,
            show_default=True,
            help="existing: leave out what programs for earlier schedulers cannot meet.",
        ),
        click.option(
            "--port", type=click.IntRange(0, 65_535), default=5011, show_default=True, help="0 = any free one."
        ),
    ):
        command = option(command)
    return command


@conformance.command("node")
@_options
@click.option("--audio", type=click.Path(path_type=Path), help="Speech for the jobs, a WAV file; default: English.")
def node(audio: Path | None, **options: Any) -> None:
    """Test a node: point it at the address that is printed.

    Without --command the kit cannot start the node again, so how it ends is not tested. Exit code 0 if every
    requirement was tested and met, 1 if not.

    \b
    lingua conformance node
    lingua conformance node --command "python my_node.py" --json
    """
    _test(NODE, _speech(audio), options)


@conformance.command("client")
@_options
def client(**options: Any) -> None:
    """Test a client: point it at the address that is printed, and let it keep speaking.

    Short sentences are best, one or two seconds each. With --command, what it prints is searched for translations:
    each must be there once; without it, that and how the client ends are not tested. Exit code 0 if every requirement
    was tested and met, 1 if not.

    \b
    lingua conformance client
    lingua conformance client --command "node client.mjs" --profile existing
    """
    _test(CLIENT, b"", options)


def _speech(path: Path | None) -> bytes:
    if path is None:
        return spoken_sample().samples
    try:
        return wav.read(path)
    except wav.BadSound as error:
        fail(str(error), Exit.SETTINGS)


def _test(kind: PeerKind, audio: bytes, options: dict[str, Any]) -> None:
    book = Book(kind.checks, PeerProfile(options["profile"]))
    try:
        asyncio.run(_run(kind, book, audio, options))
    except OSError as error:
        fail(f"port {options['port']} cannot be used: {error.strerror or error}; choose another with --port", Exit.PORT)
    except KeyboardInterrupt:
        book.not_reached("interrupted")
    if options["as_json_too"]:
        click.echo(json.dumps(as_json(book), ensure_ascii=False))
    else:
        _show(book)
    if not book.conforms:
        raise SystemExit(Exit.FOUND)


async def _run(kind: PeerKind, book: Book, audio: bytes, options: dict[str, Any]) -> None:
    async with listening(HOST, options["port"], kind.path) as door, contextlib.AsyncExitStack() as stack:
        url = f"ws://{HOST}:{door.port}{kind.path}"
        program = None
        if options["command"]:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            program = Program(options["command"], url, Path(folder) / "output")
            stack.push_async_callback(program.stop)
            await program.start()
        else:
            click.echo(f"waiting for a connection to {url} …", err=True)
        play = Play(
            book.profile,
            options["patience"],
            options["wait"],
            audio,
            lambda name: click.echo(f"… {name}", err=True),
            program,
        )
        await kind.script(door, book, play)
        if program is not None and not book.conforms:
            click.echo(plain_lines(f"output of the program:\n{program.output()[-2000:]}"), err=True)


def _show(book: Book) -> None:
    for one in book.results:
        click.echo(click.style(f"{one.verdict:<14}", fg=_COLOURS.get(one.verdict)) + f" {one.check.name}")
        for line in _details(one):
            click.echo(plain_lines(f"               {line}"))
    counts = ", ".join(f"{len(book.of(verdict))} {verdict}" for verdict in CheckVerdict if book.of(verdict))
    click.echo(f"{outcome(book)} ({book.profile}): {counts}")


def outcome(book: Book) -> str:
    if book.conforms:
        return "conforms"
    if book.of(CheckVerdict.FAILED) or book.of(CheckVerdict.NOT_REACHED):
        return "does not conform"
    return f"nothing failed, but not everything was tested: {NEEDS_COMMAND}"


def _details(one: CheckResult) -> list[str]:
    if one.verdict is CheckVerdict.FAILED:
        page = f"docs/{one.check.anchor}"
        return [one.check.must.replace("`", ""), f"expected {one.expected}", f"came     {one.came}", f"see      {page}"]
    return [one.why] if one.why else []
