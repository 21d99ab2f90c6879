"""Clients that stream speech: the SDK with its resume token, the existing browser and phone, and the gateway, which
asks one question a socket. Each notes what it said and heard, and judges nothing."""

import asyncio
import contextlib
import itertools
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

import aiohttp

from lingua_sdk.client import Client, SessionFailed
from lingua_sdk.protocol.session import MissingResult, SessionOutgoing, TranslationResult, UiEvent
from tests.support.field_browser import FieldBrowser, one_way
from tests.support.field_gateway import FieldGateway
from tests.support.field_phone import FieldPhone
from tests.support.field_speech import hear, opus, pcm16, say
from tests.support.peers import Frame
from tools.chaos.events import Evidence, Incident, Outcome, Session, Span, Spoken

# A word is a chunk, so that a lost chunk is a lost word: 13 packets of a browser's frame, 10 of a phone's.
WORD_MS, PHONE_WORD_MS = 260, 200
WORDS = (3, 6)
PHONE_WORDS = (6, 10)
# Between two sentences. Many sessions are quiet at any time, as people are.
PAUSE_S = (9.0, 17.0)
# Without a final of its own a sentence ends when nothing is said for 3 s, and a page sends silence for 5 s.
SHORTEST_PAUSE_S = {"sdk": 1.5, "browser": 7.0, "phone": 5.0, "gateway": 0.5}
SENTENCES_A_SESSION = (10, 30)
# Until the last outcome of a session is there: a job may take `job.deadline_ms` and one attempt more.
OUTCOME_WITHIN_S = 150.0
# A page that is connected and has no session for so long would stay so for ever.
STUCK_S = 20.0
OPEN_AGAIN_S = 1.0
# After a missing result nobody knows which words it stood for; so long after it no other is expected.
LAST_OUTCOME_S = 20.0


class Pace:
    """When everybody has said enough, and how fast they say it."""

    def __init__(self, scale: float) -> None:
        self.enough = asyncio.Event()
        self._scale = scale

    async def pause(self, dice: random.Random, kind: str) -> bool:
        """True when more should be said."""
        pause_s = max(dice.uniform(*PAUSE_S) * self._scale, SHORTEST_PAUSE_S[kind])
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.enough.wait(), pause_s)
        return not self.enough.is_set()


class Speaker(ABC):
    kind: str

    def __init__(self, name: str, seed: str, seen: Evidence, pace: Pace) -> None:
        self.name = name
        self._dice = random.Random(seed)
        self._seen = seen
        self._pace = pace
        self._numbers = itertools.count()
        # While it waits for an outcome it may have to wait for long; the run shows how many do.
        self.is_done = False

    @abstractmethod
    async def run(self) -> None: ...

    @abstractmethod
    def cut(self) -> None:
        """Break its connection without a word."""

    def sentence(self, words: tuple[int, int] = WORDS) -> list[str]:
        number = next(self._numbers)
        return [f"{self.name}.{number}.{place}" for place in range(self._dice.randint(*words))]

    def opened(self, session: str) -> Session:
        about = Session(self.name, session, self.kind, time.monotonic())
        self._seen.sessions.append(about)
        return about

    def reopened(self, why: str) -> None:
        self._seen.incidents.append(Incident(self.name, time.monotonic(), why))

    def heard(self, session: str, frame: Frame, connection: int = 0, code: str = "") -> None:
        """An outcome as it is on the wire."""
        self._seen.outcomes.append(
            Outcome(
                self.name,
                session,
                frame["utterance_index"],
                time.monotonic(),
                connection,
                frame.get("reason", ""),
                code,
                spans(frame.get("text_asr", "")),
            )
        )


def spans(text: str) -> tuple[Span, ...]:
    return tuple(Span.read(word) for word in text.split())


def sound_of(word: str) -> bytes:
    return opus(say(word, "en", WORD_MS))


class _NotingClient(Client):
    """Tells of every outcome, also of those it knows, and of every connection."""

    def __init__(self, addresses: Sequence[str], speaker: "SdkSpeaker") -> None:
        self._speaker = speaker
        super().__init__(addresses, "en", "zh")

    async def _take(self, message: SessionOutgoing) -> None:
        if isinstance(message, TranslationResult | MissingResult | UiEvent):
            self._speaker.note(self.session_id, message, self.times_resumed)
        await super()._take(message)

    async def _resume(self) -> None:
        self._speaker.broke()
        await super()._resume()

    def cut(self) -> None:
        if self._line.socket is not None:
            self._line.socket.abort()


class SdkSpeaker(Speaker):
    """Many sentences in a session, each as chunks and a final, over whatever breaks; then it opens another session."""

    kind = "sdk"

    def __init__(self, name: str, seed: str, seen: Evidence, pace: Pace, addresses: Sequence[str]) -> None:
        super().__init__(name, seed, seen, pace)
        self._addresses = addresses
        self._client: _NotingClient | None = None
        self._session: Session | None = None
        self._codes: dict[tuple[str, int], str] = {}

    async def run(self) -> None:
        while not self._pace.enough.is_set():
            client = _NotingClient(self._addresses, self)
            try:
                await client.__aenter__()
            except (SessionFailed, aiohttp.ClientError, OSError, TimeoutError):
                # Nothing was said yet: whoever opens a session may have to try again.
                await asyncio.sleep(OPEN_AGAIN_S)
                continue
            self._client, self._session = client, self.opened(client.session_id)
            try:
                await self._talk(client)
                self._session.ended_by = "finished"
            except SessionFailed as error:
                self.reopened(f"{client.session_id}: {error}")
                self._session.ended_by = "failed"
            finally:
                self._session.ended_s = time.monotonic()
                await client.__aexit__(None, None, None)
        self.is_done = True

    async def _talk(self, client: _NotingClient) -> None:
        listening = asyncio.create_task(self._listen(client))
        try:
            for _ in range(self._dice.randint(*SENTENCES_A_SESSION)):
                await self._say(client)
                if not await self._pace.pause(self._dice, self.kind) or listening.done():
                    break
            if not listening.done():
                await client.finish()
            try:
                await asyncio.wait_for(asyncio.shield(listening), OUTCOME_WITHIN_S)
            except TimeoutError:
                return  # what has no outcome is the checker's to find
            if not client.is_finished:
                raise SessionFailed("the scheduler ended the session before everything was said")
        finally:
            listening.cancel()

    async def _say(self, client: _NotingClient) -> None:
        words, began_s = self.sentence(), time.monotonic()
        said: list[str] = []
        try:
            for word in words:
                said.append(word)
                await client.send(sound_of(word))
                await asyncio.sleep(WORD_MS / 1000)
            await client.final()
        finally:
            self._seen.spoken.append(Spoken(self.name, client.session_id, tuple(said), began_s, time.monotonic()))

    async def _listen(self, client: _NotingClient) -> None:
        async for _ in client.heard():
            pass

    def note(self, session: str, message: TranslationResult | MissingResult | UiEvent, connection: int) -> None:
        if isinstance(message, UiEvent):
            if message.error_code:
                self._codes[session, message.utterance_index] = message.error_code
            return
        about: Frame = {"utterance_index": message.utterance_index}
        if isinstance(message, TranslationResult):
            about["text_asr"] = message.text_asr
        else:
            about["reason"] = message.reason
        self.heard(session, about, connection, self._codes.get((session, message.utterance_index), ""))

    def broke(self) -> None:
        assert self._session is not None
        self._session.resumed_s.append(time.monotonic())

    def cut(self) -> None:
        if self._client is not None:
            self._client.cut()


class _Turning:
    """The next instance at each connection, as a balancer deals them."""

    _ports: Iterator[int]

    @property
    def port(self) -> int:
        return next(self._ports)

    @port.setter
    def port(self, _: int) -> None:
        pass


class _OnePage(Speaker):
    """A client that opens a new session whenever its socket breaks."""

    def __init__(self, name: str, seed: str, seen: Evidence, pace: Pace) -> None:
        super().__init__(name, seed, seen, pace)
        self._session: Session | None = None
        self._codes: dict[int, str] = {}
        self._unfinished: Spoken | None = None
        # Of the present session: words that no translation had yet, outcomes without one, and when the last one came.
        self._unheard: set[str] = set()
        self._missing = 0
        self._heard_s = 0.0

    def session_changed(self, session: str) -> None:
        if self._session is not None and session != self._session.session:
            self._end_sentence()
            self._session.ended_s = time.monotonic()
            self._session.ended_by = "finished" if self.is_done else "broken"
            self._session = None
        if session:
            self._codes.clear()
            self._unheard.clear()
            self._missing = 0
            self._session = self.opened(session)

    def said(self, words: Sequence[str]) -> None:
        """Words that went out in the present session, of one sentence."""
        if self._session is None or not words:
            return
        self._unheard.update(words)
        now_s, number = time.monotonic(), words[0].rsplit(".", 1)[0]
        so_far = self._unfinished
        if so_far is not None and so_far.words[0].rsplit(".", 1)[0] == number:
            self._unfinished = so_far._replace(words=(*so_far.words, *words), ended_s=now_s)
            return
        self._end_sentence()
        self._unfinished = Spoken(self.name, self._session.session, tuple(words), now_s, now_s)

    def took(self, frame: Frame) -> None:
        match frame["type"]:
            case "ui_event" if frame.get("error_code"):
                self._codes[frame["utterance_index"]] = frame["error_code"]
            case "translation_result" | "missing_result":
                self._unheard -= {span.word for span in spans(frame.get("text_asr", ""))}
                self._missing += "reason" in frame
                self._heard_s = time.monotonic()
                self.heard(frame["session_id"], frame, code=self._codes.get(frame["utterance_index"], ""))

    def _end_sentence(self) -> None:
        if self._unfinished is not None:
            self._seen.spoken.append(self._unfinished)
            self._unfinished = None

    def has_all(self) -> bool:
        """Whether more is to be expected in the present session; a guess that only saves time at the end."""
        may_be_missing = self._missing and time.monotonic() > self._heard_s + LAST_OUTCOME_S
        return self._session is None or not self._unheard or bool(may_be_missing)

    async def wait_for_all(self, is_connected: Callable[[], bool]) -> None:
        give_up_at_s = time.monotonic() + OUTCOME_WITHIN_S
        while time.monotonic() < give_up_at_s and is_connected() and not self.has_all():
            await asyncio.sleep(0.5)
        # What was said last may be cut in two.
        await asyncio.sleep(1.0)
        self._end_sentence()
        self.is_done = True


class _Page(_Turning, FieldBrowser):
    def __init__(self, speaker: "BrowserSpeaker", ports: Sequence[int]) -> None:
        self._ports = itertools.cycle(ports)
        self._speaker = speaker
        self._session_id = ""
        super().__init__(0, asks=one_way())

    @property
    def session_id(self) -> str:
        return self._session_id

    @session_id.setter
    def session_id(self, session: str) -> None:
        if session != self._session_id:
            self._session_id = session
            self._speaker.session_changed(session)

    def _read(self, message: Frame) -> None:
        self._speaker.took(message)
        super()._read(message)
        for kept in (self.heard, self.said, self.sent, self.shown, self.hidden, self.missing):
            kept.clear()

    async def _send_audio(self, audio: bytes, *, is_final: bool) -> None:
        if audio and self.session_id:
            self._speaker.said([word.text for word in hear(audio, "opus").words])
        await super()._send_audio(audio, is_final=is_final)


class BrowserSpeaker(_OnePage):
    kind = "browser"

    def __init__(self, name: str, seed: str, seen: Evidence, pace: Pace, ports: Sequence[int]) -> None:
        super().__init__(name, seed, seen, pace)
        self._page = _Page(self, ports)

    async def run(self) -> None:
        self._page.open()
        watching = asyncio.create_task(self._watch())
        try:
            while await self._pace.pause(self._dice, self.kind):
                self._page.recorder.hear(say(" ".join(self.sentence()), "en", WORD_MS))
            await asyncio.sleep(2 * WORDS[1] * WORD_MS / 1000)
            await self.wait_for_all(lambda: bool(self._page.session_id))
        finally:
            watching.cancel()
            self.is_done = True
            await self._page.stop()

    async def _watch(self) -> None:
        """Connected without a session, or frozen: only a person who loads the page again helps."""
        since_s = 0.0
        while True:
            await asyncio.sleep(1.0)
            is_stuck = (self._page.looks_connected and not self._page.session_id) or self._page.is_frozen
            since_s = since_s + 1.0 if is_stuck else 0.0
            if since_s >= STUCK_S:
                why = "frozen" if self._page.is_frozen else "connected without a session"
                self.reopened(f"the page is {why}; alerts {self._page.alerts[-3:]}")
                self._page.is_frozen = False
                self._page.cut()
                since_s = 0.0

    def cut(self) -> None:
        self._page.cut()


class _Phone(_Turning, FieldPhone):
    def __init__(self, speaker: "PhoneSpeaker", ports: Sequence[int]) -> None:
        self._ports = itertools.cycle(ports)
        self._speaker = speaker
        self._session_id = ""
        super().__init__(0)

    @property
    def session_id(self) -> str:
        return self._session_id

    @session_id.setter
    def session_id(self, session: str) -> None:
        if session != self._session_id:
            self._session_id = session
            self._speaker.session_changed(session)

    def _read(self, message: Frame) -> None:
        self._speaker.took(message)
        super()._read(message)
        for kept in (self.heard, self.said, self.results):
            kept.clear()


class PhoneSpeaker(_OnePage):
    kind = "phone"

    def __init__(self, name: str, seed: str, seen: Evidence, pace: Pace, ports: Sequence[int]) -> None:
        super().__init__(name, seed, seen, pace)
        self._phone = _Phone(self, ports)

    async def run(self) -> None:
        living = asyncio.create_task(self._phone._live())
        try:
            while await self._pace.pause(self._dice, self.kind):
                due_s = time.monotonic()
                for word in self.sentence(PHONE_WORDS):
                    due_s += PHONE_WORD_MS / 1000
                    await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                    if self._phone.session_id:
                        self.said([word])
                    await self._phone._utter(pcm16(say(word, "en", PHONE_WORD_MS)))
            await self.wait_for_all(lambda: bool(self._phone.session_id))
        finally:
            self.is_done = True
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)

    def cut(self) -> None:
        self._phone.cut()


class GatewaySpeaker(Speaker):
    """A session for each question, dropped and found again, which is all the gateway ever does."""

    kind = "gateway"

    def __init__(self, name: str, seed: str, seen: Evidence, pace: Pace, ports: Sequence[int]) -> None:
        super().__init__(name, seed, seen, pace)
        self._ports = ports

    async def run(self) -> None:
        while await self._pace.pause(self._dice, self.kind):
            gateway = FieldGateway(self._dice.choice(self._ports))
            try:
                await self._ask(gateway)
            finally:
                await gateway.close()
        self.is_done = True

    async def _ask(self, gateway: FieldGateway) -> None:
        try:
            session_id = await gateway.open_session(10.0)
        except (aiohttp.ClientError, OSError, TimeoutError, AssertionError, TypeError, ValueError):
            return  # it was told that it has no session, or nobody was there
        words, session, began_s = self.sentence(PHONE_WORDS), self.opened(session_id), time.monotonic()
        sound = b"".join(pcm16(say(word, "en", PHONE_WORD_MS)) for word in words)
        self._seen.spoken.append(Spoken(self.name, session_id, tuple(words), began_s, began_s))
        ended_by = "broken"
        try:
            waited = await asyncio.wait_for(gateway.ask(session_id, sound), OUTCOME_WITHIN_S)
        except TimeoutError:
            ended_by = "finished"  # it would wait for ever: the checker finds that nothing came
        except (aiohttp.ClientError, OSError):
            pass
        else:
            codes = [frame["error_code"] for frame in gateway.ignored if frame.get("error_code")]
            outcomes = [frame for frame in gateway.ignored if frame["type"] == "missing_result"]
            outcomes += [waited.frame] if waited.frame else []
            for frame in outcomes:
                self.heard(session_id, frame, code=codes[-1] if codes else "")
                ended_by = "finished"
        session.ended_s, session.ended_by = time.monotonic(), ended_by

    def cut(self) -> None:
        pass
