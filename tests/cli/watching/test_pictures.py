"""Following a scheduler through hang-ups, refusals and rubbish, over real sockets."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from lingua_scheduler.cli.watching.pictures import understood, watch
from lingua_scheduler.domain.watching.following import Seen
from lingua_sdk import http_request, watching
from lingua_sdk.domain.backoff import Backoff
from lingua_sdk.http import Refused, Unreadable, get
from lingua_sdk.watching import Connected, Interrupted, StreamMessage
from tests.support.waiting import until
from tests.support.watched import event, node, watched


def test_messages_of_the_future_are_passed_over_and_rubbish_is_not() -> None:
    assert understood(StreamMessage("weather", b"sunny")) is None
    with pytest.raises(Unreadable):
        understood(StreamMessage("change", b"{}"))


async def following(stream: Any, said: list[Any]) -> None:
    async for one in stream:
        said.append(one)


def kinds(said: list[Any]) -> list[str]:
    return [one.event if isinstance(one, StreamMessage) else type(one).__name__ for one in said]


async def test_a_picture_is_kept_up_to_date() -> None:
    async with watched() as scheduler:
        stream = watch(scheduler.url, seen := Seen())
        async with aclosing(stream):
            said: list[Any] = []
            task = asyncio.create_task(following(stream, said))
            await until(lambda: scheduler.watchers)
            await scheduler.change(nodes={"node-3": node("node-3"), "node-1": None})
            await until(lambda: seen.picture is not None and seen.picture.serial == 2)
            assert seen.picture is not None
            assert [found.node_id for found in seen.picture.nodes] == ["node-2", "node-3"]
            assert kinds(said) == ["Connected", "picture", "change"]
            task.cancel()
            await asyncio.wait((task,))


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("hang up", ""),
        ("event: change\ndata: rubbish\n\n", "unreadable change"),
        ("skip", "does not follow"),
    ],
)
async def test_it_comes_back_after_every_interruption(trouble: str, reason: str) -> None:
    async with watched() as scheduler:
        stream = watch(scheduler.url, seen := Seen())
        async with aclosing(stream):
            said: list[Any] = []
            task = asyncio.create_task(following(stream, said))
            await until(lambda: scheduler.watchers)
            if trouble == "hang up":
                scheduler.hang_up()
            elif trouble == "skip":
                await scheduler.change(serial=9)
            else:
                await scheduler.say(trouble)
            await until(lambda: kinds(said).count("picture") == 2)
            assert [one for one in kinds(said) if one != "change"] == [
                *("Connected", "picture", "Interrupted"),
                *("Connected", "picture"),
            ]
            (interrupted,) = [one for one in said if isinstance(one, Interrupted)]
            assert reason in interrupted.reason
            # As soon as the scheduler wishes, and no sooner.
            assert 0.01 <= interrupted.pause_s <= 0.02
            assert seen.picture == scheduler.picture
            task.cancel()
            await asyncio.wait((task,))


async def test_each_success_makes_the_next_pause_a_short_one() -> None:
    async with watched() as scheduler, aclosing(watch(scheduler.url)) as stream:
        pauses: list[float] = []
        while len(pauses) < 4:
            match await anext(stream):
                case Interrupted(_, pause_s, _):
                    pauses.append(pause_s)
                case StreamMessage():
                    await until(lambda: scheduler.watchers)
                    scheduler.hang_up()
        assert max(pauses) <= 0.02


async def test_pauses_grow_while_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "RETRIES", Backoff(0.001, 0.004))
    async with watched() as scheduler:
        url = scheduler.url
    pauses: list[float] = []
    async with aclosing(watch(url)) as stream:
        while len(pauses) < 5:
            said = await anext(stream)
            assert isinstance(said, Interrupted)
            assert (said.is_refusal, said.reason) == (False, "Connection refused")
            pauses.append(said.pause_s)
    assert pauses[0] <= 0.001
    assert pauses[2] >= 0.003
    assert max(pauses) <= 0.004


async def test_a_silent_scheduler_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_request, "SILENT_S", 0.1)
    async with watched() as scheduler, aclosing(watch(scheduler.url)) as stream:
        said = [await anext(stream) for _ in range(3)]
        assert kinds(said) == ["Connected", "picture", "Interrupted"]


async def test_a_refusal_is_told_in_the_words_of_the_scheduler() -> None:
    async with watched() as scheduler:
        scheduler.refusal = (503, {"error": "SERVICE_UNAVAILABLE", "detail": "200 others watch"})
        async with aclosing(watch(scheduler.url)) as stream:
            said = await anext(stream)
        assert isinstance(said, Interrupted)
        assert (said.is_refusal, said.reason) == (True, "SERVICE_UNAVAILABLE: 200 others watch")
        scheduler.refusal = (502, "rubbish")
        with pytest.raises(Refused, match="HTTP 502"):
            await get(scheduler.url, "/v1/picture")
        with pytest.raises(Refused, match="older than this command"):
            await get(scheduler.url, "/v1/nothing")


async def test_who_wants_events_alone_gets_nothing_else() -> None:
    async with watched() as scheduler, aclosing(watch(scheduler.url, only_events=True)) as stream:
        assert await anext(stream) == Connected()
        await until(lambda: scheduler.watchers)
        await scheduler.change(map_version=13)
        await scheduler.happen(event("node.left", "node-1"))
        said = await anext(stream)
        assert isinstance(said, StreamMessage)
        assert said.event == "events"
