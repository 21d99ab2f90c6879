"""Rooms on one or more instances, and clients of them: existing pages, and readers of everything newer."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

import aiohttp

from lingua_scheduler.app import Scheduler
from lingua_scheduler.store.store import Store
from tests.support.field_room import RoomPage
from tests.support.peers import Frame
from tests.support.schedulers import scheduler_on
from tests.support.waiting import until

READS = {"room_events": True}
LISTENS = {"listen_only": True, **READS}


class RoomReader(RoomPage):
    """A newer client: it reads events of rooms, and sends no voice."""

    def __init__(self, http: aiohttp.ClientSession, port: int, *, query: str = "") -> None:
        super().__init__(http, port, query=query)
        self.is_mute = True

    async def start(self, **init: Any) -> "RoomReader":
        await super().start(**{"platform": "test", **init})
        return self

    async def ready(self, **init: Any) -> "RoomReader":
        await super().ready(**init)
        return self

    async def create(self, **fields: Any) -> str:
        return await super().create(**{**READS, **fields})

    async def enter(self, code: str, **fields: Any) -> None:
        await super().enter(code, **{**READS, **fields})

    @property
    def guests(self) -> int:
        """How many there are, as it was told last."""
        lists = self.of("room_members")
        return int(lists[-1].get("guests", 0)) if lists else 0

    @property
    def texts(self) -> list[str]:
        return [frame["text"] for frame in self.of("room_message")]

    @property
    def past(self) -> list[Frame]:
        """The lines of the history that it got last."""
        told = self.of("room_history")
        return list(told[-1]["lines"]) if told else []

    async def say(self, text: str) -> None:
        await self.send("room_say", room_code=self.code, text=text)

    async def update(self, **fields: Any) -> None:
        await self.send("room_update", room_code=self.code, **fields)

    async def heartbeat(self) -> None:
        """Everything before it has been handled."""
        before = len(self.of("server_heartbeat"))
        await self.send("client_heartbeat", session_id=self.session_id, timestamp=1)
        await until(lambda: len(self.of("server_heartbeat")) > before)


class House:
    """Schedulers on one Redis; pages connect to one after the other."""

    def __init__(self, schedulers: list[tuple[Scheduler, Store]], http: aiohttp.ClientSession) -> None:
        self.schedulers = schedulers
        self.http = http
        self.pages: list[RoomPage] = []
        self._turns = count()

    @property
    def store(self) -> Store:
        return self.schedulers[0][1]

    def page(self, at: int | None = None) -> RoomPage:
        page = RoomPage(self.http, self._port(at))
        self.pages.append(page)
        return page

    async def reader(self, at: int | None = None, **init: Any) -> RoomReader:
        reader = RoomReader(self.http, self._port(at))
        self.pages.append(reader)
        return await reader.ready(**init)

    def _port(self, at: int | None) -> int:
        number = next(self._turns) if at is None else at
        return self.schedulers[number % len(self.schedulers)][0].port

    async def look(self) -> None:
        """As the chore does, now."""
        for scheduler, _ in self.schedulers:
            await scheduler._rooms.keeper.look()


Open = Callable[..., Awaitable[House]]


@asynccontextmanager
async def opening(url: str, usual: int) -> AsyncIterator[Open]:
    """`usual`: how many instances a house has, unless it is said otherwise."""
    async with AsyncExitStack() as stack:

        async def opened(instances: int = usual, **changes: object) -> House:
            all_of_them = [await stack.enter_async_context(scheduler_on(url, **changes)) for _ in range(instances)]
            http = await stack.enter_async_context(aiohttp.ClientSession())
            house = House(all_of_them, http)
            stack.push_async_callback(_close, house)
            return house

        yield opened


async def _close(house: House) -> None:
    for page in house.pages:
        await page.close()
