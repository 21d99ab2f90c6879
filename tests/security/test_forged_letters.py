"""Another client of Redis writes into the inboxes of running instances: rubbish, forgeries and copied letters."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from statistics import median, quantiles
from time import perf_counter
from typing import Any, NamedTuple

import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.protocol.bus import Finished, ForwardedRequest, encode
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.store.cluster.inbox import InboxEntry
from lingua_scheduler.store.store import Store
from tests.support.peers import FakeClient, FakeNode, Frame, answer, field, result_of
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

KEYRING = Keyring([bytes(range(32))])
FLOOD = 2_000
DEEP = b"\x82\xa4kind\xacattempt_lost\xa5depth" + b"\x91" * 3_000 + b"\x01"
NO_TEXT = b"\x83\xa4kind\xacattempt_lost\xa6reason\xa2\xff\xfe\xa7attempt\x94\xa1j\x01\xa1n\x00"


class Scene(NamedTuple):
    """A client at instance a, a node at instance b, and what passes between them by letter."""

    a: Scheduler
    b: Scheduler
    store: Store
    client: FakeClient
    node: FakeNode
    # Every letter so far and where it went, as one who reads Redis's traffic sees it.
    copied: list[tuple[str, InboxEntry]]
    numbers: Iterator[int]

    async def write(self, to: str, *words: Any) -> None:
        await self.store.line.call("XADD", self.store.keys.inbox(to), "*", *words)

    async def repeat(self, to: str, entry: InboxEntry) -> None:
        words = {"kind": entry.kind, "sender": entry.sender, "uid": entry.uid, "body": entry.body}
        await self.write(to, *(word for pair in words.items() for word in pair))

    async def is_read(self) -> bool:
        """Whether everything that lay in the inboxes is done."""
        depths = [await self.store.inboxes.depth(name) for name in "ab"]
        return not any(depth.letters for depth in depths)

    async def speak(self, times: int = 1) -> list[float]:
        taken = []
        for _ in range(times):
            began = perf_counter()
            await self.client.utterance(next(self.numbers))
            outcome = await self.client.outcome()
            assert outcome["type"] == "translation_result", outcome
            taken.append((perf_counter() - began) * 1000)
        return taken


@asynccontextmanager
async def scene(url: str, keyring: Keyring | None, **changes: Any) -> AsyncIterator[Scene]:
    async with (
        scheduler_on(url, None, keyring, server__instance_id="a", **changes) as (a, store),
        scheduler_on(url, None, keyring, server__instance_id="b", **changes) as (b, other),
        field(a.port) as at_a,
        field(b.port) as at_b,
    ):
        for scheduler in (a, b):
            await scheduler.presence.look()
        copied: list[tuple[str, InboxEntry]] = []
        for watched in (store, other):
            watch(watched, copied)
        node = await at_b.node(node_id="far")
        client = await at_a.client()
        numbers = count()

        async def is_known() -> bool:
            await client.utterance(next(numbers))
            return bool((await client.outcome())["type"] == "translation_result")

        await until(is_known)
        yield Scene(a, b, store, client, node, copied, numbers)


def watch(store: Store, copied: list[tuple[str, InboxEntry]]) -> None:
    post = store.inboxes.post

    def copy(to: str, letter: InboxEntry, limits: Any) -> Any:
        copied.append((to, letter))
        return post(to, letter, limits)

    store.inboxes.post = copy  # type: ignore[method-assign]


async def test_copied_letters_change_nothing(server: RedisProcess) -> None:
    """The order of an attempt that is over is not given to its node again."""
    async with scene(server.url, KEYRING) as there:
        await there.speak(5)
        copied, jobs = list(there.copied), len(there.node.jobs)
        assert {entry.kind for _, entry in copied} >= {"assign", "finished"}
        outcomes = len(there.client.socket.of_type("translation_result"))
        for to, entry in copied:
            await there.repeat(to, entry)
        await until(there.is_read)
        await there.speak()
        assert len(there.node.jobs) == jobs + 1
        assert len(there.client.socket.of_type("translation_result")) == outcomes + 1


async def test_copied_orders_do_not_disturb_an_attempt_that_runs(server: RedisProcess) -> None:
    async with scene(server.url, KEYRING) as there:
        go_on = asyncio.Event()

        async def work(node: FakeNode, job: Frame) -> None:
            await go_on.wait()
            await answer(node, job)

        there.node.work = work
        jobs = len(there.node.jobs)
        speaking = asyncio.create_task(there.speak())
        await until(lambda: len(there.node.jobs) == jobs + 1)
        for to, entry in list(there.copied):
            await there.repeat(to, entry)
        await until(there.is_read)
        go_on.set()
        await speaking
        assert len(there.node.jobs) == jobs + 1


def rubbish(copied: list[tuple[str, InboxEntry]]) -> Iterator[tuple[str, list[Any]]]:
    """What another client of Redis may write, without the key; without end."""
    orders = [entry for to, entry in copied if to == "b"]
    for number in count():
        entry = orders[number % len(orders)]
        uid, body = f"{entry.uid}{number:x}", entry.body
        yield from (
            ("b", ["a", "b"]),
            ("b", words("", "", "", b"")),
            ("b", words("\udcff" * 3, "\udcfe", "\udcfd", os.urandom(64))),
            ("b", words("assign", "a", uid, b"\xc1")),
            ("b", words("assign", "a", uid, b"\xc1" + os.urandom(200))),
            ("b", words("assign", "a", entry.uid, body[: len(body) // 2])),
            ("b", words("assign", "a", entry.uid, body[:-1] + bytes([body[-1] ^ 1]))),
            ("b", words("finished", "a", entry.uid, body)),
            ("b", words("assign", "b", entry.uid, body)),
            ("b", words("assign", "a", uid, body)),
            ("a", words("assign", "a", entry.uid, body)),
            ("a", words("finished", "b", f"x-{number:x}", b"\x81\xa4kind\xa8finished")),
            ("a", words("cancel_attempt", "a" * 2_000, "u" * 2_000, b"\x90" * 4_000)),
            ("a", words("attempt_lost", "b", f"d-{number:x}", DEEP)),
            ("a", words("attempt_lost", "b", f"e-{number:x}", NO_TEXT)),
        )


def words(kind: str, sender: str, uid: str, body: bytes) -> list[Any]:
    text = [part.encode("utf-8", "surrogateescape") for part in (kind, sender, uid)]
    return ["kind", text[0], "sender", text[1], "uid", text[2], "body", body]


@pytest.mark.expects_surprise("letter.dead")
async def test_an_honest_conversation_goes_on_beside_rubbish_in_the_inboxes(server: RedisProcess) -> None:
    """Each becomes a dead letter, of which there are so many at most; those behind it are handled."""
    async with scene(server.url, KEYRING) as there:
        before = await there.speak(100)
        copied, jobs = list(there.copied), len(there.node.jobs)
        flood = rubbish(copied)

        async def write() -> None:
            for _ in range(FLOOD // 20):
                await asyncio.gather(*(there.write(to, *some) for to, some in (next(flood) for _ in range(20))))

        writing, during = asyncio.create_task(write()), list[float]()
        while not writing.done() or len(during) < 10:
            during += await there.speak()
        await writing
        await until(there.is_read)
        tell("rubbish in the inboxes", before, during)
        assert len(there.node.jobs) == jobs + len(during)
        dead = [(await there.store.inboxes.depth(name)).dead for name in "ab"]
        assert sum(dead) == FLOOD
        await there.speak(5)


def forgery(there: Scene, job: Frame, text: str) -> Finished:
    """A result that its node did not send."""
    attempt = Attempt(job["job_id"], job["attempt_id"], there.node.node_id, 0)
    result = result_of(job, there.node.node_id, text_translated=text)
    return Finished(attempt=attempt, frame=json.dumps(result).encode())


@pytest.mark.expects_surprise("letter.dead")
async def test_where_everything_is_sealed_no_result_is_forged(server: RedisProcess) -> None:
    async with scene(server.url, KEYRING, privacy__seal_letters="always") as there:
        go_on = asyncio.Event()

        async def work(node: FakeNode, job: Frame) -> None:
            await go_on.wait()
            await answer(node, job)

        there.node.work = work
        jobs = len(there.node.jobs)
        await there.client.utterance(next(there.numbers))
        await until(lambda: len(there.node.jobs) == jobs + 1)
        forged = forgery(there, there.node.jobs[-1], "forged")
        await there.write("a", *words(forged.kind, "b", "life-1", encode(forged)))
        await until(there.is_read)
        go_on.set()
        assert (await there.client.outcome())["text_translated"].startswith("said")


@pytest.mark.expects_surprise("request.failed")
async def test_no_letter_asks_for_what_only_operators_do(server: RedisProcess) -> None:
    """Only requests about nodes over HTTP and results are forwarded, so no others are answered."""
    async with scene(server.url, KEYRING) as there:
        path = {"node_id": there.node.node_id}
        for number, verb in enumerate(("drain", "evict")):
            forged = ForwardedRequest(f"r{number}", "b", f"POST /v1/nodes/{{node_id}}/{verb}", path, b"{}", b"null")
            await there.write("b", *words(forged.kind, "a", f"life-{number}", encode(forged)))
        await until(there.is_read)
        await until(lambda: not there.b._forwarding.running)
        assert [view.state for view in await there.store.node_views.all()] == ["ready"]
        await there.speak()


def tell(what: str, before: list[float], during: list[float]) -> None:
    ratio = median(during) / median(before)
    worst = [quantiles(taken, n=100)[98] for taken in (before, during)]
    print(
        f"{what}: median {median(before):.1f} ms before, {median(during):.1f} during: x {ratio:.2f}; "
        f"p99 {worst[0]:.1f} before, {worst[1]:.1f} during, {len(during)} answers"
    )
