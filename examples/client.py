"""Translate a recording: python client.py speech.wav en pt [address]"""

import asyncio
import sys
from pathlib import Path

from lingua_scheduler.sdk import wav
from lingua_scheduler.sdk.client import Client, Partial, Translation, paced


async def main(recording: str, source: str, target: str, address: str = "ws://127.0.0.1:5010") -> None:
    async with Client(address, source, target, partials=True) as client, asyncio.TaskGroup() as tasks:

        async def speak() -> None:
            await client.stream(paced(wav.read(Path(recording))))  # at the pace of speech
            await client.finish()

        tasks.create_task(speak())
        async for result in client.results():
            match result:
                case Translation(text=text, translated=translated, speech=speech):
                    print(f"{text} -> {translated} ({len(speech)} bytes of speech)")
                case Partial(text=text):
                    print(f"{text} …")
                case nothing:
                    print(nothing)


asyncio.run(main(*sys.argv[1:]))
