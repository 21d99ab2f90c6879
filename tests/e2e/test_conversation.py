"""A conversation of three minutes in two languages, streamed by three kinds of clients at once, in hurried time."""

import asyncio
import base64
import time
from typing import NamedTuple

import pytest

from lingua_sdk.protocol import audio, binary
from tests.support import jumping, recordings
from tests.support.peers import FakeClient, Field, Frame, field, heartbeat
from tests.support.recordings import CHUNK_MS, Ending, Spoken, Turn
from tests.support.schedulers import scheduler_by
from tests.support.servers import RedisProcess
from tests.support.waiting import until

# A browser's patience, and how much later than its final the last chunk comes.
SILENCE_MS = 3_000
TAIL_AFTER_MS = 5
NODES = 4
PAUSE_MS = 3_000

TURNS = [
    Turn("a", 4_260, Ending.SILENCE),
    Turn("b", 6_000, Ending.BUTTON),
    Turn("a", 2_460, Ending.SILENCE),
    Turn("b", 7_860, Ending.SILENCE),
    Turn("a", 1_200, Ending.PAUSE),
    Turn("b", 9_060, Ending.SILENCE),
    Turn("a", 5_400, Ending.BUTTON),
    Turn("b", 300, Ending.HESITATION),
    Turn("b", 4_200, Ending.SILENCE),
    Turn("a", 25_000, Ending.SILENCE),  # the monologue
    Turn("b", 3_060, Ending.SILENCE),
    Turn("a", 8_200, Ending.BUTTON),
    Turn("b", 6_660, Ending.SILENCE),
    Turn("a", 5_060, Ending.SILENCE),
    Turn("b", 2_000, Ending.PAUSE),
    Turn("a", 7_060, Ending.SILENCE),
    Turn("b", 4_600, Ending.BUTTON),
    Turn("a", 9_460, Ending.SILENCE),
    Turn("b", 800, Ending.BUTTON),
    Turn("a", 3_860, Ending.SILENCE),
]
MONOLOGUE_MS = 25_000


class Part(NamedTuple):
    """An utterance as a node got it, without what differs from session to session."""

    utterance_index: int
    duration_ms: int
    turn: int
    is_manual: bool
    is_timeout: bool
    is_max_duration: bool
    padding_ms: int


class Talker:
    """A client with the habits of the browser, whichever way it sends its audio."""

    def __init__(self, client: FakeClient, peers: Field, sends_binary: bool = False) -> None:
        self._client = client
        self._peers = peers
        self._sends_binary = sends_binary
        self._seq = 0
        self.sent = bytearray()

    async def tell(self, conversation: list[Spoken]) -> None:
        for spoken in conversation:
            began = asyncio.get_running_loop().time()
            await self._speak(spoken)
            if spoken.turn.ending is Ending.HESITATION:
                await asyncio.sleep(1.3 * PAUSE_MS / 1000)
                continue
            await until(self._is_answered, within_s=30, what=f"an answer to {spoken.turn}")
            await self._listen()
            told_ms = (asyncio.get_running_loop().time() - began) * 1000
            await asyncio.sleep(max(0.0, (spoken.turn.speech_ms + spoken.turn.gap_ms) - told_ms) / 1000)

    async def _speak(self, spoken: Spoken) -> None:
        began = asyncio.get_running_loop().time()
        for number, chunk in enumerate(spoken.chunks, start=1):
            await asyncio.sleep(max(0.0, began + number * CHUNK_MS / 1000 - asyncio.get_running_loop().time()))
            await self._chunk(chunk)
        if spoken.turn.ending is Ending.SILENCE:
            tail_ms = spoken.turn.speech_ms % CHUNK_MS
            await asyncio.sleep((tail_ms + SILENCE_MS) / 1000)
            await self._final()
            await asyncio.sleep(TAIL_AFTER_MS / 1000)
        if spoken.tail:
            await self._chunk(spoken.tail)
        if spoken.turn.ending is Ending.BUTTON:
            await self._final()

    async def _listen(self) -> None:
        """The translation is played to the other person; meanwhile nothing is sent."""
        about = {"session_id": self._client.session_id, "trace_id": "t", "group_id": "g"}
        await self._client.socket.send({"type": "tts_started", "ts_start_ms": 1} | about)
        await self._client.socket.send({"type": "tts_play_ended", "ts_end_ms": 2} | about)

    async def _chunk(self, sound: bytes) -> None:
        self.sent += sound
        if self._sends_binary:
            frame = binary.encode_audio_chunk(self._client.session_id, self._seq, int(time.time() * 1000), sound)
            await self._client.socket.socket.send_bytes(frame)
            self._seq += 1
        else:
            await self._client.chunk(sound)

    async def _final(self) -> None:
        if self._sends_binary:
            frame = binary.encode_final(self._client.session_id, self._seq, int(time.time() * 1000))
            await self._client.socket.socket.send_bytes(frame)
            self._seq += 1
        else:
            await self._client.chunk(is_final=True)

    def jobs(self) -> list[tuple[str, Frame]]:
        """What the nodes got of this session, in the order of speech, each with its node."""
        found = [(node.node_id, job) for node in self._peers.nodes for job in node.jobs]
        mine = [(node_id, job) for node_id, job in found if job["session_id"] == self._client.known_as(node_id)]
        return sorted(mine, key=lambda item: item[1]["utterance_index"])

    def parts(self) -> list[Part]:
        jobs = [job for _, job in self.jobs()]
        turns = list(dict.fromkeys(job["turn_id"] for job in jobs))
        return [
            Part(
                utterance_index=job["utterance_index"],
                duration_ms=_duration_ms(job),
                turn=turns.index(job["turn_id"]),
                is_manual=job.get("is_manual_cut", False),
                is_timeout=job.get("is_timeout_triggered", False),
                is_max_duration=job.get("is_max_duration_triggered", False),
                padding_ms=job["padding_ms"],
            )
            for job in jobs
        ]

    def outcomes(self) -> list[Frame]:
        kinds = ("translation_result", "missing_result")
        return [frame for frame in self._client.socket.heard if frame["type"] in kinds]

    def heard_audio(self) -> bytes:
        return b"".join(base64.b64decode(job["audio"]) for _, job in self.jobs())

    def _is_answered(self) -> bool:
        jobs = self.jobs()
        heard_bytes = sum(len(job["audio"]) * 3 // 4 - job["audio"][-2:].count("=") for _, job in jobs)
        return heard_bytes == len(self.sent) and len(self.outcomes()) == len(jobs)


def _duration_ms(job: Frame) -> int:
    return audio.duration_ms(base64.b64decode(job["audio"]), job["audio_format"], job["sample_rate"])


def turns_as_told() -> list[int]:
    """How long each turn lasts for a listener: a hesitation belongs to what follows."""
    lengths, before_ms = [], 0
    for turn in TURNS:
        before_ms += turn.speech_ms
        if turn.ending is not Ending.HESITATION:
            lengths.append(before_ms)
            before_ms = 0
    return lengths


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_three_kinds_of_clients_see_the_same_utterances(server: RedisProcess) -> None:
    assert sum(turn.speech_ms + turn.gap_ms for turn in TURNS) >= 180_000
    loop = jumping.TellingLoop()

    async def story() -> None:
        changes = {"sessions__use_binary_frame": True}  # those who speak JSON ignore it
        # Redis lives in its own time, which is slow from here.
        patience = {"redis__timeout_ms": 3_600_000, "job__timeout_base_ms": 3_600_000, "job__timeout_max_ms": 3_600_000}
        async with (
            scheduler_by(loop.time, server.url, **changes, **patience) as (scheduler, _),
            field(scheduler.port) as peers,
        ):
            await _converse(peers)

    jumping.run(loop, story)


async def _converse(peers: Field) -> None:
    for _ in range(NODES):
        await peers.node(advanced_features=["turns"])
    terms = {"src_lang": "auto", "tgt_lang": "en", "mode": "two_way_auto", "lang_a": "zh", "lang_b": "en"}
    as_opus, as_pcm16, as_frames = [await peers.client(**terms) for _ in range(3)]
    assert as_frames.ack["use_binary_frame"] is True
    talkers = [Talker(as_opus, peers), Talker(as_pcm16, peers), Talker(as_frames, peers, sends_binary=True)]
    pcm16 = recordings.pcm16(TURNS)
    beating = asyncio.create_task(_keep_beating(peers))
    async with asyncio.TaskGroup() as together:
        for talker, conversation in zip(talkers, (recordings.opus(TURNS), pcm16, pcm16), strict=True):
            together.create_task(talker.tell(conversation))
    beating.cancel()

    opus_parts, *others = (talker.parts() for talker in talkers)
    assert [parts == opus_parts for parts in others] == [True, True], (opus_parts, others)
    assert {job["audio_format"] for _, job in talkers[0].jobs()} == {"opus"}
    assert {job["audio_format"] for talker in talkers[1:] for _, job in talker.jobs()} == {"pcm16"}
    for talker in talkers:
        _check(talker)


async def _keep_beating(peers: Field) -> None:
    while True:
        await asyncio.sleep(10)
        for node in peers.nodes:
            await node.socket.send(heartbeat(node.node_id))


def _check(talker: Talker) -> None:
    parts = talker.parts()
    assert talker.heard_audio() == talker.sent  # every byte in one utterance, in order
    assert [part.utterance_index for part in parts] == list(range(len(parts)))
    assert [outcome["utterance_index"] for outcome in talker.outcomes()] == list(range(len(parts)))
    assert {outcome["type"] for outcome in talker.outcomes()} == {"translation_result"}

    lengths = [sum(part.duration_ms for part in parts if part.turn == turn) for turn in range(parts[-1].turn + 1)]
    assert lengths == turns_as_told()  # no sentence cut in two, no two sentences in one
    endings = [turn.ending for turn in TURNS if turn.ending is not Ending.HESITATION]
    closing = [part for part in parts if not part.is_max_duration]
    assert [part.is_timeout for part in closing] == [ending is Ending.PAUSE for ending in endings]
    assert [part.is_manual for part in closing] == [ending is not Ending.PAUSE for ending in endings]

    monologue = lengths.index(MONOLOGUE_MS)
    nodes = [node_id for (node_id, _), part in zip(talker.jobs(), parts, strict=True) if part.turn == monologue]
    of_monologue = [part for part in parts if part.turn == monologue]
    assert [part.is_max_duration for part in of_monologue] == [True, True, False]
    assert len(set(nodes)) == 1  # the closing job too
    assert [part.turn for part in parts if part.is_max_duration] == [monologue] * 2
    assert len({node_id for node_id, _ in talker.jobs()}) > 1  # other turns go elsewhere
