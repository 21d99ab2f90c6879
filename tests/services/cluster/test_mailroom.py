"""Mail between instances: several mailrooms on one Redis, and what becomes of letters when things go wrong."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.exceptions import ResponseError

from lingua_scheduler.domain.cluster.instances import PresenceOutcome
from lingua_scheduler.domain.jobs.attempts import Attempt
from lingua_scheduler.protocol.bus import Assign, AttemptLost, encode
from lingua_scheduler.protocol.sealing import OtherKey
from lingua_scheduler.services.cluster import dead_letters, letter_desk, presence, pulse
from lingua_scheduler.services.cluster import mailroom as mailrooms
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.cluster.mailroom import Posted
from lingua_scheduler.services.cluster.presence import IdTaken
from lingua_scheduler.store.cluster.inbox import GROUP
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.store.store import Store
from lingua_scheduler.telemetry import metrics
from tests.support.mail import DEAD_MS, ROOMY, Office, letter, lost, office, who, written
from tests.support.scripts import Call, around_scripts
from tests.support.servers import RedisProcess
from tests.support.waiting import until


def counted(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


GONE = AttemptLost(Attempt("job-0-9", 1, "n1", 0), "node_gone")


async def depth(store: Store, instance: str) -> tuple[int, ...]:
    return tuple(await store.inboxes.depth(instance))


# Posting and handling


async def test_three_instances_hear_each_other_and_leave_nothing_behind(store: Store) -> None:
    async with AsyncExitStack() as stack:
        offices = [await stack.enter_async_context(office(store, name)) for name in "abc"]
        for sender in offices:
            for to in "abc":
                for number in range(20):
                    assert (
                        await sender.mailroom.post(to, lost(number, job_id=f"job-0-{sender.instance}")) is Posted.SENT
                    )
        await until(lambda: all(len(found.heard) == 60 for found in offices))
        for found in offices:
            for name in "abc":
                # In the order in which each of them sent it.
                assert [n for n, envelope in found.heard if envelope.sender == name] == list(range(20))
        await until(lambda: _all_empty(store, "abc"))


async def _all_empty(store: Store, names: str) -> bool:
    return all([await depth(store, name) == (0, 0, 0) for name in names])


async def test_a_letter_to_oneself_never_touches_redis(server: RedisProcess, store: Store) -> None:
    async with office(store, "a") as here:
        before = server.command("INFO", "commandstats")
        for number in range(50):
            assert await here.mailroom.post("a", lost(number)) is Posted.SENT
        await until(lambda: len(here.heard) == 50)
        for command in (b"cmdstat_xadd", b"cmdstat_xack"):
            assert (command in server.command("INFO", "commandstats")) == (command in before)


async def test_nothing_is_sent_to_who_is_not_alive(store: Store) -> None:
    async with office(store, "a") as here:
        assert await here.mailroom.post("nobody", GONE) is Posted.GONE
        async with office(store, "b"):
            # Though a moment ago there was nobody.
            await until(lambda: _posted(here, "b", Posted.SENT))
        await until(lambda: _posted(here, "b", Posted.GONE))
        assert await store.line.call("EXISTS", store.keys.inbox("nobody")) == 0


async def test_an_instance_that_is_missing_while_silence_proves_nothing_is_not_taken_for_dead(store: Store) -> None:
    """Redis has lost its data, and whoever was there has not beaten again."""
    async with office(store, "a") as here:
        here.presence.suspend_judgement()
        assert await here.mailroom.post("b", GONE) is Posted.FULL
        await until(lambda: _posted(here, "b", Posted.GONE))


async def _posted(here: Office, to: str, expected: Posted) -> bool:
    return await here.mailroom.post(to, lost(1)) is expected


async def test_an_assignment_arrives_byte_for_byte(store: Store) -> None:
    heard: list[Assign] = []

    async def take(message: Assign, _: Letter) -> None:
        heard.append(message)

    sent = Assign(Attempt("job-0-1", 2, "n1", 3), "c1", bytes(range(256)) * 128)
    async with office(store, "a") as here, office(store, "b") as there:
        there.mailroom.handle(Assign, take)
        await here.mailroom.post("b", sent)
        await until(lambda: heard)
    assert heard == [sent]


async def test_a_slow_lane_holds_up_nobody_else_and_keeps_its_own_order(store: Store) -> None:
    heard: list[tuple[str, int]] = []
    may_end = asyncio.Event()

    async def take(message: AttemptLost, _: Letter) -> None:
        if (message.attempt.job_id, message.attempt.number) == ("job-0-slow", 1):
            await may_end.wait()
        heard.append((message.attempt.job_id, message.attempt.number))

    async with office(store, "a") as here, office(store, "b", inbox__handle_timeout_ms=5_000) as there:
        there.mailroom.handle(AttemptLost, take)
        for number in (1, 2):
            await here.mailroom.post("b", lost(number, "job-0-slow"))
        await here.mailroom.post("b", lost(3, "job-0-fast"))
        await until(lambda: heard == [("job-0-fast", 3)])
        may_end.set()
        await until(lambda: heard[1:] == [("job-0-slow", 1), ("job-0-slow", 2)])


async def test_a_full_inbox_is_told_to_the_sender_and_no_unread_letter_is_lost(store: Store) -> None:
    async with (
        office(store, "a", inbox__max_length=100) as here,
        office(store, "b", inbox__handle_timeout_ms=10_000, inbox__retry_ms=10_000) as there,
    ):
        there.go_on.clear()
        posted = [await here.mailroom.post("b", lost(number)) for number in range(150)]
        assert posted == [Posted.SENT] * 100 + [Posted.FULL] * 50
        there.go_on.set()
        await until(lambda: sorted(there.numbers) == list(range(100)))
        await until(lambda: _posted(here, "b", Posted.SENT))


def refusing_once(monkeypatch: pytest.MonkeyPatch, script: str) -> list[str]:
    """Redis is there, and refuses a script of this name; what is returned says that it did."""
    refused: list[str] = []

    async def refusing(name: str, call: Call) -> Any:
        if name == script and not refused:
            refused.append(name)
            raise ResponseError("BUSY Redis is busy running a script")
        return await call()

    around_scripts(monkeypatch, refusing)
    return refused


@pytest.mark.expects_surprise("letters.not_done")
async def test_letters_that_redis_does_not_take_off_come_again_and_hold_up_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = refusing_once(monkeypatch, "inbox_done")
    async with office(store, "a") as here, office(store, "b") as there:
        await here.mailroom.post("b", lost(1))
        await until(lambda: refused)
        await here.mailroom.post("b", lost(2))
        await until(lambda: _is_depth(store, "b", (0, 0, 0)))
        assert set(there.numbers) == {1, 2}


@pytest.mark.expects_surprise("letter.dead")
async def test_a_letter_that_cannot_be_buried_takes_nobody_of_its_lane_along(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = refusing_once(monkeypatch, "inbox_bury")
    kind = written(1).kind
    for uid in ("u1", "u2"):
        await store.inboxes.post("b", letter(uid, b"rubbish", kind), ROOMY)
    async with office(store, "b"):
        await until(lambda: _is_depth(store, "b", (0, 0, 2)))
    assert refused


async def _is_depth(store: Store, instance: str, expected: tuple[int, ...]) -> bool:
    return await depth(store, instance) == expected


async def test_only_so_many_letters_are_in_hand(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letter_desk, "MOST_IN_HAND", 10)
    async with office(store, "a", inbox__handle_timeout_ms=10_000, inbox__retry_ms=10_000) as here:
        here.go_on.clear()
        posted = [await here.mailroom.post("a", lost(number)) for number in range(15)]
        assert posted == [Posted.SENT] * 10 + [Posted.FULL] * 5
        for number in range(30):
            await store.inboxes.post("a", written(100 + number), ROOMY)
        await asyncio.sleep(0)
        assert (await store.inboxes.depth("a")).letters == 30
        here.go_on.set()
        await until(lambda: len(here.heard) == 40)


# Letters that fail


async def test_a_letter_whose_handler_failed_is_delivered_again(store: Store) -> None:
    outcomes = ("failed", "handled")
    before = [counted("lingua_letters_handled_total", kind=lost(1).kind, outcome=outcome) for outcome in outcomes]
    async with office(store, "a") as here, office(store, "b") as there:
        there.failures[1] = 2
        await here.mailroom.post("b", lost(1))
        await until(lambda: there.numbers == [1, 1, 1])
        assert [envelope.deliveries for _, envelope in there.heard] == [1, 2, 3]
        assert len({envelope.uid for _, envelope in there.heard}) == 1
        await until(lambda: _all_empty(store, "b"))
        assert there.buried == []
    after = [counted("lingua_letters_handled_total", kind=lost(1).kind, outcome=outcome) for outcome in outcomes]
    assert [now - then for then, now in zip(before, after, strict=True)] == [2, 1]


@pytest.mark.expects_surprise("letter.dead")
async def test_a_letter_that_always_fails_becomes_a_dead_letter_after_its_owner_was_told(store: Store) -> None:
    before = counted("lingua_letters_dead_total", reason="failed")
    async with office(store, "a") as here, office(store, "b", inbox__max_deliveries=3) as there:
        there.failures[1] = 100
        for number in (1, 2):
            await here.mailroom.post("b", lost(number))
        await until(lambda: _depth_is(store, "b", (0, 0, 1)))
        assert there.numbers.count(1) == 3
        assert there.numbers.count(2) == 1
        assert [reason for _, reason in there.buried] == ["failed"]
        assert counted("lingua_letters_dead_total", reason="failed") == before + 1
        (dead,) = (await dead_letters.list_dead_letters(store, 10)).dead_letters
        assert (dead.instance_id, dead.kind, dead.subject, dead.reason, dead.deliveries) == (
            *("b", "attempt_lost", "job-0-1", "failed"),
            3,
        )
        there.failures.clear()
        assert (await dead_letters.replay(store, [dead.letter_id], ROOMY)).replayed == 1
        await until(lambda: there.numbers.count(1) == 4)
        await until(lambda: _all_empty(store, "b"))


async def _depth_is(store: Store, instance: str, expected: tuple[int, ...]) -> bool:
    return await depth(store, instance) == expected


@pytest.mark.expects_surprise("letter.dead")
async def test_a_handler_that_hangs_has_failed(store: Store) -> None:
    async with office(store, "a") as here, office(store, "b", inbox__max_deliveries=2) as there:
        there.go_on.clear()
        await here.mailroom.post("b", lost(1))
        await until(lambda: _depth_is(store, "b", (0, 0, 1)))


async def test_poison_does_not_hide_what_lies_behind_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lingua_scheduler.services.cluster.mailroom.READ_TOGETHER", 1)
    async with office(store, "a") as here, office(store, "b", inbox__max_deliveries=1000) as there:
        there.failures = dict.fromkeys(range(30), 10_000) | {30: 1}
        for number in range(31):
            await here.mailroom.post("b", lost(number))
        # The last one fails once, and its second try lies behind thirty letters that always fail.
        await until(lambda: there.numbers.count(30) == 2)


async def test_a_letter_that_takes_long_is_not_handled_a_second_time_meanwhile(store: Store) -> None:
    async with office(store, "a") as here, office(store, "b", inbox__handle_timeout_ms=30_000) as there:
        there.go_on.clear()
        await here.mailroom.post("b", lost(1))

        async def was_handed_out_again() -> bool:
            pending = await store.line.call("XPENDING", store.keys.inbox("b"), GROUP, "-", "+", 10)
            return bool(pending) and pending[0][3] >= 3

        await until(was_handed_out_again)
        there.go_on.set()
        await until(lambda: _depth_is(store, "b", (0, 0, 0)))
        assert there.numbers == [1]


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("from_the_future", b"\x80", "unknown_kind"),
        ("attempt_lost", b"\xff", "unreadable"),
        ("assign", None, "no_handler"),
    ],
)
@pytest.mark.expects_surprise("letter.dead")
async def test_what_this_version_cannot_read_is_kept_with_an_alarm(
    store: Store, kind: str, body: bytes | None, reason: str
) -> None:
    before = counted("lingua_letters_dead_total", reason=reason)
    async with office(store, "b", inbox__keep_speech=True) as there:
        sent = encode(Assign(GONE.attempt, "c1", b"")) if body is None else body
        await store.inboxes.post("b", letter("u1", sent, kind), ROOMY)
        await until(lambda: _depth_is(store, "b", (0, 0, 1)))
        (dead,) = await store.inboxes.dead_letters("b", 10)
        assert (dead.reason, dead.entry.kind, dead.entry.body) == (reason, kind, sent)
        assert there.buried == [("u1", reason)]
        assert counted("lingua_letters_dead_total", reason=reason) == before + 1


@pytest.mark.expects_surprise("letter.dead")
async def test_a_local_letter_that_fails_is_told_at_once(store: Store) -> None:
    async with office(store, "a") as here:
        here.failures[1] = 1
        await here.mailroom.post("a", lost(1))
        await until(lambda: here.buried)
        assert (here.numbers, [reason for _, reason in here.buried]) == ([1], ["failed"])


# Adoption


async def test_the_mail_of_a_dead_instance_is_handled_by_one_of_the_living(store: Store) -> None:
    await store.inboxes.prepare("dead")
    await store.instances.join(who("dead"), 400)
    line = store.another_line()
    await line.open()
    for number in range(300):
        await store.inboxes.post("dead", written(number), ROOMY)
    # A part of it was read, and never done.
    await store.inboxes.read(line, "dead", 140, 100)
    before = counted("lingua_inbox_adoptions_total")
    patient = {"inbox__retry_ms": 1_000, "inbox__handle_timeout_ms": 1_000}
    async with office(store, "b", **patient) as one, office(store, "c", **patient) as other:
        await until(lambda: _depth_is(store, "dead", (0, 0, 0)))
        assert sorted(one.numbers + other.numbers) == list(range(300))
        assert {envelope.adopted_from for _, envelope in one.heard + other.heard} == {"dead"}
        await until(lambda: counted("lingua_inbox_adoptions_total") > before)
    await line.close()


async def test_mail_that_comes_after_a_clean_leave_is_not_lost(store: Store) -> None:
    async with office(store, "b") as there:
        async with office(store, "a"):
            pass
        # A sender whose copy of who is alive was a moment old.
        await store.inboxes.post("a", written(1), ROOMY)
        await until(lambda: there.numbers == [1])


@pytest.mark.expects_surprise("letter.dead")
async def test_who_has_died_of_a_letter_is_not_followed_for_ever(store: Store) -> None:
    await store.inboxes.prepare("dead")
    await store.instances.join(who("dead"), 400)
    await store.inboxes.post("dead", written(1), ROOMY)
    for times in range(1, 4):
        adoption = await store.inboxes.adopt("dead", "victim", 1_000)
        assert adoption is not None
        (entry,) = (await store.inboxes.claim_adopted(adoption, 1, 0)).entries
        assert entry.deliveries == times
        await store.inboxes.release(adoption)
    async with office(store, "b", inbox__max_deliveries=3) as there:
        await until(lambda: _depth_is(store, "dead", (0, 0, 1)))
        assert (there.numbers, [reason for _, reason in there.buried]) == ([], ["never_done"])


async def test_a_dead_instance_without_mail_is_forgotten_in_time(store: Store) -> None:
    await store.inboxes.prepare("dead")
    await store.instances.join(who("dead"), 400)
    async with office(store, "b", instances__forget_ms=600):
        await until(lambda: _known_are(store, {"b"}))
    assert await store.line.call("EXISTS", store.keys.inbox("dead"), store.keys.adopter("dead")) == 0


async def _known_are(store: Store, expected: set[str]) -> bool:
    return set(await store.instances.known()) == expected


async def test_a_restarted_instance_takes_up_what_its_former_life_left_half_done(store: Store) -> None:
    line = store.another_line()
    await line.open()
    await store.inboxes.prepare("a")
    for number in range(5):
        await store.inboxes.post("a", written(number), ROOMY)
    await store.inboxes.read(line, "a", 2, 100)
    async with office(store, "a", inbox__retry_ms=60_000) as again:
        await until(lambda: sorted(again.numbers) == list(range(5)))
    await line.close()


async def test_a_letter_that_arrives_long_after_the_start_did_not_wait_here(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only while the loop's beats are kept is it known that this process did not stand still."""
    monkeypatch.setattr(pulse, "BEAT_S", 0.001)
    async with office(store, "a") as here:
        heart = here.mailroom._desk.pulse
        heart._beaten_at_s -= 10 * 1.0
        assert heart.is_behind
        await until(lambda: heart._clock() - heart._beaten_at_s < 1.0)


# Presence


async def test_an_id_that_is_alive_elsewhere_is_refused_in_one_sentence(store: Store) -> None:
    async with office(store, "a"):
        with pytest.raises(IdTaken, match=r"^an instance named a is already running; .*--set server\.instance_id=auto"):
            await Office(store, "a").mailroom.start()


async def test_the_id_of_one_that_was_killed_is_free_when_it_is_dead(store: Store) -> None:
    await store.instances.join(who("a"), 400)
    async with office(store, "a") as again:
        assert await store.instances.beat(again.presence.me, 400) is PresenceOutcome.ALIVE


async def test_who_was_dead_comes_back_and_is_told(store: Store) -> None:
    lives: list[str] = []

    async def on_lost() -> None:
        lives.append("again")

    async with office(store, "a") as here, office(store, "b") as there:
        there.presence.on_lost = on_lost
        await store.line.call("FLUSHALL")
        await until(lambda: lives)
        await until(lambda: _known_are(store, {"a", "b"}))
        await until(lambda: _posted(here, "b", Posted.SENT))
        await until(lambda: there.heard)


@pytest.mark.expects_surprise("instance.superseded")
async def test_who_is_superseded_reads_no_more_mail(store: Store) -> None:
    events: list[str] = []
    async with office(store, "a") as former:
        former.presence.on_superseded = lambda: events.append("superseded")
        namesake = who("a", "the other")
        await store.line.call("HSET", store.keys.instances_about, "a", "the-other {}")
        await until(lambda: events == ["superseded"])
        # Its last read may take a letter still; after that, none.
        await until(lambda: _is_left_alone(store), within_s=5)
        assert await store.instances.beat(namesake, 400) is PresenceOutcome.SUPERSEDED


async def _is_left_alone(store: Store) -> bool:
    await store.inboxes.post("a", written(1), ROOMY)
    await asyncio.sleep(0.05)
    letters_, pending, _ = await depth(store, "a")
    return letters_ > pending


async def test_after_a_pause_of_redis_nobody_is_taken_for_dead_too_soon(
    server: RedisProcess, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(store, "a") as here, office(store, "b"):
        await here.presence.look()
        # Nobody could beat for longer than it takes to be dead.
        for name in "ab":
            await store.line.call("ZADD", store.keys.instances_alive, 1, name)
        here.presence._beaten_at -= 10
        await here.presence.beat()
        monkeypatch.setattr(presence, "COPY_LASTS_S", -1.0)
        await store.line.call("ZADD", store.keys.instances_alive, 1, "b")
        assert await here.presence.is_alive("b")
        assert await here.presence.dead() == []


async def test_a_copy_of_who_is_alive_serves_a_crowd_of_senders(server: RedisProcess, store: Store) -> None:
    async with office(store, "a") as here, office(store, "b") as there:
        assert await here.mailroom.post("b", lost(0)) is Posted.SENT
        looked = 0
        known = store.instances.known

        async def counting() -> object:
            nonlocal looked
            looked += 1
            return await known()

        store.instances.known = counting  # type: ignore[method-assign, assignment]
        here.presence._copied_at = float("-inf")
        posted = await asyncio.gather(*(here.mailroom.post("b", lost(number)) for number in range(1, 101)))
        assert set(posted) == {Posted.SENT}
        # One look for all senders, and perhaps one of the chores.
        assert looked <= 3
        await until(lambda: len(there.heard) == 101)


async def test_who_has_only_just_come_is_alive_though_a_look_began_before(store: Store) -> None:
    async with office(store, "a") as here:
        # Others look all the time, so the copy is fresh, and one look is under way.
        await here.presence.look()
        looking = asyncio.ensure_future(here.presence.look())
        await asyncio.sleep(0)
        await store.instances.join(who("b"), DEAD_MS)
        assert await here.presence.is_alive("b")
        await looking


# What Redis does not take, and handlers that fail at once


async def test_letters_in_progress_are_acknowledged_before_an_instance_stops(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, go_on, asked = store.inboxes.done, asyncio.Event(), asyncio.Event()

    async def slow(*given: Any) -> Any:
        asked.set()
        await go_on.wait()
        return await done(*given)

    monkeypatch.setattr(store.inboxes, "done", slow)
    async with office(store, "a") as here, office(store, "b", inbox__handle_timeout_ms=60_000) as there:
        await here.mailroom.post("b", lost(1))
        await asked.wait()
        stopping = asyncio.create_task(there.mailroom.stop())
        await until(lambda: not there.mailroom._chores)
        asyncio.get_running_loop().call_later(0.05, go_on.set)
        await stopping
        assert await depth(store, "b") == (0, 0, 0)
        assert there.numbers == [1]


async def test_what_was_done_while_redis_was_away_is_told_when_it_is_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_desk, "TRY_AGAIN_S", 0.0)
    done, tries = store.inboxes.done, 0

    async def away_twice(*given: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RedisAway("gone at that moment")
        return await done(*given)

    monkeypatch.setattr(store.inboxes, "done", away_twice)
    async with office(store, "a") as here, office(store, "b") as there:
        await here.mailroom.post("b", lost(1))
        await until(lambda: _is_depth(store, "b", (0, 0, 0)))
        assert (there.numbers, tries) == ([1], 3)


async def test_the_inbox_of_a_dead_instance_that_is_away_holds_up_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise RedisAway("that part of the Cluster is away")

    monkeypatch.setattr(store.inboxes, "done", away)
    async with office(store, "a") as here:
        taken = here.mailroom._desk.take("i-dead", written(1))
        assert taken is not None
        await asyncio.wait_for(taken, 20)
        assert here.numbers == [1]
        assert here.heard[0][1].adopted_from == "i-dead"


async def test_a_handler_that_fails_at_once_gets_its_letter_again(store: Store) -> None:
    taken: list[int] = []

    def take(message: AttemptLost, envelope: Letter) -> None:
        taken.append(envelope.deliveries)
        if len(taken) == 1:
            raise ValueError("as the test asks")

    async with office(store, "a") as here, office(store, "b") as there:
        there.mailroom.handle(AttemptLost, take)
        await here.mailroom.post("b", lost(1))
        await until(lambda: _is_depth(store, "b", (0, 0, 0)))
        assert taken == [1, 2]
        assert there.buried == []


@pytest.mark.expects_surprise("letter.dead")
async def test_a_dead_letter_whose_owner_cannot_be_told_for_lack_of_redis_is_buried_later(store: Store) -> None:
    told = 0

    async def tell(*_: object) -> None:
        nonlocal told
        told += 1
        if told == 1:
            raise RedisAway("gone at that moment")

    async with office(store, "b") as there:
        there.mailroom.on_dead(tell)
        await store.inboxes.post("b", letter("u1", b"rubbish", written(1).kind), ROOMY)
        await until(lambda: _is_depth(store, "b", (0, 0, 1)))
        assert told == 2


@pytest.mark.expects_surprise("letter.dead", "letter.dead_unheard")
async def test_a_dead_letter_is_buried_though_telling_its_owner_fails(store: Store) -> None:
    async def tell(*_: object) -> None:
        raise ValueError("as the test asks")

    async with office(store, "b") as there:
        there.mailroom.on_dead(tell)
        await store.inboxes.post("b", letter("u1", b"rubbish", written(1).kind), ROOMY)
        await until(lambda: _is_depth(store, "b", (0, 0, 1)))


@pytest.mark.expects_surprise("letter.dead")
async def test_a_letter_of_a_dead_instance_is_left_to_one_that_has_its_key_for_a_while(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with office(store, "a", inbox__max_deliveries=3) as here:

        def other_key(*_: object) -> bytes:
            raise OtherKey

        monkeypatch.setattr(here.mailroom.seals, "open", other_key)
        reader = here.mailroom._desk
        first = reader.take("i-dead", written(1)._replace(entry_id="1-1", deliveries=2))
        assert first is not None
        assert first.done()
        assert here.buried == []
        last = reader.take("i-dead", written(2)._replace(entry_id="1-2", deliveries=3))
        assert last is not None
        await asyncio.wait_for(last, 20)
        assert here.buried == [("u2", "other_key")]


@pytest.mark.expects_surprise("inbox.unread")
async def test_an_inbox_is_read_on_after_a_surprise(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailrooms, "TRY_AGAIN_AFTER_SURPRISE_S", 0.0)
    read, tries = store.inboxes.read, 0

    async def surprising(*given: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ValueError("as the test asks")
        return await read(*given)

    monkeypatch.setattr(store.inboxes, "read", surprising)
    async with office(store, "b") as there:
        await store.inboxes.post("b", written(1), ROOMY)
        await until(lambda: there.numbers == [1])


async def test_five_hundred_and_twelve_letters_may_be_in_hand(store: Store) -> None:
    async with office(store, "a") as here:
        assert here.mailroom._desk.room == 512
        assert await here.mailroom._desk.wait_for_room() == 512


async def test_chores_are_done_as_often_as_the_settings_say(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    chores: dict[str, float] = {}
    patience: list[float] = []

    async def every(name: str, interval_s: float, _chore: object) -> None:
        chores[name] = interval_s

    monkeypatch.setattr(mailrooms, "every", every)
    changes = {"instances__beat_ms": 3_000, "instances__dead_ms": 60_000}
    here = Office(store, "a", inbox__retry_ms=8_000, inbox__handle_timeout_ms=5_000, **changes)
    await here.mailroom.start()
    await until(lambda: len(chores) == 3)
    close = here.mailroom._desk.close

    async def closed(timeout_s: float) -> None:
        patience.append(timeout_s)
        await close(timeout_s)

    monkeypatch.setattr(here.mailroom._desk, "close", closed)
    await here.mailroom.stop()
    assert chores == {"beat": 3.0, "adopt": 3.0, "letters_again": 4.0}
    assert patience == [5.0]
