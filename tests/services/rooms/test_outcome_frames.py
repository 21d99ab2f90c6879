"""Outcomes are marked as late without a change of anything else, and one that never came says so."""

from types import SimpleNamespace
from typing import cast

from lingua_scheduler.domain.rooms.feeds import RoomUtterance
from lingua_scheduler.protocol.bus import RoomSaid
from lingua_scheduler.services.rooms.outcome_frames import NEVER_CAME, answer_in, late, lost, marked_late
from lingua_scheduler.services.rooms.room_here import Heard, RoomHere
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.session import MissingResult, SessionCloseAck

SPOKEN = RoomUtterance(seq=7, speaker="bob", utterance_index=3, source="en", languages=("zh",))
MISSING = MissingResult(session_id="bob", utterance_index=3, reason="no_text", created_at_ms=5, room_seq=7, lang="zh")


def said(message: MissingResult | SessionCloseAck) -> RoomSaid:
    return RoomSaid("default/483920", "id", SPOKEN, "zh", codec.encode(message))


def test_only_the_mark_differs() -> None:
    marked = answer_in(RoomSaid("default/483920", "id", SPOKEN, "zh", marked_late(said(MISSING))))
    assert isinstance(marked, MissingResult)
    assert marked.late
    marked.late = False
    assert marked == MISSING


def test_both_forms_are_marked() -> None:
    heard = late(Heard(said(MISSING), MISSING))
    assert answer_in(heard.said) == heard.plain
    assert heard.plain is not None
    assert heard.plain.late
    assert not MISSING.late
    assert late(Heard(said(MISSING))).plain is None


def test_a_frame_that_is_no_outcome_is_left_as_it_is() -> None:
    other = said(SessionCloseAck(session_id="bob"))
    assert answer_in(other) is None
    assert marked_late(other) == other.frame


def test_one_that_never_came_has_the_place_and_the_reason() -> None:
    here = cast("RoomHere", SimpleNamespace(state=SimpleNamespace(name="default/483920", room_id="id")))
    missing = answer_in(lost(here, SPOKEN, "zh"))
    assert isinstance(missing, MissingResult)
    assert (missing.room_seq, missing.lang, missing.detail) == (7, "zh", NEVER_CAME)
