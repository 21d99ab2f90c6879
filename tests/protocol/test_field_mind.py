"""What the fake node makes of a job is what the recordings show of the real one."""

import base64
from typing import Any

import pytest

from tests.support.field_frames import LID_NOT_LOADED
from tests.support.field_mind import Mind, translation
from tests.support.field_speech import NOISE, SILENCE, Slice, opus, say, sentence_of
from tests.support.peers import Frame

MANUAL = {"is_manual_cut": True}
TIMEOUT = {"is_timeout_triggered": True}
MAX_DURATION = {"is_max_duration_triggered": True}
AUTO = {"src_lang": "auto", "tgt_lang": "en", "lang_a": "zh", "lang_b": "en"}
MIDDLE = "bravo charlie delta"
LONG = "foxtrot golf hotel india juliet kilo lima mike"


def job(index: int, slices: list[Slice], **more: Any) -> Frame:
    return {
        "job_id": f"job-{index}",
        "attempt_id": 1,
        "session_id": "s-9A277D02",
        "utterance_index": index,
        "src_lang": "en",
        "tgt_lang": "zh",
        "audio": base64.b64encode(opus(slices)).decode(),
        "audio_format": "opus",
        "trace_id": "t",
        "turn_id": f"turn-{index}",
    } | more


def answers(mind: Mind, order: Frame) -> list[Frame]:
    if refused := mind.refusal(order, "node-1"):
        return [refused]
    collected = mind.collect(order)
    return [] if collected is None else mind.answers(order, collected, "node-1", 12)


def texts(mind: Mind, order: Frame) -> list[tuple[str, str]]:
    return [(answer["text_asr"], answer["text_translated"]) for answer in answers(mind, order)]


@pytest.mark.parametrize(
    ("flags", "text", "is_translated"),
    [
        (TIMEOUT, "alpha", False),
        (TIMEOUT, MIDDLE, False),
        (TIMEOUT, LONG, True),
        (MANUAL, "alpha", False),
        (MANUAL, "uniform", True),
        (MANUAL, MIDDLE, True),
        (MANUAL | TIMEOUT, MIDDLE, True),
        (MANUAL | MAX_DURATION, LONG, True),
        (MANUAL, LONG, True),
    ],
)
def test_flags_and_length_decide_whether_a_text_is_translated(flags: Frame, text: str, is_translated: bool) -> None:
    translated = translation(text, "en", "zh") if is_translated else ""
    assert texts(Mind(), job(0, say(text), **flags)) == [(text, translated)]


def test_a_text_held_back_comes_with_no_later_job() -> None:
    mind = Mind()
    assert texts(mind, job(0, say(MIDDLE), **TIMEOUT)) == [(MIDDLE, "")]
    assert texts(mind, job(1, say(LONG), **MANUAL)) == [(LONG, translation(LONG, "en", "zh"))]


def test_a_job_without_a_flag_is_not_answered() -> None:
    assert answers(Mind(), job(0, say(LONG))) == []


def test_a_short_part_is_kept_for_the_job_that_closes_its_turn_even_a_silent_one() -> None:
    mind = Mind()
    text = sentence_of(8)
    assert answers(mind, job(0, say(text), turn_id="turn-0", **MAX_DURATION)) == []
    closing = answers(mind, job(1, [NOISE] * 65, turn_id="turn-0", **MANUAL))
    assert [(answer["job_id"], answer["text_asr"]) for answer in closing] == [("job-1", text)]
    assert closing[0]["text_translated"] == translation(text, "en", "zh")
    audio = closing[0]["extra"]["asr_diagnostics"]["audio_segmentation"]
    assert audio == {"node_audio_segment_count": 1, "audio_ms": 9_300}


def test_parts_of_24_seconds_in_one_turn_come_as_text_and_then_translated_as_a_whole() -> None:
    """As recorded: 9 880 ms kept, 19 760 ms answered with text only, all of it with the closing job."""
    mind = Mind()
    words = sentence_of(24).split()
    parts = [" ".join(words[:19]), " ".join(words[19:38]), " ".join(words[38:])]
    assert answers(mind, job(0, say(parts[0]), turn_id="turn-0", **MAX_DURATION)) == []
    assert texts(mind, job(1, say(parts[1]), turn_id="turn-0", **MAX_DURATION)) == [(" ".join(words[:38]), "")]
    whole = " ".join(words)
    assert texts(mind, job(2, say(parts[2]), turn_id="turn-0", **MANUAL)) == [(whole, translation(whole, "en", "zh"))]


def test_after_a_long_part_a_silent_closing_job_loses_the_translation() -> None:
    mind = Mind()
    text = sentence_of(11)
    assert texts(mind, job(0, say(text), turn_id="turn-0", **MAX_DURATION)) == [(text, "")]
    (closing,) = answers(mind, job(1, [SILENCE] * 65, turn_id="turn-0", **MANUAL))
    assert (closing["text_asr"], closing["extra"]["reason"]) == ("", "NO_TEXT_ASSIGNED")


def test_a_part_with_a_turn_of_its_own_is_translated_at_once() -> None:
    mind = Mind()
    for index in range(2):
        text = sentence_of(9, start=20 * index)
        order = job(index, say(text), turn_id=f"turn-0-{index}", **MANUAL, **MAX_DURATION)
        assert texts(mind, order) == [(text, translation(text, "en", "zh"))]


def test_a_node_may_name_the_jobs_it_merged() -> None:
    mind = Mind(names_merged_jobs=True)
    answers(mind, job(0, say(MIDDLE), turn_id="turn-0", **MAX_DURATION))
    merged, closing = answers(mind, job(1, say(LONG), turn_id="turn-0", **MANUAL))
    assert (merged["job_id"], merged["extra"]["reason"]) == ("job-0", "NO_TEXT_ASSIGNED")
    assert closing["text_asr"] == f"{MIDDLE} {LONG}"


def test_the_same_text_again_is_not_answered_in_its_session() -> None:
    mind = Mind()
    assert len(answers(mind, job(0, say(MIDDLE), **MANUAL))) == 1
    assert answers(mind, job(1, say(MIDDLE), **MANUAL)) == []
    assert len(answers(mind, job(2, say(MIDDLE), session_id="s-0B330037", **MANUAL))) == 1
    assert len(answers(mind, job(3, say(LONG), **MANUAL))) == 1
    assert len(answers(mind, job(4, say(MIDDLE), **MANUAL))) == 1


@pytest.mark.parametrize("room", [NOISE, SILENCE])
def test_silence_is_answered_as_recorded(room: Slice) -> None:
    (answer,) = answers(Mind(), job(1, [room] * 13, **MANUAL | AUTO))
    texts_and_speech = [answer[name] for name in ("text_asr", "text_translated", "tts_audio", "tts_format")]
    assert (answer["success"], texts_and_speech) == (True, ["", "", "", "opus"])
    extra = answer["extra"]
    assert extra["reason"] == "ASR_EMPTY"
    assert (extra["language_probability"], extra["language_probabilities"]) == (None, None)
    assert extra["detected_src_lang"] == "zh"
    assert extra["asr_diagnostics"] == {"audio_segmentation": {"node_audio_segment_count": 1, "audio_ms": 260}}
    assert (answer["asr_quality_level"], answer["reason_codes"]) == ("bad", ["low_quality_audio"])
    assert answer["segments_meta"] == {"count": 0, "max_gap": 0, "avg_duration": 0}


def test_speech_is_answered_as_recorded() -> None:
    (answer,) = answers(Mind(), job(0, say("alpha bravo charlie delta echo foxtrot") + [NOISE] * 175, **MANUAL | AUTO))
    assert answer["text_translated"] == "[en>zh] ALPHA BRAVO CHARLIE DELTA ECHO FOXTROT"
    assert answer["extra"]["language_probabilities"] == {"en": 0.97}
    assert answer["reason_codes"] == ["AVG_SEGMENT_DURATION_LONG_6.5s", "LONG_AUDIO_FEW_SEGMENTS"]
    assert answer["segments_meta"] == {"count": 1, "max_gap": 0, "avg_duration": 6.5}
    assert list(answer) == [
        *("type", "job_id", "attempt_id", "node_id", "session_id", "utterance_index", "success", "text_asr"),
        *("text_translated", "tts_audio", "tts_format", "extra", "processing_time_ms", "trace_id"),
        *("asr_quality_level", "reason_codes", "quality_score", "rerun_count", "segments_meta"),
    ]
    assert answer["tts_audio"]


def test_both_directions_of_a_conversation_are_found_out() -> None:
    mind = Mind()
    assert texts(mind, job(0, say("今天 天气 很好", "zh"), **MANUAL | AUTO))[0][1] == "[zh>en] 今天 天气 很好"
    assert texts(mind, job(1, say(MIDDLE), **MANUAL | AUTO))[0][1] == "[en>zh] BRAVO CHARLIE DELTA"


def test_language_identification_is_not_there() -> None:
    (answer,) = answers(Mind(), job(0, say(LONG), lid={"candidates": ["zh", "en"]}, **MANUAL | AUTO))
    assert answer["success"] is False
    assert answer["error"] == {"code": "PROCESSING_ERROR", "message": LID_NOT_LOADED}


def test_auto_needs_two_languages() -> None:
    (answer,) = answers(Mind(), job(0, say(LONG), src_lang="auto", lang_a="zh", **MANUAL))
    assert answer["error"]["code"] == "PROCESSING_ERROR"


def test_a_job_id_and_an_utterance_of_a_session_are_taken_once() -> None:
    mind = Mind()
    first = job(0, say(LONG), **MANUAL)
    assert answers(mind, first)[0]["success"]
    for repeat in (first | {"session_id": "s-other"}, first | {"job_id": "job-9"}):
        (answer,) = answers(mind, repeat)
        assert answer["error"]["code"] == "PROCESSING_ERROR"
        assert answer["error"]["message"].startswith("DUPLICATE_")
    again = first | {"job_id": "job-9", "session_id": "s-9A277D02~2"}
    (answer,) = answers(mind, again)
    assert (answer["success"], answer["session_id"]) == (True, "s-9A277D02~2")
    assert answers(Mind(), first)[0]["success"], "another process has another memory"
