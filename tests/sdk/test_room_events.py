"""Messages of a room as events: with names, once, and in words of the listener."""

from typing import Any

import pytest

from lingua_sdk.protocol.session import (
    AsrPartial,
    MissingResult,
    RoomCaption,
    RoomHistory,
    RoomLine,
    RoomMember,
    RoomMembers,
    RoomMessage,
    RoomSpeaking,
    TranslationResult,
)
from lingua_sdk.room_events import (
    MAX_NAMES,
    Caption,
    EarlierLine,
    History,
    MembersChanged,
    RoomPerson,
    RoomReading,
    Said,
    Speaking,
    TextMessage,
    Unheard,
    in_english,
)

CODE = "483920"


def members(*ids: str, **more: Any) -> RoomMembers:
    found = [
        RoomMember(
            participant_id=one, session_id=one, display_name=f"name of {one}", raw_voice_preferences={}, joined_at=""
        )
        for one in ids
    ]
    return RoomMembers(room_code=CODE, members=found, **more)


def result(speaker: str = "a", seq: int | None = 1, **more: Any) -> TranslationResult:
    said: dict[str, Any] = {"text_asr": "hello", "text_translated": "olá", "tts_audio": "AAE=", "tts_format": "pcm16"}
    about: dict[str, Any] = {
        "utterance_index": 0,
        "job_id": "j",
        "trace_id": "t",
        "scheduler_sent_at_ms": 0,
        "lang": "pt",
    }
    return TranslationResult(session_id=speaker, room_seq=seq, **about | said | more)


def test_who_is_there_is_told_and_names_what_follows() -> None:
    reading = RoomReading("own")
    event = reading.read(members("a", "own", locked=True, guests=3))
    assert event == MembersChanged(
        (RoomPerson("a", "name of a", "", "", ""), RoomPerson("own", "name of own", "", "", "")), True, 3
    )
    # The one that spoke has left.
    reading.read(members("own"))
    assert reading.read(result()) == Said("a", "name of a", "hello", "olá", "pt", 1, b"\x00\x01", "pcm16")
    assert [one.session_id for one in reading.members] == ["own"]


def test_an_outcome_that_comes_again_is_none_and_one_without_a_number_is_told() -> None:
    reading = RoomReading("own")
    assert reading.read(result(seq=4)) is not None
    assert reading.read(result(seq=4)) is None
    assert reading.read(result(seq=None)) is not None
    missing = MissingResult(
        session_id="a", utterance_index=1, reason="job_failed", created_at_ms=0, code="JOB_TIMEOUT", room_seq=5
    )
    assert reading.read(missing) == Unheard("a", "", 5, "job_failed", "JOB_TIMEOUT")
    assert reading.read(missing) is None
    assert reading.seqs.last == 5


def test_own_speech_is_marked_and_late_ones_are() -> None:
    event = RoomReading("own").read(result("own", late=True, text_translated="", tts_audio=""))
    assert isinstance(event, Said)
    assert (event.is_own, event.is_late, event.text, event.translated, event.speech) == (True, True, "hello", "", b"")


def test_one_without_text_that_comes_behind_a_later_one_is_late() -> None:
    reading = RoomReading("own")
    reading.read(result(seq=7))
    missing = MissingResult(session_id="a", utterance_index=1, reason="job_failed", created_at_ms=0, room_seq=6)
    assert reading.read(missing) == Unheard("a", "", 6, "job_failed", is_late=True)


def test_speech_can_be_had_as_samples() -> None:
    event = RoomReading("own").read(result())
    assert isinstance(event, Said)
    assert event.audio().samples == b"\x00\x01"


def test_captions_who_speaks_and_messages() -> None:
    reading = RoomReading("own")
    reading.read(members("a"))
    caption = RoomCaption(room_code=CODE, session_id="a", utterance_index=0, text="he", lang="en", is_final=False)
    assert reading.read(caption) == Caption("a", "name of a", "he", "en", is_final=False)
    speaking = RoomSpeaking(room_code=CODE, session_id="a", speaking=True)
    assert reading.read(speaking) == Speaking("a", "name of a", is_speaking=True)
    written = RoomMessage(room_code=CODE, session_id="a", text="hi", sent_at_ms=5)
    assert reading.read(written) == TextMessage("a", "name of a", "hi", 5)
    partial = AsrPartial(session_id="own", utterance_index=0, job_id="j", text="I", is_final=False, trace_id="t")
    assert reading.partial(partial) == Caption("own", "", "I", "", is_final=False)


def test_the_history_is_told_and_what_is_in_it_is_not_told_again() -> None:
    reading = RoomReading("own")
    lines = [
        RoomLine(session_id="a", display_name="Ann", text="olá", lang="pt", text_asr="hello", room_seq=3, at_ms=1),
        RoomLine(session_id="a", text="hi", at_ms=2),
    ]
    assert reading.read(RoomHistory(room_code=CODE, lines=lines)) == History(
        (EarlierLine("a", "Ann", "olá", "hello", 1), EarlierLine("a", "", "hi", "hi", 2))
    )
    assert reading.read(result(seq=3)) is None
    assert reading.read(result(seq=4)) is not None


def test_names_of_those_who_left_are_not_kept_for_ever() -> None:
    reading = RoomReading("own")
    reading.read(members("own"))
    for number in range(2 * MAX_NAMES):
        reading.read(members("own", f"s{number}"))
    assert len(reading._names) <= MAX_NAMES
    assert reading.read(result("own")) is not None
    assert reading._name("own") == "name of own"


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("房间不存在 (there is no such room)", "there is no such room"),
        ("语言代码无效 (src_lang: not a tag (BCP 47))", "src_lang: not a tag (BCP 47)"),
        ("the room is full (100 members)", "the room is full (100 members)"),
        ("房间已满", "房间已满"),
        ("", ""),
    ],
)
def test_sentences_are_in_english_where_there_are_two(told: str, text: str) -> None:
    assert in_english(told) == text
