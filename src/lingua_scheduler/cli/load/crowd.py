"""Simulated people on real sessions: they speak at the pace of speech, or ask for jobs at a steady rate."""

import asyncio
import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from lingua_scheduler.cli.load.sentences import Sentences
from lingua_scheduler.cli.load.tally import LoadTally
from lingua_scheduler.cli.speech.failures import UNREACHABLE
from lingua_scheduler.setting_sections.sessions import SessionsSettings
from lingua_sdk.access import AccessDenied, Token
from lingua_sdk.audio import CHUNK_BYTES, SAMPLE_RATE
from lingua_sdk.client import Client, Failed, Partial
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.audio import SilenceLevels, listen

CHUNK_S = CHUNK_BYTES / 2 / SAMPLE_RATE
PAUSE_S = (0.6, 3.0)
# With --rate each session asks this seldom: outcomes of one session wait for each other.
SESSION_EVERY_S = 2.0
# Longest sleep, so that all speakers notice soon that the test is over.
NAP_S = 0.2
RECONNECT_S = 1.0
# For the outcomes of what was said last.
ANSWER_WITHIN_S = 30.0


class Plan(NamedTuple):
    """`rate` is utterances a second; 0: every session speaks at the pace of speech."""

    address: str
    src_lang: str
    tgt_lang: str
    sessions: int
    rate: float
    seconds: float
    ramp_up_s: float
    # PCM16, 16 kHz.
    audio: bytes
    token: Token = None


def sessions_for(rate: float) -> int:
    return math.ceil(rate * SESSION_EVERY_S)


def speech_in(chunks: Sequence[bytes]) -> list[bool]:
    """In which chunks a scheduler hears speech, if its levels of silence (sessions.silence_*) are the defaults."""
    settings = SessionsSettings()
    levels = SilenceLevels(settings.silence_opus_bytes, settings.silence_pcm_rms)
    return [listen(chunk, levels)[1] for chunk in chunks]


def silent_end(has_speech: Sequence[bool]) -> int:
    """How many chunks at the end have no speech in them; 0 if there is none in any of them."""
    return list(reversed(has_speech)).index(True) if any(has_speech) else 0


async def probe(plan: Plan) -> Failed | None:
    """Translate one utterance before the load starts; return its failure, if any. Raises UNREACHABLE, AccessDenied."""
    client = Client(plan.address, plan.src_lang, plan.tgt_lang, token=plan.token)
    async with asyncio.timeout(ANSWER_WITHIN_S), client:
        if client.unserved:
            # Nothing is sent, so there is no failed job.
            return Failed(0, ErrorCode.NO_CAPABLE_NODE, client.unserved)
        await client.utterance(plan.audio)
        await client.finish()
        async for result in client.results():
            if not isinstance(result, Partial):
                return result if isinstance(result, Failed) else None
    return None


class Crowd:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._chunks = [plan.audio[at : at + CHUNK_BYTES] for at in range(0, len(plan.audio), CHUNK_BYTES)]
        self._has_speech = speech_in(self._chunks)
        self._over = asyncio.Event()
        self._ended_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self.tally = LoadTally()

    @property
    def is_over(self) -> bool:
        """All speakers have stopped; the last outcomes may still be missing."""
        return self._over.is_set()

    @property
    def elapsed_s(self) -> float:
        """How long people have spoken."""
        return (self._ended_s or self._loop.time()) - self._began_s

    def stop(self) -> None:
        """Say no more; outcomes of what was said are still waited for."""
        if not self._over.is_set():
            self._ended_s = self._loop.time()
            self._over.set()

    async def run(self) -> None:
        """Run until the time is over or it is stopped, and every utterance has its outcome."""
        self._began_s = self._loop.time()
        timer = self._loop.call_later(self._plan.seconds, self.stop)
        try:
            async with asyncio.TaskGroup() as people:
                for number in range(self._plan.sessions):
                    people.create_task(self._live(number))
        finally:
            timer.cancel()

    async def _live(self, number: int) -> None:
        """One simulated speaker, which opens a new session when its session is lost."""
        dice = random.Random(number)
        plan = self._plan
        due_s = self._began_s + plan.ramp_up_s * number / plan.sessions
        due_s += number / plan.rate if plan.rate else 0.0
        await self._sleep_until(due_s)
        while not self._over.is_set():
            try:
                await self._session(dice, due_s)
            except (AccessDenied, *UNREACHABLE) as error:
                self.tally.lose_session(str(error) or type(error).__name__)
                await self._sleep_until(self._loop.time() + RECONNECT_S)
            due_s = self._loop.time()

    async def _session(self, dice: random.Random, due_s: float) -> None:
        plan, tally = self._plan, self.tally
        said = Sentences()
        async with Client(plan.address, plan.src_lang, plan.tgt_lang, platform="load", token=plan.token) as client:
            tally.connected += 1
            hearing = asyncio.create_task(self._hear(client, said))
            try:
                await (self._ask(client, said, due_s) if plan.rate else self._speak(client, said, dice))
                await client.finish()
                await asyncio.wait((hearing,), timeout=ANSWER_WITHIN_S)
                if hearing.done():
                    hearing.result()
            finally:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)
                tally.connected -= 1
                tally.resumed += client.times_resumed
                tally.unanswered += said.unanswered

    async def _speak(self, client: Client, said: Sentences, dice: random.Random) -> None:
        """Utterance and pause, again and again. Speech ends when its last chunk is due, however late it is sent."""
        due_s = self._loop.time() + dice.uniform(0, PAUSE_S[1])
        await self._sleep_until(due_s)
        seq = 0
        while not self._over.is_set():
            for number, chunk in enumerate(self._chunks, start=1):
                await self._sleep_until(due_s)
                is_final = self._over.is_set() or number == len(self._chunks)
                if is_final:
                    self._said(said, seq, due_s, silent_end(self._has_speech[:number]))
                await client.send(chunk, is_final=is_final)
                seq += 1
                due_s += CHUNK_S
                if is_final:
                    break
            due_s += dice.uniform(*PAUSE_S)
            await self._sleep_until(due_s)

    async def _ask(self, client: Client, said: Sentences, due_s: float) -> None:
        """A whole utterance at a time. A wait for the scheduler counts as latency: the next one is due all the same."""
        index = 0
        while not self._over.is_set():
            self._said(said, index, due_s)
            await client.utterance(self._plan.audio)
            index += 1
            due_s += self._plan.sessions / self._plan.rate
            await self._sleep_until(due_s)

    def _said(self, said: Sentences, number: int, due_s: float, silent_chunks: int = 0) -> None:
        self.tally.said += 1
        answer = said.say(number, due_s, number - silent_chunks)
        if answer is not None:
            self.tally.take(*answer)

    async def _hear(self, client: Client, said: Sentences) -> None:
        resumed = 0
        async for result in client.results():
            resumed = self._follow(client, said, resumed)
            if isinstance(result, Partial):
                continue
            answer = said.hear(result, self._loop.time())
            if answer is not None:
                self.tally.take(*answer)
            self.tally.is_cut = self.tally.is_cut or said.is_cut
        # Nothing is heard after a handover in the silence after the last sentence.
        self._follow(client, said, resumed)

    def _follow(self, client: Client, said: Sentences, resumed: int) -> int:
        """Correct what was counted, if the session was resumed more than `resumed` times. Returns how many times."""
        # Whole utterances bring their own numbers and are never cut.
        for resumption in client.resumptions[resumed:] if not self._plan.rate else ():
            withdrawn, found = said.continue_at(*resumption)
            for answer in withdrawn:
                self.tally.take_back(*answer)
            for answer in found:
                self.tally.take(*answer)
        return client.times_resumed

    async def _sleep_until(self, due_s: float) -> None:
        """Or until the test is over."""
        left_s = due_s - self._loop.time()
        if left_s <= 0:
            return
        while not self._over.is_set() and left_s > 0:
            await asyncio.sleep(min(left_s, NAP_S))
            left_s = due_s - self._loop.time()
        if not self._over.is_set():
            self.tally.lag.add(-left_s * 1000)
