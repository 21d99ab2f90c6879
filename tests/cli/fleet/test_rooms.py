"""`lingua room` on a real scheduler."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from click.testing import CliRunner

from lingua_scheduler.app import Scheduler
from lingua_scheduler.cli.main import main
from tests.support.field_room import RoomPage
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

SETTINGS = 2


@pytest.fixture
async def scheduler(server: RedisProcess) -> AsyncIterator[Scheduler]:
    async with scheduler_on(server.url) as (found, _):
        yield found


@pytest.fixture
async def pages(scheduler: Scheduler) -> AsyncIterator[list[RoomPage]]:
    """Two in one room, and one in another."""
    async with aiohttp.ClientSession() as http:
        found = [await RoomPage(http, scheduler.port).ready() for _ in range(3)]
        await found[1].enter(await found[0].create(display_name="Ann", preferred_lang="zh"))
        await found[2].create(preferred_lang="ja")
        await scheduler._rooms.overseer.note()
        yield found
        for page in found:
            await page.close()


async def lingua(scheduler: Scheduler, *arguments: str) -> tuple[int, str]:
    """In a thread: a command has an event loop of its own."""
    words = ["room", *arguments, "--url", f"127.0.0.1:{scheduler.port}"]
    found = await asyncio.to_thread(CliRunner().invoke, main, words)
    return found.exit_code, found.output


def room_id(page: RoomPage) -> str:
    found: str = page.of("room_create_ack")[0]["room_id"]
    return found


async def test_rooms_are_listed_with_their_languages(scheduler: Scheduler, pages: list[RoomPage]) -> None:
    code, shown = await lingua(scheduler, "list")
    assert code == 0
    assert all(word in shown for word in (room_id(pages[0]), pages[0].code, room_id(pages[2]), "en:1 zh:1", "ja:1"))
    found = json.loads((await lingua(scheduler, "list", "--json"))[1])["rooms"]
    assert sorted(room["members"] for room in found) == [1, 2]
    code, shown = await lingua(scheduler, "list", "--limit", "1")
    assert (code, "there are more" in shown) == (0, True)
    assert len(json.loads((await lingua(scheduler, "list", "--limit", "1", "--json"))[1])["rooms"]) == 1


async def test_the_members_of_a_room_are_shown_by_id_or_code(scheduler: Scheduler, pages: list[RoomPage]) -> None:
    for name in (room_id(pages[0]), pages[0].code):
        code, shown = await lingua(scheduler, "members", name)
        assert code == 0
        assert all(page.session_id[:10] in shown for page in pages[:2])
        assert "host" in shown
        assert "Ann" not in shown
    assert len(json.loads((await lingua(scheduler, "members", pages[0].code, "--json"))[1])["members"]) == 2


async def test_a_room_is_closed_once(scheduler: Scheduler, pages: list[RoomPage]) -> None:
    number = pages[0].code
    # As the pages show it.
    spaced = f"{number[:3]} {number[3:]}"
    assert await lingua(scheduler, "close", spaced) == (0, f"room {room_id(pages[0])} is closed\n")
    await until(lambda: all(page.of("room_expired") for page in pages[:2]))
    code, words = await lingua(scheduler, "close", room_id(pages[0]))
    assert (code, "or it has ended; lingua room list" in words) == (SETTINGS, True)
    code, words = await lingua(scheduler, "close", number)
    assert (code, "no room with the code" in words) == (SETTINGS, True)
    closed = json.loads((await lingua(scheduler, "close", room_id(pages[2]), "--json"))[1])
    assert closed == {"room_id": room_id(pages[2]), "outcome": "closed"}


async def test_without_rooms_there_is_a_sentence(scheduler: Scheduler) -> None:
    assert await lingua(scheduler, "list") == (0, "no room is open\n")


@pytest.mark.parametrize("verb", ["members", "close"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("abc", "neither the code of a room (six digits"),
        ("a/b", "neither the code of a room (six digits"),
        ("000000", "neither the code of a room (six digits"),
        ("999999", "no room with the code 999999"),
        ("9b2d6c0e-6f0e-4c55-8b0a-3f0f7a1f0a11", "there is no room 9b2d6c0e-6f0e-4c55-8b0a-3f0f7a1f0a11, or it has"),
    ],
)
async def test_a_room_that_does_not_exist_is_a_mistake_in_the_input(
    scheduler: Scheduler, verb: str, name: str, words: str
) -> None:
    code, said = await lingua(scheduler, verb, name)
    assert (code, words in said) == (SETTINGS, True), said
