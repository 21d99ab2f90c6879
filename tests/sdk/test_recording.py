"""Recordings are spoken sentence by sentence: pauses end them, and nothing that is said is lost."""

import asyncio
import base64
import random
from array import array

import pytest

from lingua_sdk.audio import CHUNK_BYTES, SAMPLE_RATE
from lingua_sdk.client import Client, paced
from lingua_sdk.protocol.session import TranslationResult
from lingua_sdk.recording import RecordedPart, parts_of, pauses_in
from tests.support.peers import Field
from tests.support.tones import silence, tone


def spoken(hz: float, seconds: float = 0.6, amplitude: float = 9_000) -> bytes:
    return tone(hz, SAMPLE_RATE, seconds, amplitude).tobytes()


def quiet(seconds: float, noise: int = 0) -> bytes:
    if not noise:
        return silence(SAMPLE_RATE, seconds).tobytes()
    dice = random.Random(1)
    return array("h", (dice.randint(-noise, noise) for _ in range(int(seconds * SAMPLE_RATE)))).tobytes()


def sentences(pcm16: bytes) -> list[bytes]:
    """What is sent between the ends of sentences."""
    found = [b""]
    for part in parts_of(pcm16):
        if part.audio:
            found[-1] += part.audio
        else:
            found.append(b"")
    return found


@pytest.mark.parametrize("is_fast", [False, True], ids=["at the pace of speech", "fast"])
async def test_three_sentences_with_pauses_are_three_utterances(peers: Field, is_fast: bool) -> None:
    node = await peers.node()
    words = [spoken(300), spoken(400), spoken(500)]
    recording = quiet(1.3).join(words)
    async with Client(f"127.0.0.1:{peers.port}", "en", "zh") as client, asyncio.timeout(90):
        began_s = asyncio.get_running_loop().time()
        await client.stream(paced(recording, is_fast=is_fast))
        took_s = asyncio.get_running_loop().time() - began_s
        await client.finish()
        results = [heard async for heard in client.heard() if isinstance(heard, TranslationResult)]
    assert len(results) == 3
    assert (took_s > 4.1) is not is_fast
    audio = [base64.b64decode(job["audio"]) for job in node.jobs]
    assert audio == [words[0] + quiet(0.4), quiet(0.2) + words[1] + quiet(0.4), quiet(0.2) + words[2]]


@pytest.mark.parametrize("noise", [0, 50, 300])
def test_a_pause_is_found_in_the_noise_of_a_room_too(noise: int) -> None:
    found = sentences(spoken(300) + quiet(1.5, noise) + spoken(400))
    assert [found[0].startswith(spoken(300)), found[1].endswith(spoken(400)), len(found)] == [True, True, 2]


@pytest.mark.parametrize(
    "recording",
    [
        b"",
        b"\x01",
        spoken(300, 3),
        spoken(300, 3, amplitude=20),
        quiet(3),
        quiet(3, noise=30),
        spoken(300) + quiet(0.9) + spoken(300),
        spoken(300) + spoken(300, 2, amplitude=1_000) + spoken(300),
    ],
    ids=["nothing", "half a sample", "loud", "soft", "silence", "noise", "a breath", "a soft voice after a loud one"],
)
def test_a_recording_without_a_pause_is_sent_as_it_is(recording: bytes) -> None:
    assert list(parts_of(recording)) == [
        RecordedPart(at / 32, recording[at : at + CHUNK_BYTES]) for at in range(0, len(recording), CHUNK_BYTES)
    ]


def test_a_soft_sentence_among_loud_ones_is_sent_whole() -> None:
    soft = spoken(300, amplitude=500)
    assert soft in sentences(quiet(1.5, noise=10).join([spoken(300, 3), soft, spoken(300, 3)]))[1]


def test_silence_before_and_after_all_words_ends_no_sentence() -> None:
    recording = quiet(2) + spoken(300) + quiet(2)
    assert sentences(recording) == [quiet(0.2) + spoken(300) + quiet(0.4)]
    assert next(parts_of(recording)).begins_ms == 1_800


def test_what_is_left_out_is_in_the_middle_of_a_pause() -> None:
    dice = random.Random(7)
    for _ in range(20):
        recording = b"".join(
            part
            for _ in range(4)
            for part in (spoken(300, dice.uniform(0.1, 1)), quiet(dice.uniform(0.1, 2), dice.choice([0, 20])))
        )
        at = 0
        for part in parts_of(recording):
            begins = round(part.begins_ms * 32)
            assert begins >= at
            left_out = (at, begins)
            assert begins == at or any(one <= at and begins <= other for one, other in pauses_in(recording)), left_out
            assert recording[begins:].startswith(part.audio)
            at = begins + len(part.audio)
