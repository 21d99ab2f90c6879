"""The speech of the fake peers can be read back word by word, and the recorder sends it as the recordings show."""

import random
import struct

import pytest

from lingua_sdk.protocol.audio import measure
from tests.support.field_microphone import FINAL_AFTER_S, FRAME_PCM_BYTES, FRAME_S, SILENCE_SENT_S, Recorder
from tests.support.field_speech import NOISE, SILENCE, Slice, encoded, hear, opus, packets_of, pcm16, say, sentence_of

# Room frames before the final, and frames that each had a final of their own, after sentences of 2.5, 2.5, 8 and 24 s.
RECORDED_ENDS = [(12, 6), (13, 5), (13, 6), (12, 6)]


@pytest.mark.parametrize("audio_format", ["opus", "pcm16"])
def test_words_are_read_back_in_order_with_their_language(audio_format: str) -> None:
    audio = encoded([*say("hello there"), *[NOISE] * 20, *say("你好", "zh"), *[SILENCE] * 5], audio_format)
    heard = hear(audio, audio_format)
    assert heard.text == "hello there 你好"
    assert [word.language for word in heard.words] == ["en", "en", "zh"]
    assert all(word.is_whole for word in heard.words)
    assert heard.duration_ms == 3 * 500 + 25 * 20
    assert measure(audio) == (audio_format, heard.duration_ms)


@pytest.mark.parametrize("audio_format", ["opus", "pcm16"])
def test_a_word_on_both_sides_of_a_cut_is_heard_twice_and_once_when_joined(audio_format: str) -> None:
    slices = say("alpha bravo")
    before, after = slices[:35], slices[35:]
    assert hear(encoded(before, audio_format), audio_format).text == "alpha bravo"
    late = hear(encoded(after, audio_format), audio_format)
    assert (late.text, late.words[0].first, late.words[0].is_whole) == ("bravo", 10, False)
    assert hear(encoded(before + after, audio_format), audio_format).text == "alpha bravo"
    assert hear(encoded(before + before, audio_format), audio_format).text == "alpha bravo alpha bravo"


def test_too_little_of_a_word_is_not_heard() -> None:
    assert hear(opus(say("alpha")[:4]), "opus").words == []


def test_samples_may_be_cut_anywhere() -> None:
    audio = pcm16(say("alpha bravo charlie"))
    for _ in range(20):
        cut = 2 * random.randrange(3_000, 8_000)
        assert hear(audio[cut:], "pcm16").text.endswith("bravo charlie")


def test_packets_are_as_long_as_recorded() -> None:
    assert opus([NOISE]) == bytes.fromhex("08004807c979c8c957c0")
    assert opus([SILENCE]) == bytes.fromhex("0300b8fffe")
    sizes = [len(packet) for packet in packets_of(opus(say(sentence_of(8))))]
    assert min(sizes) >= 60
    assert max(sizes) <= 80


def test_speech_is_loud_and_a_room_is_not() -> None:
    assert rms(pcm16([SILENCE] * 5)) == 0
    assert 30 <= rms(pcm16([NOISE] * 50)) <= 60
    assert rms(pcm16(say("alpha"))) > 1_000


def rms(audio: bytes) -> float:
    samples = struct.unpack(f"<{len(audio) // 2}h", audio)
    return float((sum(sample * sample for sample in samples) / len(samples)) ** 0.5)


# The recorder


def recorded(recorder: Recorder, slices: list[Slice], seconds: float) -> list[tuple[float, str, bytes]]:
    """Time, and `speech`, `room` or `final`, of everything it sends."""
    recorder.hear(slices)
    sent: list[tuple[float, str, bytes]] = []
    for number in range(1, round(seconds / FRAME_S)):
        now = number * FRAME_S
        if recorder.final_at is not None and recorder.final_at <= now:
            sent.append((recorder.final_at, "final", b""))
            recorder.end()
        if frame := recorder.frame(now):
            sent.append((now, "speech" if frame.has_speech else "room", frame.audio))
            if frame.then_final:
                sent.append((now, "final", b""))
    return sent


@pytest.mark.parametrize("room", [NOISE, SILENCE])
def test_finals_come_as_recorded(room: Slice) -> None:
    sent = recorded(Recorder(room), say(sentence_of(8)), 20)
    kinds = [kind for _, kind, _ in sent]
    after_speech = kinds[kinds.count("speech") :]
    before_final = after_speech.index("final")
    pairs = after_speech[before_final + 1 :]
    assert pairs == ["room", "final"] * (len(pairs) // 2)
    assert 5 <= len(pairs) // 2 <= 7
    assert all(abs(before_final - before) <= 1 for before, _ in RECORDED_ENDS)
    ended = 8.0  # what 400 slices last in 13 a frame is a little less
    final_at = next(at for at, kind, _ in sent if kind == "final")
    assert final_at == pytest.approx(ended + FINAL_AFTER_S, abs=2 * FRAME_S)
    assert sent[-1][0] == pytest.approx(ended + SILENCE_SENT_S, abs=2 * FRAME_S)


def test_a_frame_is_13_packets_or_4096_samples() -> None:
    sent = recorded(Recorder(NOISE), say("alpha bravo"), 8)
    assert {len(packets_of(audio)) for _, kind, audio in sent if kind != "final"} == {13}
    sent = recorded(Recorder(NOISE, audio_format="pcm16"), say("alpha bravo"), 8)
    assert {len(audio) for _, kind, audio in sent if kind != "final"} == {FRAME_PCM_BYTES}
    assert hear(b"".join(audio for _, _, audio in sent), "pcm16").text == "alpha bravo"


def test_in_a_loud_room_frames_go_on_and_no_final_comes() -> None:
    sent = recorded(Recorder(NOISE, room_is_loud=True), say("alpha"), 30)
    assert "final" not in [kind for _, kind, _ in sent]
    assert sent[-1][0] > 29


def test_nothing_is_sent_before_speech_and_after_playing() -> None:
    recorder = Recorder(NOISE)
    assert recorded(recorder, [], 3) == []
    assert recorder.frame(3.0) is None
    recorder.hear(say("alpha"))
    assert recorder.frame(4.0) is not None
    recorder.frame(4.256)
    recorder.rest()
    assert recorder.frame(4.6) is None
    assert recorder.final_at is None
