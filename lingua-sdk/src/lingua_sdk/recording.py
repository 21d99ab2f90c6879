"""A recording as a person would speak it: in chunks, at the pace of speech, with its pauses told instead of sent."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from operator import mul
from typing import NamedTuple

from lingua_sdk.audio import CHUNK_BYTES, SAMPLE_RATE, from_little_endian

BYTES_A_MS = SAMPLE_RATE * 2 // 1000
FRAME_MS = 20
# Silence as long as this ends a sentence. Of it this much is sent, for words that begin or end softly.
PAUSE_MS = 1_000
AFTER_SPEECH_MS = 400
BEFORE_SPEECH_MS = 200
# A scheduler counts what comes sooner after a final to the sentence before it.
AFTER_FINAL_S = (PAUSE_MS - AFTER_SPEECH_MS - BEFORE_SPEECH_MS) / 1000
# Silence is near the quietest moments of the recording and far below the loudest; a click or a gap is neither.
MOMENTS = 500 // FRAME_MS
TIMES_THE_QUIETEST = 3.0
SURELY_SILENT = 0.02
SURELY_HEARD = 0.1


class RecordedPart(NamedTuple):
    """`audio` is empty where a sentence has ended."""

    begins_ms: float
    audio: bytes


async def paced(pcm16: bytes, *, is_fast: bool = False) -> AsyncIterator[bytes]:
    """A recording (16 kHz) for `Client.stream`, at the pace of speech or as fast as it goes.

    Pauses of a second or more are not sent; an empty chunk stands where a sentence ends.
    """
    async for part in played(pcm16, is_fast=is_fast):
        yield part.audio


async def played(pcm16: bytes, *, is_fast: bool = False) -> AsyncIterator[RecordedPart]:
    """The same, with the place of each chunk in the recording."""
    loop = asyncio.get_running_loop()
    # An hour of speech takes seconds to look through.
    parts = await asyncio.to_thread(lambda: list(parts_of(pcm16)))
    began_s = loop.time()
    for part in parts:
        if not is_fast:
            await asyncio.sleep(max(0, began_s + part.begins_ms / 1000 - loop.time()))
        yield part
        if is_fast and not part.audio:
            await asyncio.sleep(AFTER_FINAL_S)


def parts_of(pcm16: bytes) -> Iterator[RecordedPart]:
    """Every sample that is not in the middle of a pause, once and in order."""
    begins = 0
    for pause_begins, pause_ends in pauses_in(pcm16):
        ends = pause_begins + AFTER_SPEECH_MS * BYTES_A_MS
        if pause_begins > 0:
            yield from _chunks(pcm16, begins, ends)
            if pause_ends < len(pcm16):
                yield RecordedPart(ends / BYTES_A_MS, b"")
        begins = pause_ends - BEFORE_SPEECH_MS * BYTES_A_MS if pause_ends < len(pcm16) else len(pcm16)
    yield from _chunks(pcm16, begins, len(pcm16))


def pauses_in(pcm16: bytes) -> list[tuple[int, int]]:
    """Where each begins and ends, in bytes. A recording that is all alike has none, however quiet it is."""
    levels = _levels(pcm16)
    if not levels:
        return []
    ranked = sorted(levels)
    skipped = min(MOMENTS, len(ranked) // 10)
    quietest, loudest = ranked[skipped], ranked[-1 - skipped]
    silent_below = min(max(quietest * TIMES_THE_QUIETEST, loudest * SURELY_SILENT), loudest * SURELY_HEARD)
    pauses = []
    for is_silent, run in groupby(range(len(levels)), lambda frame: levels[frame] < silent_below):
        frames = list(run)
        if is_silent and len(frames) * FRAME_MS >= PAUSE_MS:
            ends = (frames[-1] + 1) * FRAME_MS * BYTES_A_MS
            pauses.append((frames[0] * FRAME_MS * BYTES_A_MS, min(ends, len(pcm16))))
    return pauses


def _levels(pcm16: bytes) -> list[float]:
    """The root mean square of each 20 ms."""
    samples = from_little_endian(pcm16)
    size = SAMPLE_RATE * FRAME_MS // 1000
    frames = (samples[at : at + size] for at in range(0, len(samples), size))
    return [math.sqrt(sum(map(mul, frame, frame)) / len(frame)) for frame in frames]


def _chunks(pcm16: bytes, begins: int, ends: int) -> Iterator[RecordedPart]:
    for place in range(begins, ends, CHUNK_BYTES):
        yield RecordedPart(place / BYTES_A_MS, pcm16[place : min(place + CHUNK_BYTES, ends)])
