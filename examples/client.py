"""Translate a recording: python client.py speech.wav en pt [address]"""

import asyncio
import sys
from pathlib import Path

from lingua_sdk import Client, Failures, Partial, SessionFailed, Translation, paced, trouble_of, wav


async def main(recording: str, source: str, target: str, address: str = "ws://127.0.0.1:5010") -> None:
    pcm16 = wav.read(Path(recording))
    async with Client(address, source, target, partials=True) as client:

        async def speak() -> None:
            await client.stream(paced(pcm16))  # at the pace of speech
            await client.finish()

        async def hear() -> None:
            async for result in client.results():
                match result:
                    case Translation(text=text, translated=translated, speech=speech):
                        print(f"{text} -> {translated} ({len(speech)} bytes of speech)")
                    case Partial(text=text):
                        print(f"{text} …")
                    case nothing:
                        print(nothing)

        await asyncio.gather(speak(), hear())


if len(sys.argv) not in (4, 5):
    sys.exit("usage: python client.py speech.wav en pt [ws://127.0.0.1:5010]")
try:
    asyncio.run(main(*sys.argv[1:]))
except (ValueError, SessionFailed) as error:  # the file, the address, or the session
    sys.exit(str(error))
except Failures as error:
    trouble = trouble_of(error)
    sys.exit(f"no connection to a scheduler: {trouble.reason}; {trouble.advice}")
