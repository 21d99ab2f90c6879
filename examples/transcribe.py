"""Subtitles of a recording in two languages, as SRT: python transcribe.py speech.wav en pt [address] > speech.srt

It takes WAV files of any length, faster than they were spoken; transcribe.sh takes other formats, up to two minutes."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from lingua_sdk import wav
from lingua_sdk.client import Client, Partial, SessionFailed, Translation
from lingua_sdk.recording import parts_of
from lingua_sdk.trouble import Failures, trouble_of

BYTES_A_MS = 32  # 16 kHz, 16 bits, one channel
MAX_BYTES = 15_000 * BYTES_A_MS  # a subtitle that stands longer is hard to read


def sentences(pcm16: bytes) -> Iterator[tuple[int, bytes]]:
    """What is said between two pauses, and where it begins, in milliseconds."""
    begins_ms, sound = 0.0, b""
    for part in parts_of(pcm16):
        begins_ms = begins_ms if sound else part.begins_ms
        sound += part.audio
        if sound and (not part.audio or len(sound) >= MAX_BYTES):  # an empty part is the end of a sentence
            yield int(begins_ms), sound
            sound = b""
    if sound:
        yield int(begins_ms), sound


def clock(ms: int) -> str:
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02},{ms % 1000:03}"


async def main(recording: str, source: str, target: str, address: str = "ws://127.0.0.1:5010") -> None:
    said = list(sentences(wav.read(Path(recording))))
    found: dict[int, Translation] = {}
    async with Client(address, source, target) as client:

        async def speak() -> None:
            for _, sound in said:
                await client.utterance(sound, speech=False)  # waits while many have no result yet
            await client.finish()

        async def hear() -> None:
            async for result in client.results():
                match result:
                    case Translation(utterance_index=index):
                        found[index] = result
                    case Partial():  # the beginning of a sentence; the whole follows
                        pass
                    case nothing:
                        print(nothing, file=sys.stderr)

        await asyncio.gather(speak(), hear())
    for index, result in sorted(found.items()):
        begins_ms, sound = said[index]
        print(f"{index + 1}\n{clock(begins_ms)} --> {clock(begins_ms + len(sound) // BYTES_A_MS)}")
        print(f"{result.text}\n{result.translated}\n")


if len(sys.argv) not in (4, 5):
    sys.exit("usage: python transcribe.py speech.wav en pt [ws://127.0.0.1:5010] > speech.srt")
try:
    asyncio.run(main(*sys.argv[1:]))
except (ValueError, SessionFailed) as error:  # the file, the address, or the session
    sys.exit(str(error))
except Failures as error:
    trouble = trouble_of(error)
    sys.exit(f"no connection to a scheduler: {trouble.reason}; {trouble.advice}")
