"""The speaking process: people who speak at their own pace, in chunks of 200 ms; nodes that answer at once."""

import asyncio
import random
import sys
import time
from contextlib import suppress
from itertools import count

import msgspec

from bench import audio
from bench.connecting import introduce, join, keep_beating
from bench.measure import percentile
from bench.obeying import LoadFailed, obey
from bench.orders import Cast, Speech, Spoken
from bench.peers import ASSIGN, Client, Node, Talker
from lingua_sdk.protocol import binary, codec
from lingua_sdk.protocol.session import AudioChunk, SessionInit

CHUNK_S = 0.2
# Ten packets of 20 ms, with their lengths.
CHUNK_BYTES = 10 * audio.OPUS_STEP_BYTES
# Of an utterance, and between two: as chunks, drawn anew each time so that nobody marches in step.
UTTERANCE_CHUNKS = (5, 20)
PAUSE_CHUNKS = (3, 15)
ANSWER_BYTES = 640
ANSWER_WITHIN_S = 30.0

_MISSING = b'{"type":"missing_result",'
_DIALECT = b'"dialect":"'
_INDEX = b'"utterance_index":'


_MARKS = count()


class Speaker(Client):
    """One person; a chunk waits for nobody's answer."""

    def __init__(self, hall: "Hall", dice: random.Random) -> None:
        super().__init__(hall)
        self._hall = hall
        self._dice = dice
        self._loop = asyncio.get_running_loop()
        # Nodes know sessions by names of their own; the dialect comes through as it is.
        self._mark = str(next(_MARKS))
        self._audio = audio.speech(CHUNK_BYTES, "opus")
        self._final_tail = b""
        self._seq = 0
        self._chunks_left = 0
        self._is_speaking = False
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def introduce(self) -> None:
        about = SessionInit(client_version="bench", platform="bench", src_lang="zh", tgt_lang="en", dialect=self._mark)
        self.send(codec.encode(about))

    def prepare_chunks(self) -> None:
        frame = codec.encode(AudioChunk(session_id=self._session_id, seq=0, is_final=False, payload=self._audio))
        self._head, _, self._tail = frame.partition(b'"seq":0')
        self._head += b'"seq":'
        self._final_tail = self._tail.replace(b"false", b"true", 1)

    def begin(self) -> None:
        """In the middle of an utterance or of a pause, as one finds people who have talked for a while."""
        chunks, pause = self._dice.randint(*UTTERANCE_CHUNKS), self._dice.randint(*PAUSE_CHUNKS)
        into = self._dice.randrange(chunks + pause)
        if into < chunks or not self._hall.speech.has_ends:
            self._chunks_left, wait = max(1, chunks - into), 0
        else:
            self._chunks_left, wait = chunks, chunks + pause - into
        self._due_s = self._loop.time() + (wait + self._dice.random()) * CHUNK_S
        self._arm()

    def end(self) -> bool:
        """Say no more, but for the chunk that ends what is being said; True if there is one."""
        if self._is_speaking:
            self._chunks_left = 1
        elif self._timer is not None:
            self._timer.cancel()
        return self._is_speaking

    def on_refused(self, payload: bytes) -> None:
        """A scheduler at its limit refuses, which is worth knowing and no reason to stop."""
        if not payload.startswith(_MISSING):
            super().on_refused(payload)
            return
        self._answered += 1
        self._began_ns.popleft()
        self._hall.refused(self.refusal(payload))

    def _arm(self) -> None:
        self._timer = self._loop.call_at(self._due_s, self._say_chunk)

    def _say_chunk(self) -> None:
        late_s = self._loop.time() - self._due_s
        self._chunks_left -= 1
        is_final = self._hall.speech.has_ends and self._chunks_left <= 0
        if self._hall.speech.is_binary:
            now_ms = int(time.time() * 1000)
            self.send_binary(
                binary.encode_audio_chunk(self._session_id, self._seq, now_ms, self._audio, is_final=is_final)
            )
        else:
            self.send(self._head, b"%d" % self._seq, self._final_tail if is_final else self._tail)
        self._seq += 1
        self._is_speaking = not is_final
        self._due_s += CHUNK_S
        if is_final:
            left_ns = time.perf_counter_ns()
            self._began_ns.append(left_ns)
            self._hall.ended(self._mark, self._said, left_ns)
            self._said += 1
            self._chunks_left = self._dice.randint(*UTTERANCE_CHUNKS)
            self._due_s += self._dice.randint(*PAUSE_CHUNKS) * CHUNK_S
        self._hall.said_chunk(late_s)
        if not self._hall.is_over:
            self._arm()


class TimedNode(Node):
    """Tells the hall which utterance came, before it answers."""

    def __init__(self, node_id: str, slots: int, hall: "Hall") -> None:
        super().__init__(node_id, slots, False, hall)
        self._hall = hall

    def on_text(self, payload: bytes) -> None:
        if payload.startswith(ASSIGN):
            mark = payload[payload.rindex(_DIALECT) + len(_DIALECT) :].partition(b'"')[0]
            index = payload[payload.index(_INDEX) + len(_INDEX) :].partition(b",")[0]
            self._hall.assigned(mark.decode(), int(index))
        super().on_text(payload)


class Hall:
    """All who speak and all who answer; the judge of how it goes."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._nodes: list[TimedNode] = []
        self._speakers: list[Speaker] = []
        # When the final chunk of an utterance left whose job is not at a node yet.
        self._left_ns: dict[tuple[str, int], int] = {}
        self._unanswered = self._ending = 0
        self._failure = ""
        self._trouble = asyncio.Event()
        self._quiet = asyncio.Event()
        self.speech = Speech()
        self.is_over = True
        self._count_anew()

    def _count_anew(self) -> None:
        self._began_s, self._began_cpu_s = time.perf_counter(), time.process_time()
        self._assignments: list[tuple[float, float]] = []
        self._answered_ms: list[float] = []
        self._late_ms: list[float] = []
        self._ends = self._again = self._refused = 0
        self._complaint = ""

    async def connect(self) -> None:
        cast = self._cast
        self._nodes = [TimedNode(f"bench-{number}", cast.slots, self) for number in range(cast.nodes)]
        await join(self._nodes, cast.port, cast.node_key)
        for node in self._nodes:
            node.answer_with(audio.speech(ANSWER_BYTES, "pcm16"))
        keep_beating(self._nodes)
        self._speakers = [Speaker(self, random.Random(number)) for number in range(cast.talkers)]
        await introduce(self._speakers, cast.port, cast.talker_key)
        for speaker in self._speakers:
            speaker.prepare_chunks()

    async def carry_out(self, speech: Speech) -> Spoken:
        """Nobody stops when the answer is given: the next command finds them speaking."""
        self._count_anew()
        if speech.seconds:
            await self._speak(speech)
        else:
            await self._end_all()
        if self._failure:
            raise LoadFailed(self._failure)
        return Spoken(
            chunks=len(self._late_ms),
            utterances=self._ends,
            took_s=time.perf_counter() - self._began_s,
            cpu_s=time.process_time() - self._began_cpu_s,
            assigned_ms=_middle_and_tail([took_ms for _, took_ms in self._assignments]),
            assignments=self._assignments,
            answered_ms=_middle_and_tail(self._answered_ms),
            late_ms=percentile(sorted(self._late_ms), 0.99) if self._late_ms else 0.0,
            again=self._again,
            refused=self._refused,
            complaint=self._complaint,
        )

    async def _speak(self, speech: Speech) -> None:
        self.speech = speech
        if self.is_over:
            self.is_over = False
            for speaker in self._speakers:
                speaker.begin()
        with suppress(TimeoutError):
            async with asyncio.timeout(speech.seconds):
                await self._trouble.wait()

    async def _end_all(self) -> None:
        self.is_over = True
        self.speech = msgspec.structs.replace(self.speech, has_ends=True)
        self._ending = sum([speaker.end() for speaker in self._speakers])
        self._quiet.clear()
        self._look_if_quiet()
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._quiet.wait()
        except TimeoutError:
            self.failed(f"{self._unanswered} utterances had no answer after {ANSWER_WITHIN_S:g} s")

    def said_chunk(self, late_s: float) -> None:
        self._late_ms.append(late_s * 1000)
        if self.is_over:
            self._ending -= 1
            self._look_if_quiet()

    def ended(self, speaker: str, index: int, left_ns: int) -> None:
        self._left_ns[speaker, index] = left_ns
        self._unanswered += 1
        self._ends += 1

    def assigned(self, speaker: str, index: int) -> None:
        left_ns = self._left_ns.pop((speaker, index), None)
        if left_ns is None:
            self._again += 1
        else:
            now_ns = time.perf_counter_ns()
            self._assignments.append((now_ns / 1e9, (now_ns - left_ns) / 1e6))

    def done(self, _: Talker, left_ns: int) -> None:
        self._answered_ms.append((time.perf_counter_ns() - left_ns) / 1e6)
        self._unanswered -= 1
        self._look_if_quiet()

    def refused(self, complaint: str) -> None:
        self._refused += 1
        self._complaint = self._complaint or complaint
        self._unanswered -= 1
        self._look_if_quiet()

    def failed(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._trouble.set()
        self._quiet.set()

    def _look_if_quiet(self) -> None:
        if self.is_over and not self._unanswered and not self._ending:
            self._quiet.set()


def _middle_and_tail(times_ms: list[float]) -> tuple[float, float] | None:
    times_ms.sort()
    return (percentile(times_ms, 0.5), percentile(times_ms, 0.99)) if times_ms else None


def main() -> None:
    obey(Hall(msgspec.json.decode(sys.argv[1], type=Cast)), Speech)


if __name__ == "__main__":
    main()
