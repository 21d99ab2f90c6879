"""Speech for existing pages."""

import base64

import pytest

from lingua_scheduler.services.rooms import playable as playing
from lingua_scheduler.services.rooms.playable import playable
from lingua_sdk.protocol.session import TranslationResult


def result(sound: bytes, tts_format: str) -> TranslationResult:
    return TranslationResult(
        session_id="s",
        utterance_index=0,
        job_id="j",
        trace_id="t",
        text_asr="a",
        text_translated="b",
        tts_audio=base64.b64encode(sound).decode(),
        tts_format=tts_format,
        scheduler_sent_at_ms=0,
    )


async def test_samples_stay_as_they_are_but_for_half_of_one() -> None:
    converted = await playable(result(b"\x01\x02\x03", "pcm16"))
    assert base64.b64decode(converted.tts_audio) == b"\x01\x02"
    assert converted.tts_format == "pcm16"


async def test_text_alone_stays_so() -> None:
    converted = await playable(result(b"", "opus"))
    assert (converted.tts_audio, converted.tts_format, converted.text_translated) == ("", "pcm16", "b")


async def test_opus_is_decoded() -> None:
    opus = pytest.importorskip("opuslib_next", exc_type=ImportError)
    packet = opus.Encoder(16_000, 1, "voip").encode(b"\x00\x10" * 320, 320)
    converted = await playable(result((len(packet).to_bytes(2, "little") + packet) * 3, "opus"))
    assert len(base64.b64decode(converted.tts_audio)) == 3 * 640


async def test_samples_that_are_called_opus_are_samples() -> None:
    converted = await playable(result(b"\x00\x00\x01\x02", "opus"))
    assert base64.b64decode(converted.tts_audio) == b"\x00\x00\x01\x02"


@pytest.mark.parametrize("tts_format", ["mp3", "wav"])
async def test_what_cannot_be_converted_is_left_out(tts_format: str) -> None:
    converted = await playable(result(b"\x01\x02", tts_format))
    assert (converted.tts_audio, converted.text_translated) == ("", "b")


async def test_speech_that_never_ends_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playing, "_MAX_BYTES", 2)
    assert (await playable(result(b"\x01\x02\x03\x04", "pcm16"))).tts_audio == ""


async def test_what_is_no_base64_is_left_out() -> None:
    broken = result(b"", "pcm16")
    broken.tts_audio = "***"
    assert (await playable(broken)).tts_audio == ""
