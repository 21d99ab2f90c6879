"""Requests between instances: each is answered once, or its caller learns soon why not."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from lingua_scheduler.domain.cluster.instances import FORWARDING
from lingua_scheduler.protocol.bus import ForwardedAnswer, ForwardedRequest, encode
from lingua_scheduler.protocol.signals import RequestWithdrawn
from lingua_scheduler.services.cluster import forwarding
from lingua_scheduler.services.cluster.forwarding import Forwarding, Unanswered, new_request_id
from lingua_scheduler.services.cluster.mailroom import Posted
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from tests.support.mail import DEAD_MS, ROOMY, Office, letter, who
from tests.support.waiting import until


class Desk:
    """An instance that answers with what it was asked, when the test lets it."""

    def __init__(self, store: Store, name: str, **changes: int) -> None:
        self.office = Office(store, name, **changes)
        self.office.presence.me = self.office.presence.me._replace(abilities=FORWARDING)
        self.forwarding = Forwarding(self.office.mailroom, self.office.presence, store.signals)
        self.forwarding.answer = self.answer
        self.asked: list[str] = []
        self.left: list[Callable[[], bool]] = []
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def answer(self, request: ForwardedRequest, is_connected: Callable[[], bool]) -> ForwardedAnswer:
        self.asked.append(request.operation)
        self.left.append(is_connected)
        await self.go_on.wait()
        return ForwardedAnswer(request.request_id, 200, request.body)

    async def ask(self, owner: str, wait_s: float = 0.0, *, stays: bool = True) -> ForwardedAnswer | Unanswered:
        request = ForwardedRequest(new_request_id(), owner, "POST /x", body=b"hello")
        return await self.forwarding.ask(request, wait_s, lambda: stays)


@asynccontextmanager
async def desk(store: Store, name: str, **changes: int) -> AsyncIterator[Desk]:
    opened = Desk(store, name, **changes)
    await opened.office.mailroom.start()
    listening = asyncio.create_task(store.signals.listen({RequestWithdrawn: opened.forwarding.withdrawn}, name))
    try:
        await store.signals.listening.wait()
        yield opened
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await opened.forwarding.close()
        await opened.office.mailroom.stop()


async def test_an_answer_comes_back_to_the_one_who_asked(store: Store) -> None:
    async with desk(store, "i-a") as here, desk(store, "i-b") as there:
        answer = await here.ask("i-b")
        assert isinstance(answer, ForwardedAnswer)
        assert (answer.status, answer.body) == (200, b"hello")
        assert (there.asked, here.asked) == (["POST /x"], [])
        assert not here.forwarding._waiting
        await until(lambda: not there.forwarding.running)


async def test_an_answer_that_comes_twice_or_for_which_no_request_waits_changes_nothing(store: Store) -> None:
    async with desk(store, "i-a") as here:
        waiting, last = (asyncio.get_running_loop().create_future() for _ in range(2))
        here.forwarding._waiting.update({"r1": waiting, "r2": last})
        # The last of them comes behind the others: all of one sender are read in order.
        for number, name in enumerate(("r1", "r1", "nobody", "r2")):
            answer = ForwardedAnswer(name, 200 + number)
            await store.inboxes.post("i-a", letter(f"u{number}", encode(answer), answer.kind, "i-b"), ROOMY)
        assert (await last).status == 203
        assert (await waiting).status == 200

        async def is_read() -> bool:
            """All of it was handled: none is tried again, or dead."""
            letters = await store.inboxes.depth("i-a")
            return (letters.letters, letters.pending, letters.dead) == (0, 0, 0)

        await until(is_read)


async def test_an_instance_that_is_not_there_is_gone_at_once(store: Store) -> None:
    async with desk(store, "i-a") as here:
        assert await here.ask("i-never") is Unanswered.GONE


async def test_an_owner_that_dies_while_it_is_asked_is_gone(store: Store) -> None:
    async with desk(store, "i-a") as here:
        # It beats once and never reads its inbox.
        await store.inboxes.prepare("i-b")
        await store.instances.join(who("i-b")._replace(abilities=FORWARDING), DEAD_MS)
        async with asyncio.timeout(90):
            assert await here.ask("i-b", 30.0) is Unanswered.GONE


async def test_a_process_that_took_the_owners_name_has_not_what_it_had(store: Store) -> None:
    async with desk(store, "i-a", instances__dead_ms=60_000) as here:
        await store.inboxes.prepare("i-b")
        await store.instances.join(who("i-b")._replace(abilities=FORWARDING), 60_000)
        asking = asyncio.create_task(here.ask("i-b", 30.0))
        await until(lambda: here.forwarding._waiting)
        await store.instances.leave(who("i-b"), 60_000)
        await store.instances.join(who("i-b", "life-2")._replace(abilities=FORWARDING), 60_000)
        async with asyncio.timeout(90):
            assert await asking is Unanswered.GONE


async def test_a_letter_that_another_instance_adopts_tells_that_the_owner_is_gone(store: Store) -> None:
    async with desk(store, "i-a") as here:
        await store.inboxes.prepare("i-dead")
        waiting = here.forwarding._waiting["r1"] = asyncio.get_running_loop().create_future()
        request = ForwardedRequest("r1", "i-dead", "POST /x")
        await store.inboxes.post("i-dead", letter("u1", encode(request), request.kind, "i-a"), ROOMY)
        await store.instances.join(who("i-dead"), 1)
        assert (await asyncio.wait_for(waiting, 20)).status == 0
        assert not here.asked


async def test_while_an_older_release_is_alive_nothing_is_forwarded(store: Store) -> None:
    async with desk(store, "i-a") as here, desk(store, "i-b") as there:
        await store.instances.join(who("i-old"), DEAD_MS)
        await here.office.presence.look()
        assert await here.ask("i-b") is Unanswered.UNABLE
        assert not there.asked


async def test_an_owner_that_takes_too_long_is_late_and_hears_that_nobody_waits(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "MARGIN_S", 0.0)
    async with desk(store, "i-a") as here, desk(store, "i-b") as there:
        there.go_on.clear()
        assert await here.ask("i-b") is Unanswered.LATE
        await until(lambda: there.left and not there.left[0]())
        there.go_on.set()


async def test_a_caller_who_leaves_is_withdrawn(store: Store) -> None:
    async with desk(store, "i-a") as here, desk(store, "i-b") as there:
        there.go_on.clear()
        assert await here.ask("i-b", 30.0, stays=False) is Unanswered.LEFT
        await until(lambda: there.left and not there.left[0]())
        there.go_on.set()


async def test_too_many_requests_are_refused_and_not_sent(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "MAX_REQUESTS", 0)
    async with desk(store, "i-a") as here, desk(store, "i-b") as there:
        assert await here.ask("i-b") is Unanswered.BUSY
        assert not there.asked


async def test_a_request_that_comes_twice_is_answered_once(store: Store) -> None:
    async with desk(store, "i-b") as there:
        there.go_on.clear()
        for uid in ("u1", "u2"):
            request = ForwardedRequest("r1", "i-b", "POST /x")
            await store.inboxes.post("i-b", letter(uid, encode(request), request.kind, "i-gone"), ROOMY)
        await until(lambda: there.asked)

        async def is_read() -> bool:
            return (await store.inboxes.depth("i-b")).letters == 0

        await until(is_read)
        assert len(there.asked) == 1
        there.go_on.set()
        await until(lambda: not there.forwarding.running)


async def test_a_request_that_comes_again_after_its_answer_is_not_answered_again(store: Store) -> None:
    """A poll that is served twice takes a job for which no node waits."""
    async with desk(store, "i-b") as there:
        request = ForwardedRequest("r1", "i-b", "POST /v1/node/poll")
        for uid in ("life-1", "life-1", "life-2"):
            await store.inboxes.post("i-b", letter(uid, encode(request), request.kind, "i-a"), ROOMY)
            await until(lambda: not there.forwarding.running)
            await until(is_read(store))
        assert len(there.asked) == 2


def is_read(store: Store) -> Callable[[], Awaitable[bool]]:
    async def read() -> bool:
        return not (await store.inboxes.depth("i-b")).letters

    return read


async def test_one_that_answers_as_many_as_it_can_tells_others_to_come_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "MAX_REQUESTS", 1)
    async with desk(store, "i-a") as here, desk(store, "i-b") as there:
        there.go_on.clear()
        loop = asyncio.get_running_loop()
        waiting = [here.forwarding._waiting.setdefault(name, loop.create_future()) for name in ("r1", "r2")]
        for name in ("r1", "r2"):
            request = ForwardedRequest(name, "i-b", "POST /x", body=b"hello")
            await store.inboxes.post("i-b", letter(name, encode(request), request.kind, "i-a"), ROOMY)
        refused = await asyncio.wait_for(waiting[1], 20)
        assert (refused.status, refused.retry_after_s) == (503, 1)
        assert b"SERVICE_UNAVAILABLE" in refused.body
        there.go_on.set()
        taken = await asyncio.wait_for(waiting[0], 20)
        assert (taken.status, taken.body) == (200, b"hello")
        assert len(there.asked) == 1


async def test_one_that_stops_finishes_the_answers_it_has_begun(store: Store) -> None:
    async with desk(store, "i-a") as here, desk(store, "i-b") as there:
        there.go_on.clear()
        asking = asyncio.create_task(here.ask("i-b", 30.0))
        await until(lambda: there.asked)
        asyncio.get_running_loop().call_soon(there.go_on.set)
        await there.forwarding.close()
        assert not there.forwarding.running
        answer = await asyncio.wait_for(asking, 20)
        assert isinstance(answer, ForwardedAnswer)
        assert answer.body == b"hello"


async def test_one_that_stops_does_not_wait_long_for_an_answer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "CLOSE_TIMEOUT_S", 0.0)
    async with desk(store, "i-b") as there:
        there.go_on.clear()
        request = ForwardedRequest("r1", "i-b", "POST /x")
        await store.inboxes.post("i-b", letter("u1", encode(request), request.kind, "i-a"), ROOMY)
        await until(lambda: there.asked)
        await there.forwarding.close()
        assert not there.forwarding.running


@pytest.mark.parametrize(("posted", "why"), [(Posted.GONE, Unanswered.GONE), (Posted.FULL, Unanswered.BUSY)])
async def test_a_request_that_cannot_be_posted_is_not_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch, posted: Posted, why: Unanswered
) -> None:
    async with desk(store, "i-a") as here, desk(store, "i-b"):

        async def post(*_: object) -> Posted:
            return posted

        monkeypatch.setattr(here.office.mailroom, "post", post)
        assert await here.ask("i-b", 30.0) is why
        assert not here.forwarding._waiting


async def test_while_redis_does_not_say_who_is_alive_the_answer_is_waited_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "LOOK_EVERY_S", 0.01)
    async with desk(store, "i-a") as here, desk(store, "i-b") as there:
        there.go_on.clear()
        asking = asyncio.create_task(here.ask("i-b", 30.0))
        await until(lambda: there.asked)
        looks = 0

        async def away(*_: object) -> bool:
            nonlocal looks
            looks += 1
            raise RedisAway("gone at that moment")

        with monkeypatch.context() as patch:
            patch.setattr(here.office.presence, "is_alive", away)
            await until(lambda: looks > 1)
        there.go_on.set()
        answer = await asyncio.wait_for(asking, 20)
        assert isinstance(answer, ForwardedAnswer)
        assert answer.status == 200


async def test_an_answer_is_waited_for_ten_seconds_longer_than_its_caller_wants(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "LOOK_EVERY_S", 0.001)
    async with desk(store, "i-a", instances__dead_ms=60_000) as here, desk(store, "i-b") as there:
        there.go_on.clear()
        now_s, looks = 100.0, 0

        async def alive(*_: object) -> bool:
            nonlocal looks
            looks += 1
            return True

        here.forwarding._clock = lambda: now_s
        monkeypatch.setattr(here.office.presence, "is_alive", alive)
        asking = asyncio.create_task(here.ask("i-b", 5.0))
        await until(lambda: looks > 2)
        now_s, looks = 114.9, 0
        await until(lambda: looks > 2)
        assert not asking.done()
        now_s = 115.0
        assert await asyncio.wait_for(asking, 20) is Unanswered.LATE
        there.go_on.set()


async def test_twenty_thousand_requests_wait_at_once(store: Store) -> None:
    async with desk(store, "i-a") as here, desk(store, "i-b"):
        waiting = here.forwarding._waiting
        waiting.update((str(number), asyncio.get_running_loop().create_future()) for number in range(20_000))
        assert await here.ask("i-b") is Unanswered.BUSY
        del waiting["0"]
        assert isinstance(await here.ask("i-b"), ForwardedAnswer)
