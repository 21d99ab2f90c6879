"""Attempts between instances: what is said of them, and what becomes of it when it cannot be sent."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from structlog.testing import capture_logs

from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.domain.nodes.owners import Owner
from lingua_scheduler.protocol.bus import Assign, AttemptLost, CancelAttempt, Finished
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.protocol.signals import PartialHeard
from lingua_scheduler.services.attempts.assignments import Assignment, Assignments
from lingua_scheduler.services.attempts.ending import Endings
from lingua_scheduler.services.attempts.reports import Answered, LostAttempt
from lingua_scheduler.services.attempts.trails import Trails
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.cluster.mailroom import Mailroom, Posted
from lingua_scheduler.services.cluster.seals import Seals
from lingua_scheduler.services.dispatch import relay as relaying
from lingua_scheduler.services.dispatch.relay import Foreign, Relay
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_sdk.domain.losses import Loss
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import JobCancel, JobResult
from tests.support.connected import registered
from tests.support.fleet import dispatch, ledger, order
from tests.support.speech import work
from tests.support.traces import Collected, said
from tests.support.two_sides import Side, Telling, partial_of, side
from tests.support.waiting import until

ATTEMPT = Attempt("job-0-1", 1, "n1", 0)
THERE = Owner("i-there", "c1")
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Post:
    """A mailroom whose Redis may be away."""

    def __init__(self) -> None:
        self.handlers: dict[type, Any] = {}
        self.sent: list[tuple[str, Any]] = []
        self.is_away = False

    def handle(self, kind: type, handler: Any) -> None:
        self.handlers[kind] = handler

    def on_dead(self, handler: Any) -> None:
        self.buried = handler

    async def post(self, instance: str, message: Any) -> Posted:
        if self.is_away:
            raise RedisAway("gone at that moment")
        self.sent.append((instance, message))
        return Posted.SENT


def relay_by(post: Post, assignments: Assignments) -> Relay:
    nothing = cast("Any", None)
    return Relay(
        cast("Mailroom", cast("Any", post)),
        cast("Store", nothing),
        cast("NodeLinks", nothing),
        cast("Endings", nothing),
        assignments,
        lambda _work, _partial: None,
    )


async def test_an_order_that_redis_does_not_take_was_not_sent() -> None:
    post = Post()
    relay = relay_by(post, Assignments(lambda _step, _assignment: None))
    assert await relay.assign(THERE, ATTEMPT, b"{}", "00-trace") is Posted.SENT
    ((instance, letter),) = post.sent
    assert (instance, letter.attempt, letter.link_id, letter.frame) == ("i-there", ATTEMPT, "c1", b"{}")
    assert letter.traceparent == "00-trace"
    post.is_away = True
    assert await relay.assign(THERE, ATTEMPT, b"{}") is Posted.FULL


async def test_a_loss_told_by_letter_reaches_who_waits() -> None:
    post, assignments = Post(), Assignments(lambda _step, _assignment: None)
    relay_by(post, assignments)
    assignment = assignments.open(ATTEMPT, work(), "i-there")
    post.handlers[AttemptLost](AttemptLost(ATTEMPT, Loss.NODE_GONE), None)
    assert assignment.report == LostAttempt(Loss.NODE_GONE)


@pytest.mark.parametrize(
    "envelope",
    [Letter("u", "i-there", "assign", is_late=True), Letter("u", "i-there", "assign", is_repeat=True)],
    ids=["late", "repeat"],
)
@pytest.mark.parametrize("is_over", [True, False])
async def test_an_order_that_is_late_or_came_before_is_handed_over_only_if_its_attempt_goes_on(
    is_over: bool, envelope: Letter
) -> None:
    """Its owner may have taken us for dead and given the job to another node; or its result is there already."""
    handed: list[bytes] = []

    def post_frame(frame: bytes) -> bool:
        handed.append(frame)
        return True

    peer = SimpleNamespace(post_frame=post_frame)
    link = SimpleNamespace(owner=THERE, peer=peer, is_in_doubt=False, remember=lambda _attempt: None)

    async def asked(_attempt: Attempt) -> bool:
        return is_over

    async def leased(_attempt: Attempt) -> bool:
        return True

    post, nothing = Post(), cast("Any", None)
    Relay(
        cast("Mailroom", cast("Any", post)),
        cast("Store", cast("Any", SimpleNamespace(jobs=SimpleNamespace(is_over=asked, has_lease=leased)))),
        cast("NodeLinks", cast("Any", SimpleNamespace(find=lambda _node: link))),
        nothing,
        Assignments(lambda _step, _assignment: None),
        lambda _work, _partial: None,
    )
    order = Assign(attempt=ATTEMPT, link_id=THERE.link, frame=b"{}")
    rest = post.handlers[Assign](order, envelope)
    if rest is not None:
        await rest
    assert handed == ([] if is_over else [b"{}"])


# Two instances on one Redis


class Pair(NamedTuple):
    """A job of `here` on a node of `there`."""

    here: Side
    there: Side
    link: NodeLink
    socket: Telling

    async def place(self, serial: str = "1") -> tuple[Assignment, Attempt]:
        attempt, placed = await dispatch(self.here.store, order(serial))
        assert placed.owner == self.link.owner
        return self.here.assignments.open(attempt, work(), "i-there"), attempt

    async def send(self, serial: str = "1", link_id: str = "") -> tuple[Assignment, Attempt]:
        assignment, attempt = await self.place(serial)
        owner = Owner("i-there", link_id or self.link.owner.link)
        assert await self.here.relay.assign(owner, attempt, attempt.job_id.encode(), TRACEPARENT) is Posted.SENT
        return assignment, attempt


@pytest.fixture
async def pair(store: Store) -> AsyncIterator[Pair]:
    ring = Keyring([b"1" * 32])
    async with side(store, "i-there", ring) as there, side(store, "i-here", ring) as here:
        await there.mailroom._presence.look()
        socket = Telling()
        yield Pair(here, there, await registered(there.connected, socket), socket)


def result_of(attempt: Attempt) -> bytes:
    return codec.encode(
        JobResult(
            job_id=attempt.job_id,
            attempt_id=attempt.number,
            node_id=attempt.node_id,
            session_id="s-00000001",
            utterance_index=0,
            success=True,
            trace_id="t",
            text_translated="你好",
        )
    )


async def test_an_order_reaches_the_node_of_another_instance_once_and_its_result_comes_back(pair: Pair) -> None:
    assignment, attempt = await pair.send()
    await until(lambda: pair.socket.frames)
    assert attempt.job_id in pair.link.sent
    foreign = pair.there.relay.foreign(attempt.job_id, pair.link)
    assert foreign is not None
    assert (foreign.instance, foreign.attempt) == ("i-here", attempt)
    # The letter may be delivered again.
    again = Assign(attempt=attempt, link_id=pair.link.owner.link, frame=b"again")
    assert pair.there.relay._assigned(again, Letter("u", "i-here", "assign")) is None
    assert pair.socket.frames == [attempt.job_id.encode()]
    await pair.there.relay.finished("i-here", attempt, result_of(attempt))
    await until(lambda: assignment.report)
    assert isinstance(assignment.report, Answered)
    assert assignment.report.result.text_translated == "你好"
    assert pair.there.relay.foreign(attempt.job_id, pair.link) is None


async def test_the_job_of_another_attempt_is_an_order_of_its_own(pair: Pair) -> None:
    _, attempt = await pair.send()
    await until(lambda: pair.socket.frames)
    later = Assign(attempt=attempt._replace(number=2), link_id=pair.link.owner.link, frame=b"second")
    assert pair.there.relay._assigned(later, Letter("u", "i-here", "assign")) is None
    assert pair.socket.frames == [attempt.job_id.encode(), b"second"]


async def test_a_job_is_foreign_only_on_the_node_that_has_it(pair: Pair) -> None:
    _, attempt = await pair.send()
    await until(lambda: pair.socket.frames)
    other = await registered(pair.there.connected, node_id="n2", link_id="c2")
    assert pair.there.relay.foreign(attempt.job_id, other) is None


@pytest.mark.parametrize("is_there", [True, False])
async def test_an_order_for_a_connection_that_is_gone_is_lost_and_its_owner_is_told_at_once(
    pair: Pair, is_there: bool
) -> None:
    if not is_there:
        pair.there.links.drop(pair.link)
    assignment, attempt = await pair.send(link_id="c-former" if is_there else "")
    await until(lambda: assignment.report)
    assert assignment.report == LostAttempt(Loss.NODE_GONE)
    assert pair.socket.frames == []
    assert pair.there.freed == [attempt]
    assert (await ledger(pair.here.store, attempt.node_id))[0] == 0


async def test_an_order_that_the_socket_does_not_take_is_lost_and_its_owner_is_told_at_once(pair: Pair) -> None:
    pair.socket.is_open = False
    assignment, attempt = await pair.send()
    await until(lambda: assignment.report)
    assert assignment.report == LostAttempt(Loss.SEND_FAILED)
    assert (await ledger(pair.here.store, attempt.node_id))[0] == 0


async def test_an_order_that_comes_late_and_finds_nobody_is_lost_too(pair: Pair) -> None:
    assignment, attempt = await pair.place()
    late = Assign(attempt=attempt, link_id="c-former", frame=b"{}")
    rest = pair.there.relay._assigned(late, Letter("u", "i-here", "assign", deliveries=2))
    assert rest is not None
    await rest
    await until(lambda: assignment.report)
    assert assignment.report == LostAttempt(Loss.NODE_GONE)


async def test_a_cancelled_order_is_taken_back_from_the_node(pair: Pair) -> None:
    _, attempt = await pair.send()
    await until(lambda: pair.socket.frames)
    pair.here.relay.cancel(pair.link.owner, attempt, "cancelled")
    await until(lambda: pair.socket.messages)
    assert pair.socket.messages == [JobCancel(job_id=attempt.job_id, reason="cancelled")]
    assert attempt.job_id not in pair.link.sent
    assert pair.there.relay.foreign(attempt.job_id, pair.link) is None


async def test_a_cancellation_that_comes_late_leaves_a_later_attempt_at_the_same_node_alone(pair: Pair) -> None:
    _, attempt = await pair.send()
    await until(lambda: pair.socket.frames)
    later = attempt._replace(number=2)
    order_of_later = Assign(attempt=later, link_id=pair.link.owner.link, frame=b"second")
    pair.there.relay._assigned(order_of_later, Letter("u", "i-here", "assign"))
    pair.there.relay._cancelled(CancelAttempt(attempt=attempt, reason="job_timeout"), Letter("u", "i-here", "cancel"))
    assert pair.socket.messages == []
    foreign = pair.there.relay.foreign(attempt.job_id, pair.link)
    assert foreign is not None
    assert foreign.attempt == later


async def test_an_order_that_came_before_and_has_no_lease_any_more_is_lost(pair: Pair) -> None:
    _, attempt = await pair.place()
    await pair.here.store.line.call("FLUSHALL")
    repeat = Assign(attempt=attempt, link_id=pair.link.owner.link, frame=b"{}")
    rest = pair.there.relay._assigned(repeat, Letter("u", "i-here", "assign", is_repeat=True))
    assert rest is not None
    await rest
    assert pair.socket.frames == []


async def test_a_cancellation_for_a_node_that_is_gone_changes_nothing(pair: Pair) -> None:
    _, attempt = await pair.send()
    await until(lambda: pair.socket.frames)
    pair.there.links.drop(pair.link)
    pair.here.relay.cancel(pair.link.owner, attempt, "cancelled")
    await until(lambda: not pair.there.relay._foreign)
    assert pair.socket.messages == []


async def test_the_owner_hears_of_progress_and_of_partials(pair: Pair) -> None:
    assignment, attempt = await pair.send()
    await until(lambda: pair.socket.frames)
    foreign = pair.there.relay.foreign(attempt.job_id, pair.link)
    assert foreign is not None
    pair.there.relay.tell_advanced(foreign)
    await until(lambda: assignment.advances == 1)
    pair.there.relay.tell_partial(foreign, partial_of(attempt, "hel"))
    await until(lambda: pair.here.partials)
    assert pair.here.partials == [("s-00000001", "hel")]
    assert pair.there.partials == []


async def test_a_partial_that_cannot_be_read_or_is_not_awaited_is_dropped(pair: Pair) -> None:
    _, attempt = await pair.send()
    relay, seals = pair.here.relay, pair.there.mailroom.seals
    await until(lambda: pair.socket.frames)
    frame = codec.encode(partial_of(attempt, "hel")).decode()
    relay.heard(PartialHeard(attempt._replace(number=2), seals.signal("i-here", frame)))
    relay.heard(PartialHeard(attempt, seals.signal("i-elsewhere", frame)))
    stranger = Seals(pair.there.mailroom._presence, Keyring([b"2" * 32]), "always")
    relay.heard(PartialHeard(attempt, stranger.signal("i-here", frame)))
    relay.heard(PartialHeard(attempt, seals.signal("i-here", result_of(attempt).decode())))
    assert pair.here.partials == []
    relay.heard(PartialHeard(attempt, seals.signal("i-here", frame)))
    assert pair.here.partials == [("s-00000001", "hel")]


async def test_a_letter_that_is_no_result_settles_nothing(pair: Pair) -> None:
    assignment, attempt = await pair.send()
    frame = codec.encode(partial_of(attempt, "hel"))
    pair.here.relay._finished(Finished(attempt=attempt, frame=frame), Letter("u", "i-there", "finished"))
    assert assignment.report is None


async def test_of_too_many_foreign_jobs_the_oldest_is_forgotten(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaying, "MAX_FOREIGN", 1)
    _, first = await pair.send("1")
    _, second = await pair.send("2")
    await until(lambda: len(pair.socket.frames) == 2)
    assert pair.there.relay.foreign(first.job_id, pair.link) is None
    assert pair.there.relay.foreign(second.job_id, pair.link) is not None


@pytest.mark.expects_surprise("letter.dead")
async def test_an_order_that_cannot_be_read_ends_its_attempt_though_not_what_a_node_has_accepted(pair: Pair) -> None:
    assignment, attempt = await pair.place()
    dead = Assign(attempt=attempt, link_id="c1", frame=b"{}")
    await pair.there.relay._undeliverable(AttemptLost(attempt, Loss.NODE_GONE), Letter("u", "i-here", "lost"), "failed")
    assert (await ledger(pair.here.store, attempt.node_id))[0] == 1
    await pair.there.relay._undeliverable(dead, Letter("u", "i-here", "assign"), "failed")
    await until(lambda: assignment.report)
    assert assignment.report == LostAttempt(Loss.LETTER_DEAD)
    assert (await ledger(pair.here.store, attempt.node_id))[0] == 0


class Doors:
    """A mailroom that answers in this order; an error is raised."""

    def __init__(self, *answers: Posted | RedisAway) -> None:
        self.answers = list(answers)

    async def post(self, _instance: str, _message: object) -> Posted:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, RedisAway):
            raise answer
        return answer


async def finish(pair: Pair, doors: Doors, monkeypatch: pytest.MonkeyPatch) -> list[MutableMapping[str, Any]]:
    monkeypatch.setattr(pair.there.mailroom, "post", doors.post)
    monkeypatch.setattr(relaying, "TRY_AGAIN_S", 0.001)
    with capture_logs() as logged:
        await pair.there.relay.finished("i-here", ATTEMPT, b"{}")
    return [entry for entry in logged if entry["event"] == "result.undelivered"]


async def test_a_result_waits_for_room_in_a_full_inbox_and_for_redis(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    doors = Doors(Posted.FULL, Posted.FULL, RedisAway("gone"), RedisAway("gone"), Posted.SENT)
    assert await finish(pair, doors, monkeypatch) == []
    assert doors.answers == [Posted.SENT]


async def test_a_full_inbox_is_tried_again_after_a_pause_and_not_without_end(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses_s: list[float] = []
    sleep = asyncio.sleep

    async def noted(delay_s: float) -> None:
        pauses_s.append(delay_s)
        await sleep(0)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", noted)
        assert await finish(pair, Doors(Posted.FULL, Posted.FULL, Posted.SENT), monkeypatch) == []
    assert pauses_s.count(relaying.TRY_AGAIN_S) == 2


async def test_a_dead_owner_is_not_waited_for(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    doors = Doors(Posted.GONE, Posted.SENT)
    assert await finish(pair, doors, monkeypatch) == []
    assert doors.answers == [Posted.SENT]


@pytest.mark.parametrize("answer", [Posted.FULL, RedisAway("gone")])
async def test_a_result_that_finds_no_room_for_long_is_given_up(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, answer: Posted | RedisAway
) -> None:
    monkeypatch.setattr(relaying, "RESULT_PATIENCE_S", 0.05)
    monkeypatch.setattr(relaying, "AWAY_PATIENCE_S", 0.05)
    assert len(await finish(pair, Doors(answer), monkeypatch)) == 1


async def posts_while_redis_is_away(pair: Pair, monkeypatch: pytest.MonkeyPatch, back_after: int) -> int:
    """How often a result is posted, when each time takes five seconds."""
    clock_s, posts = 0.0, 0

    async def post(_instance: str, _message: object) -> Posted:
        nonlocal clock_s, posts
        clock_s, posts = clock_s + 5.0, posts + 1
        if posts > back_after:
            return Posted.SENT
        raise RedisAway("gone")

    monkeypatch.setattr(pair.there.relay, "_clock", lambda: clock_s)
    doors = Doors(Posted.SENT)
    monkeypatch.setattr(doors, "post", post)
    await finish(pair, doors, monkeypatch)
    return posts


async def test_redis_away_is_waited_for_longer_than_a_full_inbox_but_not_for_ever(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner cannot give the job up meanwhile."""
    assert await posts_while_redis_is_away(pair, monkeypatch, back_after=10) == 11
    assert await posts_while_redis_is_away(pair, monkeypatch, back_after=1000) == 120.0 / 5


async def test_news_that_redis_does_not_take_is_dropped(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline in Redis says the same, later."""

    def fail(*_: object, **__: object) -> None:
        raise RedisAway("gone")

    monkeypatch.setattr(pair.there.store.signals, "publish", fail)
    pair.there.relay.tell_advanced(Foreign("i-here", ATTEMPT))
    monkeypatch.setattr(pair.there.mailroom, "post", Doors(RedisAway("gone")).post)
    with capture_logs() as logged:
        pair.there.relay.tell_lost("i-here", ATTEMPT, Loss.NODE_GONE)
        await until(lambda: not len(pair.there.relay.letters))
    assert [entry["event"] for entry in logged] == ["letter.unsent"]


# What a trace shows of a job that passes through


async def test_the_passage_of_a_job_is_in_the_trace_of_its_owner(store: Store) -> None:
    collected = Collected()
    trails = Trails(collected.traces, "i-there")
    async with side(store, "i-there", trails=trails) as there, side(store, "i-here") as here:
        socket = Telling()
        pair = Pair(here, there, await registered(there.connected, socket), socket)
        _, done = await pair.send("1")
        await until(lambda: socket.frames)
        await there.relay.finished("i-here", done, result_of(done))
        _, cancelled = await pair.send("2")
        await until(lambda: len(socket.frames) == 2)
        here.relay.cancel(pair.link.owner, cancelled, "cancelled")
        await until(lambda: socket.messages)
        _, lost = await pair.send("3")
        await until(lambda: len(socket.frames) == 3)
        there.relay.tell_lost("i-here", lost, Loss.NODE_GONE)
        _, unheard = await pair.send("4", link_id="c-former")
        await until(lambda: len(collected.named("relay")) == 4)
    spans = {said(span)["lingua.job_id"]: span for span in collected.named("relay")}
    outcomes = {job: said(span)["lingua.outcome"] for job, span in spans.items()}
    assert outcomes == {
        done.job_id: "result",
        cancelled.job_id: "cancelled",
        lost.job_id: Loss.NODE_GONE,
        unheard.job_id: Loss.NODE_GONE,
    }
    assert [span.status.is_ok for span in spans.values()] == [True, False, False, False]
    one = spans[done.job_id]
    assert one.parent is not None
    assert f"{one.context.trace_id:032x}-{one.parent.span_id:016x}" in TRACEPARENT
    about = said(one)
    assert (about["lingua.instance"], about["lingua.sender"]) == ("i-there", "i-here")
    assert (about["lingua.attempt"], about["lingua.node_id"]) == (1, "n1")
    # The way to the node and back belongs to the first; the last never got to its node.
    inner = [(span.name, span.parent.span_id) for span in collected.spans if span.name != "relay" and span.parent]
    assert [name for name, parent in inner if parent == one.context.span_id] == ["relay.node", "relay.reply"]
    assert [name for name, parent in inner if parent == spans[lost.job_id].context.span_id] == ["relay.node"]
    assert not [name for name, parent in inner if parent == spans[unheard.job_id].context.span_id]


@pytest.mark.parametrize("has_lease", [True, False])
async def test_an_order_for_a_node_that_was_written_again_is_handed_over_only_with_its_lease(
    pair: Pair, has_lease: bool
) -> None:
    assignment, attempt = await pair.place()
    pair.link.doubt()
    if not has_lease:
        await pair.here.store.line.call("DEL", pair.here.store.keys.shard(0).leases)
    await pair.here.relay.assign(pair.link.owner, attempt, b"order")
    await until(lambda: pair.socket.frames or assignment.report)
    if has_lease:
        assert pair.socket.frames == [b"order"]
        assert pair.there.relay.foreign(attempt.job_id, pair.link) is not None
    else:
        assert assignment.report == LostAttempt(Loss.SEND_FAILED)
        assert pair.socket.frames == []


async def test_an_order_in_doubt_that_the_socket_does_not_take_is_lost_too(pair: Pair) -> None:
    assignment, attempt = await pair.place()
    pair.link.doubt()
    pair.socket.is_open = False
    await pair.here.relay.assign(pair.link.owner, attempt, b"order")
    await until(lambda: assignment.report)
    assert assignment.report == LostAttempt(Loss.SEND_FAILED)
    assert (await ledger(pair.here.store, attempt.node_id))[0] == 0


async def test_a_full_inbox_is_waited_for_ten_seconds(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s, posts = 0.0, 0

    async def post(_instance: str, _message: object) -> Posted:
        nonlocal clock_s, posts
        clock_s, posts = clock_s + 2.5, posts + 1
        return Posted.FULL

    monkeypatch.setattr(pair.there.relay, "_clock", lambda: clock_s)
    doors = Doors(Posted.FULL)
    monkeypatch.setattr(doors, "post", post)
    assert len(await finish(pair, doors, monkeypatch)) == 1
    assert posts == 4


async def test_a_dead_letter_is_told_to_the_relay() -> None:
    post, unsent = Post(), list[tuple[Attempt, str]]()

    class Ending:
        async def end_unsent(self, attempt: Attempt, reason: str) -> None:
            unsent.append((attempt, reason))

    relay = relay_by(post, Assignments(lambda _step, _assignment: None))
    relay._endings = cast("Endings", cast("Any", Ending()))
    await post.buried(Assign(attempt=ATTEMPT, link_id="c1", frame=b"{}"), Letter("u", "i-here", "assign"), "failed")
    assert unsent == [(ATTEMPT, Loss.LETTER_DEAD)]
