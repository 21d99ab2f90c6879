"""People who talk in rooms: pages as they exist, and clients that read the newer messages."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.field_room import RoomPage
from tests.support.peers import FakeNode, Frame, result_of
from tests.support.speech import packet_of
from tests.support.waiting import until

WORD_CHARS = 24
# A tenth of a second of samples, which no one hears as speech.
SOUND = b"\x10\x00" * 1600

Work = Callable[[FakeNode, Frame], Awaitable[None]]


def words_in(job: Frame) -> str:
    """What was said in the audio of a job."""
    return base64.b64decode(job["audio"])[2 : 2 + WORD_CHARS].decode().rstrip(".")


def translated(job: Frame, **more: Any) -> Frame:
    """The parts of a result: what was said, and the language it is in."""
    words = words_in(job)
    is_translated = job["pipeline"]["use_nmt"]
    speech = base64.b64encode(SOUND).decode() if job["pipeline"]["use_tts"] else ""
    return {
        "text_asr": words,
        "text_translated": f"{job['tgt_lang']}:{words}" if is_translated else "",
        "tts_audio": speech,
        "tts_format": "pcm16",
    } | more


async def translate(node: FakeNode, job: Frame) -> None:
    await node.socket.send(result_of(job, node.node_id, **translated(job)))


class Talker(RoomPage):
    """A member that speaks. `events` as a newer client says it: it reads everything, and knows what it has."""

    async def enter_or_create(self, code: str, **fields: Any) -> str:
        if code:
            await self.enter(code, **fields)
            return code
        return await self.create(**fields)

    async def say(self, words: str, seq: int = 0) -> None:
        """One utterance of two frames; what follows at once would be a part of it."""
        before = len(self._ended())
        for is_final in (False, True):
            payload = base64.b64encode(packet_of(words)).decode()
            await self.send(
                "audio_chunk", session_id=self.session_id, seq=2 * seq + is_final, is_final=is_final, payload=payload
            )

        await until(lambda: len(self._ended()) > before, what="the utterance has ended")

    def _ended(self) -> list[Frame]:
        return [frame for frame in self.of("ui_event") if frame["event"] == "INPUT_ENDED"]

    def outcomes(self) -> list[Frame]:
        return [frame for frame in self.heard if frame["type"] in ("translation_result", "missing_result")]

    def texts(self) -> list[str]:
        return [str(frame.get("text_translated", frame["type"])) for frame in self.outcomes()]

    def from_others(self) -> list[Frame]:
        return [frame for frame in self.outcomes() if frame["session_id"] != self.session_id]
