"""Our own peers meet every requirement of the conformance kit; peers of the first generation those of theirs."""

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lingua_scheduler.conformance.book import Book, CheckVerdict
from lingua_scheduler.conformance.checks import CLIENT_CHECKS, NODE_CHECKS, PeerProfile
from lingua_scheduler.conformance.client_script import check_client
from lingua_scheduler.conformance.client_talk import ClientTalk
from lingua_scheduler.conformance.listening import Entrance, listening
from lingua_scheduler.conformance.node_script import check_node
from lingua_scheduler.conformance.node_talk import NodeTalk
from lingua_scheduler.conformance.play import PeerProgram, Play
from lingua_scheduler.conformance.program import URL_VARIABLE, Program
from tests.e2e.test_other_nodes import TOOLS
from tests.e2e.test_other_nodes import command as example
from tests.support.field_node import FieldNode
from tests.support.field_phone import FieldPhone
from tests.support.field_speech import pcm16, say
from tests.support.tones import tone
from tools.docs import ROOT

PATIENT_S = 60.0
TONE = tone(440, 16_000, 0.5).tobytes()
SPEECH = pcm16(say("the weather is nice and the train is late today"))
# It speaks until it is dismissed, and prints what it hears.
CLIENT = """
import asyncio, os
from lingua_sdk.client import Client

async def speak(client, is_whole):
    while True:
        if is_whole:
            await client.utterance(bytes([1, 2]) * 800)
        else:
            await client.send(bytes([1, 2]) * 800)
            await client.final()
        await asyncio.sleep(0.05)

async def main():
    address = os.environ["LINGUA_URL"].removesuffix("/ws/session")
    async with Client(address, "en", "zh") as client:
        speaking = asyncio.create_task(speak(client, {is_whole}))
        try:
            async for result in client.results():
                print(getattr(result, "translated", ""), flush=True)
        finally:
            speaking.cancel()

asyncio.run(main())
"""


def told(book: Book) -> list[tuple[str, str, str, str]]:
    """What was not met, or not tested."""
    good = (CheckVerdict.PASSED, CheckVerdict.NOT_APPLICABLE)
    return [(one.check.name, one.expected, one.came, one.why) for one in book.results if one.verdict not in good]


@asynccontextmanager
async def running(door: Entrance, path: str, command: str, folder: Path) -> AsyncIterator[Program]:
    program = Program(command, f"ws://127.0.0.1:{door.port}{path}", folder / "output")
    await program.start()
    try:
        yield program
    finally:
        await program.stop()


async def node_book(
    door: Entrance, profile: PeerProfile, program: PeerProgram | None = None, audio: bytes = TONE
) -> Book:
    book = Book(NODE_CHECKS, profile)
    await check_node(NodeTalk(door, book, Play(profile, PATIENT_S, 90.0, audio, lambda _: None, program)))
    return book


async def client_book(door: Entrance, profile: PeerProfile, program: PeerProgram | None = None) -> Book:
    book = Book(CLIENT_CHECKS, profile)
    await check_client(ClientTalk(door, book, Play(profile, PATIENT_S, 90.0, b"", lambda _: None, program)))
    return book


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sdk", "simulated"])
async def test_a_node_of_ours_conforms(name: str, tmp_path: Path) -> None:
    script = shlex.quote(str(ROOT / "examples" / "node.py"))
    words = {
        "sdk": f'{sys.executable} {script} "${{{URL_VARIABLE}%/ws/node}}"',
        "simulated": f'{sys.executable} -m lingua_scheduler node --engine sim --url "${{{URL_VARIABLE}%/ws/node}}"',
    }
    async with listening("127.0.0.1", 0, "/ws/node") as door:
        async with running(door, "/ws/node", words[name], tmp_path) as program:
            book = await node_book(door, PeerProfile.STANDARD, program)
    assert told(book) == [], program.output()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", TOOLS)
async def test_the_example_in_another_language_conforms(name: str, tmp_path: Path) -> None:
    # The address is in the environment.
    words = shlex.join(await example(name, tmp_path))
    async with listening("127.0.0.1", 0, "/ws/node") as door:
        async with running(door, "/ws/node", words, tmp_path) as program:
            book = await node_book(door, PeerProfile.STANDARD, program)
    assert told(book) == [], program.output()


@pytest.mark.slow
@pytest.mark.parametrize("is_whole", [False, True])
async def test_the_client_of_the_sdk_conforms(is_whole: bool, tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(CLIENT.replace("{is_whole}", str(is_whole)))
    async with listening("127.0.0.1", 0, "/ws/session") as door:
        async with running(door, "/ws/session", shlex.join([sys.executable, str(script)]), tmp_path) as program:
            book = await client_book(door, PeerProfile.STANDARD, program)
    assert told(book) == [], program.output()
    assert "shows-once" in book.of(CheckVerdict.PASSED)


@pytest.mark.slow
async def test_a_node_of_the_first_generation_conforms_to_its_profile() -> None:
    async with listening("127.0.0.1", 0, "/ws/node") as door:
        node = FieldNode(door.port, 0.001, heartbeat_s=0.2, reconnect_s=(0.1, 0.4))
        node.open()
        try:
            book = await node_book(door, PeerProfile.EXISTING, audio=SPEECH)
        finally:
            await node.stop()
    assert told(book) == []


@pytest.mark.slow
async def test_the_first_mobile_app_conforms_to_its_profile() -> None:
    async with listening("127.0.0.1", 0, "/ws/session") as door:
        phone = FieldPhone(door.port, reconnect_s=0.1)
        phone.open()

        async def speak() -> None:
            while True:
                await phone.say("the weather is nice and the train is late today")

        speaking = asyncio.create_task(speak())
        try:
            book = await client_book(door, PeerProfile.EXISTING)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
            await phone.stop()
    assert told(book) == []
