"""Speech in rooms: everyone reads everyone in their own language, once and in order, on one instance and on two."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from itertools import count
from typing import Any

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.services.rooms import outcome_frames
from lingua_scheduler.store.store import Store
from tests.support.clusters import ALSO_ON_A_CLUSTER
from tests.support.peers import FakeNode, Field, Frame, result_of
from tests.support.room_talk import SOUND, Talker, Work, translate, translated, words_in
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.waiting import until

PATIENCE_S = 60.0
LANGUAGES = ("en", "zh", "pt", "ja")


class House:
    """Schedulers on one Redis, and a node at the first of them; people connect to one after the other."""

    def __init__(self, schedulers: list[tuple[Scheduler, Store]], http: aiohttp.ClientSession) -> None:
        self.schedulers = schedulers
        self.http = http
        self.people: list[Talker] = []
        self.fields = [Field(http, scheduler.port) for scheduler, _ in schedulers]
        self._turns = count()

    async def node(self, work: Work = translate, languages: tuple[str, ...] = LANGUAGES, at: int = 0) -> FakeNode:
        return await self.fields[at].node(work, languages=languages, max_concurrent_jobs=16)

    async def person(self, at: int | None = None, **init: Any) -> Talker:
        number = next(self._turns) if at is None else at
        scheduler, _ = self.schedulers[number % len(self.schedulers)]
        person = Talker(self.http, scheduler.port)
        self.people.append(person)
        await person.ready(**init)
        return person

    async def room(self, *languages: str, events: bool = True, **fields: Any) -> list[Talker]:
        """People who speak and read these languages, all in one room."""
        people: list[Talker] = []
        code = ""
        for language in languages:
            person = await self.person(src_lang=language, tgt_lang="en", platform="sdk" if events else "web")
            code = await person.enter_or_create(code, preferred_lang=language, room_events=events, **fields)
            people.append(person)
        everyone = len(people)
        await until(lambda: all(len(one.members) == everyone for one in people), PATIENCE_S, "everyone is there")
        return people


@pytest.fixture(params=[1, 2], ids=["one", "two"])
async def house(request: pytest.FixtureRequest, server: RedisProcess) -> AsyncIterator[House]:
    async with opened(server, request.param) as house:
        yield house


class opened:  # noqa: N801 - used as a function
    def __init__(self, server: RedisProcess, instances: int, **changes: Any) -> None:
        self._server, self._instances, self._changes = server, instances, changes
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> House:
        schedulers = [
            await self._stack.enter_async_context(scheduler_on(self._server.url, **self._changes))
            for _ in range(self._instances)
        ]
        http = await self._stack.enter_async_context(aiohttp.ClientSession())
        self._house = House(schedulers, http)
        return self._house

    async def __aexit__(self, *_: object) -> None:
        for person in self._house.people:
            await person.close()
        for field in self._house.fields:
            await field.close()
        await self._stack.aclose()


async def reads(person: Talker, *texts: str) -> None:
    def has_all() -> bool:
        return len(person.from_others()) >= len(texts)

    await until(has_all, PATIENCE_S, f"{texts} is read")
    assert [frame.get("text_translated", frame["type"]) for frame in person.from_others()] == list(texts)


@ALSO_ON_A_CLUSTER
async def test_everyone_reads_everyone_in_their_own_language(house: House) -> None:
    await house.node()
    ann, bob, cho = await house.room("en", "zh", "pt")
    await ann.say("one")
    await reads(bob, "zh:one")
    await reads(cho, "pt:one")
    await bob.say("two")
    await reads(ann, "en:two")
    await reads(cho, "pt:one", "pt:two")
    first, second = cho.from_others()
    assert (first["session_id"], first["utterance_index"], first["lang"]) == (ann.session_id, 0, "pt")
    assert (second["session_id"], second["utterance_index"]) == (bob.session_id, 0)
    assert [frame["room_seq"] for frame in cho.from_others()] == [1, 2]
    assert base64.b64decode(first["tts_audio"]) == SOUND


async def test_the_speaker_reads_what_was_recognised_when_all_have_their_outcome(house: House) -> None:
    await house.node()
    ann, bob = await house.room("en", "zh")
    await ann.say("one")
    await until(lambda: ann.outcomes(), PATIENCE_S, "the speaker has an outcome")
    (own,) = ann.outcomes()
    assert (own["session_id"], own["utterance_index"], own["room_seq"]) == (ann.session_id, 0, 1)
    assert (own["text_asr"], own["text_translated"], own["tts_audio"], own["lang"]) == ("one", "", "", "en")
    await reads(bob, "zh:one")


async def test_who_shares_the_speakers_language_reads_it_without_a_job_of_their_own(house: House) -> None:
    node = await house.node()
    ann, bob, cho = await house.room("en", "en", "zh")
    await ann.say("one")
    await reads(bob, "one")
    await reads(cho, "zh:one")
    assert [job["tgt_lang"] for job in node.jobs] == ["zh"]
    (read,) = bob.from_others()
    assert (read["text_asr"], read["tts_audio"], read["lang"]) == ("one", "", "en")


async def test_variants_that_nodes_serve_by_one_tag_are_one_job(house: House) -> None:
    """Guests may invent any number of them."""
    node = await house.node()
    ann, bob = await house.room("en", "zh-x000")
    guests = []
    for number in range(1, 5):
        guest = await house.person(platform="sdk")
        await guest.enter(ann.code, preferred_lang=f"zh-x00{number}", room_events=True, listen_only=True)
        guests.append(guest)
    await until(
        lambda: all(
            here.state.guest_count == 4 for scheduler, _ in house.schedulers for here in scheduler._rooms.hearing.here
        ),
        PATIENCE_S,
        "every instance knows the guests",
    )
    await ann.say("one")
    for reader in (bob, *guests):
        await reads(reader, "zh:one")
        assert reader.from_others()[0]["lang"] == "zh"
    assert [job["tgt_lang"] for job in node.jobs] == ["zh"]


async def test_if_all_share_the_speakers_language_the_speech_is_recognised_alone(house: House) -> None:
    node = await house.node()
    ann, bob = await house.room("en", "en-GB")
    await ann.say("one")
    await reads(bob, "one")
    (job,) = node.jobs
    assert (job["pipeline"]["use_nmt"], job["pipeline"]["use_tts"]) == (False, False)


async def test_one_alone_in_a_room_is_translated_for_itself(house: House) -> None:
    await house.node()
    (ann,) = await house.room("pt")
    await ann.say("one")
    await until(lambda: ann.outcomes(), PATIENCE_S, "there is a translation")
    (own,) = ann.outcomes()
    assert own["text_translated"] == "en:one"
    assert "room_seq" not in own


async def test_each_language_has_a_session_of_its_own_at_a_node(house: House) -> None:
    """Existing nodes take each (session, utterance) once."""
    node = await house.node()
    ann, *others = await house.room("en", "zh", "pt", "ja")
    for number in range(2):
        await ann.say(f"word {number}", number)
    await until(lambda: all(len(one.from_others()) == 2 for one in others), PATIENCE_S, "both are read")
    taken = [(job["session_id"], job["utterance_index"]) for job in node.jobs]
    assert len(set(taken)) == len(taken) == 6
    assert {job["session_id"].partition("~")[2] for job in node.jobs} == {"zh", "pt", "ja"}


async def test_speech_is_made_only_for_languages_in_which_it_is_wanted(house: House) -> None:
    node = await house.node()
    ann, bob = await house.room("en", "zh", speech=False)
    cho = await house.person(src_lang="pt", platform="sdk")
    await cho.enter(ann.code, preferred_lang="pt", room_events=True)
    await until(lambda: len(ann.members) == 3, PATIENCE_S, "all are there")
    await ann.say("one")
    await reads(bob, "zh:one")
    await reads(cho, "pt:one")
    assert {job["tgt_lang"]: job["pipeline"]["use_tts"] for job in node.jobs} == {"zh": False, "pt": True}


async def test_existing_pages_get_numbers_of_their_own_and_samples_they_can_play(house: House) -> None:
    await house.node()
    ann, bob, cho = await house.room("en", "zh", "pt", events=False)
    await ann.say("word 0")
    await until(lambda: len(cho.outcomes()) == 1, PATIENCE_S, "it is read")
    await bob.say("word 1")
    await until(lambda: len(cho.outcomes()) == 2, PATIENCE_S, "it is read")
    first, second = cho.outcomes()
    # Such a page shows a number once, whoever spoke.
    assert [first["utterance_index"], second["utterance_index"]] == [0, 1]
    assert [first["session_id"], second["session_id"]] == [ann.session_id, bob.session_id]
    assert first["group_id"].startswith(f"group_{cho.session_id}")
    assert "room_seq" not in first
    assert first["tts_format"] == "pcm16"
    assert len(base64.b64decode(first["tts_audio"])) % 2 == 0
    # The speaker gets nothing of its own speech, but can go on.
    assert ann.texts() == ["en:word 1"]
    await ann.say("word 2", 1)
    await until(lambda: len(cho.outcomes()) == 3, PATIENCE_S, "it is read")


async def test_opus_is_decoded_for_existing_pages_and_noise_is_left_out(house: House) -> None:
    opus = pytest.importorskip("opuslib_next", exc_type=ImportError)
    encoder = opus.Encoder(16_000, 1, "voip")
    packet = encoder.encode(b"\x00\x10" * 320, 320)
    framed = (len(packet).to_bytes(2, "little") + packet) * 5
    spoken = iter(("opus", "mp3"))

    async def speak(node: FakeNode, job: Frame) -> None:
        more = translated(job, tts_audio=base64.b64encode(framed).decode(), tts_format=next(spoken))
        await node.socket.send(result_of(job, node.node_id, **more))

    await house.node(speak)
    ann, bob = await house.room("en", "zh", events=False)
    await ann.say("word 0")
    await ann.say("word 1", 1)
    await until(lambda: len(bob.outcomes()) == 2, PATIENCE_S, "both are read")
    heard, broken = bob.outcomes()
    assert (heard["tts_format"], len(base64.b64decode(heard["tts_audio"]))) == ("pcm16", 5 * 640)
    assert (broken["text_translated"], broken["tts_audio"]) == ("zh:word 1", "")


async def test_a_language_that_is_slow_or_fails_holds_up_no_other(house: House) -> None:
    go_on = asyncio.Event()

    async def work(node: FakeNode, job: Frame) -> None:
        if job["tgt_lang"] == "pt":
            await go_on.wait()
        await translate(node, job)

    await house.node(work)
    ann, bob, cho, dee = await house.room("en", "zh", "pt", "ko")
    for number in range(3):
        await ann.say(f"word {number}", number)
    await reads(bob, "zh:word 0", "zh:word 1", "zh:word 2")
    # No node serves Korean.
    await reads(dee, "missing_result", "missing_result", "missing_result")
    assert {frame["code"] for frame in dee.from_others()} == {"NO_CAPABLE_NODE"}
    assert not cho.from_others()
    assert not ann.outcomes()
    go_on.set()
    await reads(cho, "pt:word 0", "pt:word 1", "pt:word 2")


async def test_results_come_in_the_order_of_the_room_also_if_a_later_one_is_ready_first(house: House) -> None:
    go_on = asyncio.Event()

    async def work(node: FakeNode, job: Frame) -> None:
        if words_in(job) == "slow":
            await go_on.wait()
        await translate(node, job)

    await house.node(work)
    ann, bob, cho = await house.room("en", "zh", "pt")
    await ann.say("slow")
    await until(lambda: house.fields[0].nodes[0].running == 2, PATIENCE_S, "the node works")
    await bob.say("quick")
    await reads(ann, "en:quick")
    go_on.set()
    await reads(cho, "pt:slow", "pt:quick")


async def test_a_room_with_too_many_languages_or_jobs_is_told_so(server: RedisProcess) -> None:
    go_on = asyncio.Event()

    async def work(node: FakeNode, job: Frame) -> None:
        await go_on.wait()
        await translate(node, job)

    async with opened(server, 1, rooms__max_languages=1, rooms__max_jobs=1) as house:
        await house.node(work)
        ann, bob, cho = await house.room("en", "zh", "pt")
        await ann.say("one")
        await until(lambda: house.fields[0].nodes[0].running, PATIENCE_S, "one is under way")
        await ann.say("two", 1)
        await until(lambda: any(frame.get("error_code") for frame in ann.heard), PATIENCE_S, "it is refused")
        go_on.set()
        await reads(bob, "zh:one")
        # Its language is one too many.
        await reads(cho, "one")
        await until(lambda: len(ann.outcomes()) == 2, PATIENCE_S, "both have an outcome")
        assert ann.outcomes()[1]["code"] == "NODE_OVERLOADED"


@ALSO_ON_A_CLUSTER
async def test_one_who_comes_back_gets_what_was_said_meanwhile(house: House) -> None:
    await house.node()
    ann, bob = await house.room("en", "zh")
    await ann.say("one")
    await reads(bob, "zh:one")
    bob.cut()
    await until(lambda: bob.socket is None or bob.socket.closed, PATIENCE_S, "the socket is gone")
    await ann.say("two", 1)
    await until(lambda: len(ann.outcomes()) == 2, PATIENCE_S, "the speaker has its outcome")
    # At the instance where it was, if there is but one; at the other one otherwise.
    back = await house.person(0, src_lang="zh", platform="sdk", resume_token=bob.token, last_room_seq=1)
    await reads(back, "zh:two")
    assert back.from_others()[0]["room_seq"] == 2
    await ann.say("three", 2)
    await reads(back, "zh:two", "zh:three")


@ALSO_ON_A_CLUSTER
async def test_one_who_moves_to_another_instance_gets_what_was_under_way(server: RedisProcess) -> None:
    go_on = asyncio.Event()

    async def work(node: FakeNode, job: Frame) -> None:
        await go_on.wait()
        await translate(node, job)

    async with opened(server, 2) as house:
        await house.node(work)
        ann, bob = await house.room("en", "zh")
        await ann.say("one")
        await until(lambda: house.fields[0].nodes[0].running, PATIENCE_S, "it is under way")
        bob.cut()
        back = await house.person(0, src_lang="zh", platform="sdk", resume_token=bob.token, last_room_seq=0)
        assert back.session_id == bob.session_id
        go_on.set()
        await reads(back, "zh:one")


async def test_an_outcome_that_never_comes_is_told_as_missing(server: RedisProcess) -> None:
    async with opened(server, 2) as house:
        await house.node(_silent)
        ann, bob = await house.room("en", "zh")
        await ann.say("one")
        at_bob = house.schedulers[1][0]._rooms.hearing
        await until(lambda: any(here.feeds for here in at_bob.here), PATIENCE_S, "it is announced")
        at_bob.end_overdue(-1.0)
        await reads(bob, "missing_result")
        assert bob.from_others()[0]["detail"] == outcome_frames.NEVER_CAME


async def test_nothing_is_left_when_a_room_was_used(house: House) -> None:
    await house.node()
    people = await house.room("en", "zh", "pt")
    for person in people:
        await person.say("one")
    await until(lambda: all(len(one.from_others()) == 2 for one in people), PATIENCE_S, "all is read")
    for person in people:
        await person.leave()
    for scheduler, _ in house.schedulers:
        await until(_is_clean(scheduler), PATIENCE_S, "nothing is left")


def _is_clean(scheduler: Scheduler) -> Callable[[], bool]:
    speaking, hearing = scheduler._rooms.speaking, scheduler._rooms.hearing
    return lambda: not (speaking._jobs or speaking._under_way or len(hearing.here))


async def _silent(node: FakeNode, job: Frame) -> None:
    pass


async def test_what_is_said_after_redis_lost_its_data_reaches_an_instance_that_has_not_registered_again(
    server: RedisProcess,
) -> None:
    # Heartbeats are sent by the test.
    async with opened(server, 2, instances__beat_ms=60_000, instances__dead_ms=600_000) as house:
        await house.node()
        ann, bob = await house.room("en", "zh")
        await ann.say("one")
        await reads(bob, "zh:one")
        first, second = (scheduler.mailroom._presence for scheduler, _ in house.schedulers)
        server.flush()
        await first.beat()
        assert second.instance not in await first.look()
        await ann.say("two", 1)
        await until(lambda: len(ann.outcomes()) == 2, PATIENCE_S, "all letters are sent")
        await second.beat()
        await reads(bob, "zh:one", "zh:two")
