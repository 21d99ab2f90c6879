"""What a client says, frame by frame."""

import base64
import json
from typing import Any

import pytest

from lingua_scheduler.conformance.book import Book, CheckVerdict
from lingua_scheduler.conformance.checks import CLIENT_CHECKS, PeerProfile
from lingua_scheduler.conformance.client_record import ClientRecord, EndedSpeech

INIT = {"type": "session_init", "client_version": "1", "platform": "test", "src_lang": "auto", "tgt_lang": "zh"}
AUDIO = base64.b64encode(bytes(320)).decode()


class Told:
    """A record whose session is open."""

    def __init__(self, profile: PeerProfile = PeerProfile.STANDARD) -> None:
        self.book = Book(CLIENT_CHECKS, profile)
        self.record = ClientRecord(self.book)
        self.record.connected()
        self.say(INIT)
        self.record.opened("s-1", "token", use_binary=False)

    def say(self, frame: dict[str, Any]) -> None:
        self.record.heard(json.dumps(frame))

    def chunk(self, seq: int, *, is_final: bool = False, session_id: str = "s-1") -> None:
        said = {"type": "audio_chunk", "session_id": session_id, "seq": seq, "is_final": is_final, "payload": AUDIO}
        self.say(said)

    def whole(self, index: int) -> None:
        said = {"type": "utterance", "session_id": "s-1", "utterance_index": index, "manual_cut": True}
        said |= {"src_lang": "en", "tgt_lang": "zh", "audio": AUDIO, "audio_format": "pcm16", "sample_rate": 16_000}
        self.say(said)

    @property
    def failed(self) -> list[str]:
        return self.book.of(CheckVerdict.FAILED)


def test_chunks_become_utterances() -> None:
    told = Told()
    told.chunk(0)
    told.chunk(1, is_final=True)
    told.chunk(2, is_final=True)
    assert told.failed == []
    assert told.record.ended == [EndedSpeech(0, is_whole=False), EndedSpeech(1, is_whole=False)]
    assert told.record.sends_chunks


def test_a_gap_in_seq() -> None:
    told = Told()
    told.chunk(0)
    told.chunk(2)
    assert told.failed == ["seq"]


def test_after_a_resume_a_wrong_seq_is_a_wrong_replay() -> None:
    told = Told()
    told.chunk(0)
    told.record.connected()
    told.say(INIT)
    told.record.resumed(1)
    told.chunk(0)
    assert told.failed == ["replay"]


@pytest.mark.parametrize(("first", "failed"), [(0, []), (2, []), (9, []), (1, ["seq"])])
def test_the_session_after_a_lost_one_begins_anew_or_counts_on(first: int, failed: list[str]) -> None:
    told = Told()
    told.chunk(0)
    told.chunk(1, is_final=True)
    # It was resumed before it was lost, and nothing was said meanwhile.
    told.record.resumed(2)
    told.record.opened("s-2", "token", use_binary=False)
    told.chunk(first, is_final=True, session_id="s-2")
    told.chunk(first + 1, is_final=True, session_id="s-2")
    assert told.failed == failed
    if not failed:
        assert told.record.ended == [EndedSpeech(first, is_whole=False), EndedSpeech(first + 1, is_whole=False)]
        assert told.record.contiguous == first - 1


def test_the_first_session_counts_from_0() -> None:
    told = Told()
    told.chunk(1)
    assert told.failed == ["seq"]


def test_another_session() -> None:
    told = Told()
    told.chunk(0, session_id="s-2")
    assert told.failed == ["session-id"]


def test_whole_utterances_count_up_and_are_not_repeated_after_their_outcome() -> None:
    told = Told()
    told.whole(3)
    told.whole(3)
    assert told.record.repeated == {3}
    told.record.outcome(EndedSpeech(3, is_whole=True))
    assert told.failed == []
    told.whole(3)
    assert told.failed == ["no-repeats"]
    told.whole(2)
    assert told.failed == ["utterance-index", "no-repeats"]


def test_outcomes_up_to_the_first_gap() -> None:
    record = Told().record
    assert record.contiguous == -1
    for number in (0, 1, 3):
        record.outcome(EndedSpeech(number, is_whole=True))
    assert record.contiguous == 1


def test_nothing_comes_before_the_acknowledgement() -> None:
    told = Told()
    told.record.connected()
    told.chunk(0)
    told.say(INIT)
    told.chunk(0)
    assert told.failed == ["init-first", "waits-for-ack"]


def test_a_binary_frame_that_was_not_agreed_on() -> None:
    told = Told()
    told.record.heard(b"\x00")
    assert told.failed == ["binary-frames"]


@pytest.mark.parametrize(("name", "text"), [("src_lang", "not a tag"), ("tgt_lang", "auto")])
def test_languages_are_tags(name: str, text: str) -> None:
    told = Told()
    told.record.connected()
    told.say(INIT | {name: text})
    assert told.failed == ["init-fields"]
