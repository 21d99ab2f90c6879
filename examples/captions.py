"""A caption screen for a room: python captions.py 483920 pt [address]"""

import asyncio
import sys

from lingua_sdk import (
    Caption,
    Client,
    Ended,
    Failures,
    History,
    MembersChanged,
    RoomFailed,
    Said,
    SessionFailed,
    TextMessage,
    trouble_of,
)


async def main(code: str, language: str, address: str = "ws://127.0.0.1:5010") -> None:
    # It says nothing, so any two languages do.
    async with Client(address, "en", language) as client:
        # A guest hears and reads, and is counted, not listed.
        room = await client.join_room(code, language=language, speech=False, listen_only=True)
        async for event in room:
            match event:
                case History(lines=lines):
                    for line in lines:
                        print(f"{line.name}: {line.text}")
                case Said(name=name, text=text, translated=translated):
                    print(f"{name}: {translated or text}")
                case Caption(name=name, text=text):
                    print(f"{name}: {text} …")
                case TextMessage(name=name, text=text):
                    print(f"{name} writes: {text}")
                case MembersChanged(members=members):
                    print(f"here: {', '.join(one.name or one.session_id for one in members)}")
                case Ended(text=text):
                    print(text)


if len(sys.argv) not in (3, 4):
    sys.exit("usage: python captions.py 483920 pt [ws://127.0.0.1:5010]")
try:
    asyncio.run(main(*sys.argv[1:]))
except (ValueError, SessionFailed, RoomFailed) as error:  # the address, the session, or the room
    sys.exit(str(error))
except Failures as error:
    trouble = trouble_of(error)
    sys.exit(f"no connection to a scheduler: {trouble.reason}; {trouble.advice}")
