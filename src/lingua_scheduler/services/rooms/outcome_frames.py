"""The frame of an outcome in a room, read and written again: as late, or as one that never came."""

import msgspec

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.rooms.feeds import RoomUtterance
from lingua_scheduler.protocol.bus import RoomSaid
from lingua_scheduler.services.rooms.room_here import Heard, RoomHere
from lingua_scheduler.services.sessions.remembered import ANSWERS, Answer
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import MissingResult

NEVER_CAME = "the instance that translated it is gone"


def answer_in(said: RoomSaid) -> Answer | None:
    answer = codec.decode_for_client(said.frame)
    return answer if isinstance(answer, ANSWERS) else None


def marked_late(said: RoomSaid) -> bytes:
    answer = answer_in(said)
    return said.frame if answer is None else codec.encode(msgspec.structs.replace(answer, late=True))


def late(heard: Heard) -> Heard:
    said = msgspec.structs.replace(heard.said, frame=marked_late(heard.said))
    return Heard(said, None if heard.plain is None else msgspec.structs.replace(heard.plain, late=True))


def lost(here: RoomHere, spoken: RoomUtterance, language: str) -> RoomSaid:
    frame = codec.encode(
        MissingResult(
            session_id=spoken.speaker,
            utterance_index=spoken.utterance_index,
            reason="job_failed",
            created_at_ms=int(wall_ms()),
            detail=NEVER_CAME,
            room_seq=spoken.seq,
            lang=language,
        )
    )
    return RoomSaid(str(here.state.name), here.state.room_id, spoken, language, frame)
