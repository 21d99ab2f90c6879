import base64
import json
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lingua_sdk.protocol import speech
from lingua_sdk.protocol.codec import UnreadableFrame, decode_for_node, decode_session, encode
from lingua_sdk.protocol.node import JobAssign
from lingua_sdk.protocol.session import AudioChunk, SessionIncoming, Utterance
from lingua_sdk.protocol.shapes import FeatureFlags, JobPipeline

AUDIO = random.Random(1).randbytes(9_000)
TEXT = base64.b64encode(AUDIO).decode()
UTTERANCE = Utterance(
    session_id="s-1",
    utterance_index=3,
    manual_cut=True,
    src_lang="zh",
    tgt_lang="en",
    audio=AUDIO,
    audio_format="pcm16",
    sample_rate=16_000,
    features=FeatureFlags(emotion_detection=True),
)
CHUNK = AudioChunk(session_id="s-1", seq=7, is_final=False, payload=AUDIO, client_timestamp_ms=5)
HEAD = '{"type":"utterance","session_id":"s-1","utterance_index":3,"manual_cut":true,"src_lang":"zh","tgt_lang":"en",'
TAIL = ',"audio_format":"pcm16","sample_rate":16000}'


def read(frame: bytes | str) -> SessionIncoming | str:
    """The message, or the refusal."""
    try:
        return decode_session(frame)
    except UnreadableFrame as error:
        return str(error)


def order(audio: bytes, **fields: str) -> JobAssign:
    return JobAssign(
        job_id="j-1",
        attempt_id=1,
        session_id="s-1",
        utterance_index=3,
        src_lang=fields.get("src_lang", "zh"),
        tgt_lang="en",
        pipeline=JobPipeline(use_asr=True, use_nmt=True, use_tts=True, use_semantic=False, use_tone=False),
        audio=audio,
        audio_format="pcm16",
        sample_rate=16_000,
        enable_streaming_asr=False,
        partial_update_interval_ms=1_000,
        trace_id="t",
        turn_id="turn",
        features={"audio": ""},
    )


@pytest.mark.parametrize("message", [UTTERANCE, CHUNK])
def test_long_speech_is_read_apart_whatever_stands_between_the_fields(message: Utterance | AudioChunk) -> None:
    tight = encode(message)
    for frame in (tight, json.dumps(json.loads(tight)).encode(), json.dumps(json.loads(tight), indent=2).encode()):
        assert speech.cut_out(frame) is not None
        assert decode_session(frame) == message


# Text is always read as a whole, bytes with long speech are not: both must come to the same.
@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(f'{HEAD}"audio":"{TEXT}"{TAIL}', id="as it should be"),
        pytest.param(f'{HEAD}"audio":"{TEXT.replace("/", chr(92) + "/")}"{TAIL}', id="escaped slashes"),
        pytest.param(f'{HEAD}"audio":"{TEXT[:-1]}"{TAIL}', id="cut short"),
        pytest.param(f'{HEAD}"audio":"{TEXT[:6000]}*{TEXT[6001:]}"{TAIL}', id="not the alphabet"),
        pytest.param(f'{HEAD}"audio":"{TEXT[:6000]} {TEXT[6001:]}"{TAIL}', id="a blank"),
        pytest.param(f'{HEAD}"audio":"{TEXT[:6000]}é{TEXT[6001:]}"{TAIL}', id="not ASCII"),
        pytest.param(f'{HEAD}"audio":"{TEXT[:6000]}===={TEXT[6004:]}"{TAIL}', id="padding in the middle"),
        pytest.param(f'{HEAD}"audio":"{TEXT[:6000]}QR=="{TAIL}', id="bits left over"),
        pytest.param(f'{HEAD}"audio":"{TEXT}"{TAIL}x', id="something after it"),
        pytest.param(f'{HEAD}"audio":"{TEXT}"', id="no end"),
        pytest.param(f'{HEAD}"audio":"{TEXT}', id="no end of the speech"),
        pytest.param(f'{HEAD}"audio":"{TEXT}","sample_rate":16000}}', id="a field is missing"),
        pytest.param(f'{HEAD}"audio":"{TEXT}","audio_format":5,"sample_rate":16000}}', id="a field is wrong"),
        pytest.param(f'{HEAD}"audio":"{TEXT}","audio":""{TAIL}', id="twice, the second empty"),
        pytest.param(f'{HEAD}"audio":"","audio":"{TEXT}"{TAIL}', id="twice, the first empty"),
        pytest.param(f'{HEAD}"features":{{"x":1,"audio":"{TEXT}"}},"audio":""{TAIL}', id="of another object"),
        pytest.param(f'{HEAD}"auto_langs":[],"audio":"{TEXT}"{TAIL}', id="after a list"),
        pytest.param(f'{HEAD}"x,\\"audio":"{TEXT}","audio":""{TAIL}', id="a name that ends like it"),
        pytest.param(f'{HEAD}"dialect":",\\"audio\\":\\"","audio":"{TEXT}"{TAIL}', id="a text that looks like it"),
        pytest.param(f'{HEAD}"dialect":"{"d" * 2000}","audio":"{TEXT}"{TAIL}', id="late in the frame"),
        pytest.param(f'{HEAD}"payload":"{TEXT}","audio":"AAEC"{TAIL}', id="a field of another message"),
        pytest.param(f'{HEAD}"audio":"{TEXT}","features":{"[" * 200}{"]" * 200}{TAIL}', id="wrong and deep"),
        pytest.param(f'{HEAD}"audio":"{TEXT}","features":{{"a":{"[" * 99}{"]" * 99}}}{TAIL}', id="too deep"),
        pytest.param(f'{HEAD}"audio":"{TEXT}","features":{{"a":{"[" * 98}{"]" * 98}}}{TAIL}', id="not too deep"),
        pytest.param(f'{{"type":"audio_chunk","audio":"{TEXT}"}}', id="another message"),
        pytest.param(f'{{"type":"unknown","audio":"{TEXT}"}}', id="an unknown message"),
        pytest.param(f'{{"session_id":"s","audio":"{TEXT}"}}', id="no message"),
        pytest.param(f'{{"type":"audio_chunk","session_id":"s","seq":1,"payload":"{TEXT}","is_final":1}}', id="chunk"),
    ],
)
def test_reading_speech_apart_comes_to_the_same(frame: str) -> None:
    assert read(frame.encode()) == read(frame)


def test_long_speech_that_is_no_base64_is_refused_in_the_same_words() -> None:
    sentence = 'utterance: invalid field "audio": invalid base64 encoded string'
    for text in ("AAE*", TEXT[:-2] + "*="):
        assert read(f'{HEAD}"audio":"{text}"{TAIL}'.encode()) == sentence


def test_a_long_chunk_that_is_no_base64_is_an_empty_one() -> None:
    start = '{"type":"audio_chunk","session_id":"s","seq":1,"is_final":false,'
    for text in ("AAE*", TEXT[:-2] + "*="):
        assert read(f'{start}"payload":"{text}"{TAIL}'.encode()) == AudioChunk(session_id="s", seq=1, is_final=False)


def test_what_is_not_utf8_beside_long_speech_is_refused() -> None:
    frame = f'{HEAD}"audio":"{TEXT}","dialect":"?"{TAIL}'.encode().replace(b"?", b"\xff")

    assert read(frame) == "the frame is not UTF-8 text"


@given(
    at=st.integers(0, len(TEXT) - 1),
    put=st.binary(max_size=4) | st.text('AZaz09+/= "\\\n\x00', max_size=4).map(str.encode),
    cut=st.integers(0, 4),
)
def test_damaged_speech_is_read_or_refused_as_by_the_json_reader(at: int, put: bytes, cut: int) -> None:
    text = TEXT.encode()
    frame = HEAD.encode() + b'"audio":"' + text[:at] + put + text[at + cut :] + b'"' + TAIL.encode()
    try:
        whole = msgspec.json.decode(frame, type=Utterance)
    except (msgspec.DecodeError, UnicodeError):
        assert isinstance(read(frame), str)
    else:
        assert read(frame) == whole


@pytest.mark.parametrize("size", [0, 1, speech.LONG_AUDIO_BYTES - 1, speech.LONG_AUDIO_BYTES, 8_191, 40_000])
@pytest.mark.parametrize("src_lang", ["zh", "audio", '"audio":"', ',"audio":"",'])
def test_an_order_is_written_the_same_however_long_its_speech(size: int, src_lang: str) -> None:
    message = order(random.Random(size).randbytes(size), src_lang=src_lang)

    assert encode(message) == msgspec.json.encode(message)
    assert decode_for_node(encode(message)) == message
    assert len(message.audio) == size
