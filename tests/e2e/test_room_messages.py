"""Messages, updates, captions and history in rooms, on one instance and on two."""

import base64
from collections.abc import AsyncIterator
from time import time

import aiohttp
import pytest

from lingua_scheduler.app import Scheduler
from lingua_scheduler.domain.rooms.history import PastLine
from lingua_scheduler.domain.rooms.rooms import RoomName
from lingua_scheduler.protocol.bus import RoomWritten
from lingua_scheduler.protocol.sealing import Keyring
from lingua_scheduler.services.cluster.letters import Letter
from lingua_scheduler.services.rooms.room_here import RoomHere
from tests.support.clusters import ALSO_ON_A_CLUSTER
from tests.support.peers import FakeNode, Field, Frame, answer, stay_silent
from tests.support.room_house import LISTENS, House, Open, RoomReader, opening
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.speech import PACKET
from tests.support.waiting import until

AUDIO = base64.b64encode(PACKET * 10).decode()


@pytest.fixture(params=[1, 2], ids=["one", "two"])
async def open_house(request: pytest.FixtureRequest, server: RedisProcess) -> AsyncIterator[Open]:
    async with opening(server.url, request.param) as opened:
        yield opened


@pytest.fixture
async def house(open_house: Open) -> House:
    return await open_house()


@pytest.fixture
async def peers(house: House) -> AsyncIterator[Field]:
    """At the last instance, which need not be the speaker's."""
    field = Field(house.http, house.schedulers[-1][0].port)
    yield field
    await field.close()


def here_at(scheduler: Scheduler) -> RoomHere:
    (here,) = scheduler._rooms.keeper._here
    return here


# Messages


@ALSO_ON_A_CLUSTER
async def test_a_message_reaches_everyone_who_can_read_it_once(house: House) -> None:
    a, b, guest = [await house.reader() for _ in range(3)]
    old = await house.page().ready()
    code = await a.create(display_name="Ann")
    await b.enter(code)
    await old.enter(code)
    await guest.enter(code, **LISTENS)
    await until(lambda: a.sees(a, b, old) and b.sees(a, b, old) and a.guests == b.guests == 1)
    for text in ("hello", " two\nlines \x07", "   "):
        await a.say(text)
    await b.say("hi")
    await until(lambda: all(len(reader.texts) == 3 for reader in (a, b, guest)), what="all three have come")
    await a.heartbeat()
    for reader in (a, b, guest):
        assert sorted(reader.texts) == ["hello", "hi", "two\nlines"]
        assert {frame["room_code"] for frame in reader.of("room_message")} == {code}
    (first, second) = (frame for frame in b.of("room_message") if frame["session_id"] == a.session_id)
    assert first["display_name"] == "Ann"
    assert first["sent_at_ms"] < second["sent_at_ms"]
    assert not old.of("room_message")
    assert not old.alerts


async def test_a_letter_that_comes_again_is_not_shown_again(server: RedisProcess) -> None:
    async with opening(server.url, 1) as opened:
        house = await opened()
        a = await house.reader()
        code = await a.create()
        scheduler = house.schedulers[0][0]
        state = here_at(scheduler).state
        frame = (
            b'{"type":"room_message","room_code":"%s","session_id":"s-far","text":"hello","sent_at_ms":1}'
            % code.encode()
        )
        handler = scheduler.mailroom._desk._handlers[RoomWritten]
        for letter in (
            Letter("u", "there", "room_written"),
            Letter("u", "there", "room_written", 2, is_repeat=True),
            Letter("v", "there", "room_written", adopted_from="dead"),
        ):
            handler(RoomWritten(str(state.name), state.room_id, frame), letter)
        handler(RoomWritten(str(state.name), "another id", frame), Letter("w", "there", "room_written"))
        handler(RoomWritten("default:999999", state.room_id, frame), Letter("x", "there", "room_written"))
        await a.heartbeat()
        assert a.texts == ["hello"]


async def test_a_sender_is_told_when_its_messages_are_too_many_or_not_for_this_room(open_house: Open) -> None:
    house = await open_house(rooms__messages_per_min=3)
    a, b = await house.reader(), await house.reader()
    code = await a.create()
    await b.enter(code)
    await until(lambda: a.sees(a, b))
    for number in range(8):
        await a.say(str(number))
    await until(lambda: a.of("room_error"))
    assert a.of("room_error")[0]["code"] == "QUOTA_EXCEEDED"
    await until(lambda: len(b.texts) == len(a.texts) >= 3)
    assert b.texts[:3] == ["0", "1", "2"]
    await b.send("room_say", room_code="100000", text="elsewhere")
    await until(lambda: b.of("room_error"))
    assert b.of("room_error")[0]["code"] == "ROOM_NOT_FOUND"
    await b.send("room_say", room_code=code, text="x" * 2001)
    await until(lambda: b.of("error"))
    assert not any("x" in text for text in a.texts)


# Updates


async def test_a_member_changes_its_name_and_languages(house: House) -> None:
    a, b = await house.reader(), await house.reader()
    code = await a.create(display_name="Ann")
    await b.enter(code)
    await until(lambda: a.sees(a, b))
    await b.update(display_name=" Bo\n", preferred_lang="PT_br", src_lang="ja", speech=False)
    await until(lambda: a.members[1].get("display_name") == "Bo")
    assert [a.members[1][name] for name in ("preferred_lang", "src_lang")] == ["pt-BR", "ja"]
    await until(lambda: b.members == a.members)
    room = (await house.store.rooms.look(RoomName("default", code))).room
    assert room is not None
    assert not room.members[1].about.speech
    # What is absent stays.
    await b.update(speech=True)
    await b.update(display_name="")
    await until(lambda: "display_name" not in a.members[1])
    assert a.members[1]["src_lang"] == "ja"
    assert a.members[0]["display_name"] == "Ann"
    for fields in ({"preferred_lang": "no language!"}, {"src_lang": ""}, {"src_lang": "auto"}):
        await b.update(**fields)
    await until(lambda: len(b.of("room_error")) == 3)
    assert {error["code"] for error in b.of("room_error")} == {"INVALID_LANGUAGE"}


async def test_another_language_is_spoken_from_the_next_utterance_on(house: House, peers: Field) -> None:
    node = await peers.node(answer, languages=("zh", "en", "ja"))
    a = await house.reader(0)
    await a.create()
    sessions = house.schedulers[0][0]._intake._sessions
    assert dict(sessions.languages) == {"zh:en": 1}
    # This is being said when the language changes, and is of the former one.
    await a.send("audio_chunk", session_id=a.session_id, seq=0, is_final=False, payload=AUDIO)
    await a.update(src_lang="ja")
    await until(lambda: a.members[0]["src_lang"] == "ja")
    await a.send("audio_chunk", session_id=a.session_id, seq=1, is_final=True, payload=AUDIO)
    await until(lambda: len(node.jobs) == 2)
    jobs = sorted(node.jobs, key=lambda job: int(job["utterance_index"]))
    assert [(job["src_lang"], job["tgt_lang"]) for job in jobs] == [("zh", "en"), ("ja", "en")]
    assert dict(sessions.languages) == {"ja:en": 1}
    assert [pools for (pools, _), number in sessions.pools.items() if number] == [("ja:en:speech",)]
    await a.send("session_close", session_id=a.session_id, reason="bye")
    await until(lambda: not sessions.all)
    assert not sessions.languages
    assert not sessions.pools


async def test_the_language_that_a_member_speaks_survives_its_instance(house: House) -> None:
    a, b = await house.reader(0), await house.reader(1)
    code = await a.create()
    await b.enter(code)
    await until(lambda: a.sees(a, b))
    await b.update(src_lang="ja")
    await until(lambda: a.members[1]["src_lang"] == "ja")
    b.cut()
    again = RoomReader(house.http, house.schedulers[0][0].port)
    house.pages.append(again)
    again.code = code
    await again.ready(resume_token=b.token)
    await until(lambda: again.sees(a, b))
    session = house.schedulers[0][0]._intake._sessions.find(b.session_id)
    assert session is not None
    await until(lambda: session.terms.src_lang == "ja")


# Who speaks, and captions


async def test_the_others_see_who_speaks_and_read_along(house: House, peers: Field) -> None:
    async def work(node: FakeNode, job: Frame) -> None:
        about = {name: job[name] for name in ("job_id", "session_id", "utterance_index", "trace_id")}
        for text, is_final in (("nǐ", False), ("nǐ hǎo", True)):
            said = {"type": "asr_partial", "node_id": node.node_id, "text": text, "is_final": is_final}
            await node.socket.send(said | about)
        other = {"type": "asr_partial", "node_id": node.node_id, "text": "of another", "is_final": True}
        await node.socket.send(other | about | {"job_id": "unknown"})

    node = await peers.node(stay_silent)
    a, b, guest = [await house.reader() for _ in range(3)]
    old = await house.page().ready()
    code = await a.create()
    await b.enter(code)
    await old.enter(code)
    await guest.enter(code, **LISTENS)
    await until(lambda: a.guests == 1)
    # A signal may be lost while an instance does not listen yet.
    for scheduler, _ in house.schedulers:
        await until(scheduler._store.signals.listening.is_set)
    await a.send("audio_chunk", session_id=a.session_id, seq=0, is_final=False, payload=AUDIO)
    await until(lambda: b.of("room_speaking") and guest.of("room_speaking"))
    await a.send("audio_chunk", session_id=a.session_id, seq=1, is_final=True, payload="")
    job = await until(lambda: node.jobs and node.jobs[0])
    await work(node, job)
    await until(lambda: len(b.of("room_caption")) == len(guest.of("room_caption")) == 2)
    for reader in (b, guest):
        spoke = [(frame["session_id"], frame["speaking"]) for frame in reader.of("room_speaking")]
        assert spoke == [(a.session_id, True), (a.session_id, False)]
        assert [(frame["text"], frame["is_final"]) for frame in reader.of("room_caption")] == [
            ("nǐ", False),
            ("nǐ hǎo", True),
        ]
        caption = reader.of("room_caption")[0]
        assert (caption["session_id"], caption["utterance_index"], caption["lang"]) == (a.session_id, 0, "zh")
    await until(lambda: len(a.of("asr_partial")) == 2)
    for one in (a, old):
        assert not one.of("room_caption")
        assert not one.of("room_speaking")
    assert not old.of("asr_partial")


# History


async def test_one_that_joins_reads_the_last_minutes(house: House) -> None:
    a, b = await house.reader(0), await house.reader(1)
    code = await a.create(display_name="Ann")
    await b.enter(code)
    await until(lambda: a.sees(a, b))
    await a.say("written")
    await until(lambda: b.texts == ["written"])
    now_ms = int(time() * 1000)
    for scheduler, _ in house.schedulers:
        for lang, text in (("pt", "dito"), ("ja", "言った")):
            line = PastLine(session_id=a.session_id, name="Ann", at_ms=now_ms, text="said", lang="zh", seq=7)
            line.translations = {lang: text}
            scheduler._rooms.histories.add(here_at(scheduler), line)
    joined = await house.reader(1)
    await joined.enter(code, preferred_lang="pt")
    await until(lambda: joined.of("room_history"))
    written, said = joined.past
    assert (written["text"], written["display_name"], written["session_id"]) == ("written", "Ann", a.session_id)
    assert "room_seq" not in written
    assert "lang" not in written
    assert said == {
        "session_id": a.session_id,
        "display_name": "Ann",
        "at_ms": now_ms,
        "text": "dito",
        "lang": "pt",
        "text_asr": "said",
        "room_seq": 7,
    }
    kinds = [frame["type"] for frame in joined.heard]
    assert kinds.index("room_create_ack") < kinds.index("room_history")
    guest = await house.reader(0)
    await guest.enter(code, preferred_lang="fr", **LISTENS)
    await until(lambda: guest.of("room_history"))
    assert (guest.past[1]["text"], guest.past[1]["lang"]) == ("said", "zh")
    # What comes from now on comes once.
    await a.say("later")
    await until(lambda: joined.texts == guest.texts == ["later"])
    assert len(joined.of("room_history")) == len(guest.of("room_history")) == 1
    assert not a.of("room_history")


@ALSO_ON_A_CLUSTER
async def test_an_instance_asks_another_one_for_the_history(server: RedisProcess) -> None:
    async with opening(server.url, 2) as opened:
        house = await opened()
        a = await house.reader(0)
        code = await a.create()
        await a.say("before")
        await until(lambda: a.texts)
        b = await house.reader(1)
        await b.enter(code)
        await until(lambda: b.of("room_history"))
        assert [line["text"] for line in b.past] == ["before"]
        # The first instance has left the room: the second has what it was told.
        await a.leave()
        await until(lambda: b.sees(b))
        c = await house.reader(0)
        await c.enter(code)
        await until(lambda: c.of("room_history"))
        assert [line["text"] for line in c.past] == ["before"]
        assert not house.schedulers[0][0]._rooms.histories._pasts._size - here_at(house.schedulers[0][0]).past.size


async def test_a_client_that_resumes_gets_what_was_written_meanwhile(house: House) -> None:
    a, b = await house.reader(0), await house.reader(1)
    code = await a.create()
    await b.enter(code)
    await until(lambda: a.sees(a, b))
    b.cut()
    await a.say("are you there?")
    await until(lambda: a.texts)
    again = RoomReader(house.http, house.schedulers[0][0].port)
    house.pages.append(again)
    again.code = code
    await again.ready(resume_token=b.token)
    await until(lambda: again.past)
    assert [line["text"] for line in again.past] == ["are you there?"]


async def test_without_a_history_none_is_kept(open_house: Open) -> None:
    house = await open_house(rooms__history_ms=0)
    a, b = await house.reader(), await house.reader()
    code = await a.create()
    await a.say("gone")
    await until(lambda: a.texts)
    await b.enter(code)
    await b.heartbeat()
    await b.say("now")
    await until(lambda: a.texts == ["gone", "now"])
    assert not b.of("room_history")
    for scheduler, _ in house.schedulers:
        assert not len(here_at(scheduler).past)


async def test_nothing_that_was_written_is_in_redis_in_the_clear(server: RedisProcess) -> None:
    secret = "the plan is blue"
    keyring = Keyring([b"k" * 32])
    async with (
        scheduler_on(server.url, None, keyring) as (first, store),
        scheduler_on(server.url, None, keyring) as (second, _),
        aiohttp.ClientSession() as http,
    ):
        house = House([(first, store), (second, store)], http)
        seen: list[bytes] = []
        post = store.inboxes.post

        async def spied(to: str, letter: object, limits: object) -> object:
            seen.append(letter.body)  # type: ignore[attr-defined]
            return await post(to, letter, limits)  # type: ignore[arg-type]

        store.inboxes.post = spied  # type: ignore[assignment,method-assign]
        a = await house.reader(0)
        code = await a.create()
        b = await house.reader(1)
        await b.enter(code)
        await until(lambda: a.sees(a, b))
        await a.say(secret)
        await until(lambda: b.texts == [secret])
        assert seen
        assert not any(secret.encode() in body for body in seen)
        for page in (a, b):
            await page.close()
