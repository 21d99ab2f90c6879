"""The listening process: sessions that connect and say nothing but that they are there."""

import asyncio
import random
import sys
import time

import msgspec

from lingua_scheduler.bench.connecting import introduce
from lingua_scheduler.bench.obeying import LoadFailed, obey
from lingua_scheduler.bench.orders import Cast, Gathered, Gathering
from lingua_scheduler.bench.peers import Client, Talker
from lingua_scheduler.protocol import codec
from lingua_scheduler.protocol.session import ClientHeartbeat

# What the browser, the mobile app and the gateway do.
BEAT_S = 30.0

_BEAT_ANSWER = b'{"type":"server_heartbeat",'


class Listener(Client):
    def __init__(self, crowd: "Crowd", dice: random.Random) -> None:
        super().__init__(crowd)
        self._crowd = crowd
        self._first_beat_s = dice.random() * BEAT_S

    def keep_beating(self) -> None:
        """The first one after a part of the usual time, so that they are spread as in life."""
        asyncio.get_running_loop().call_later(self._first_beat_s, self._beat)

    def on_text(self, payload: bytes) -> None:
        if payload.startswith(_BEAT_ANSWER):
            self._crowd.heartbeats_answered += 1
        else:
            super().on_text(payload)

    def _beat(self) -> None:
        self._crowd.heartbeats += 1
        self.send(codec.encode(ClientHeartbeat(session_id=self._session_id, timestamp=int(time.time() * 1000))))
        asyncio.get_running_loop().call_later(BEAT_S, self._beat)


class Crowd:
    def __init__(self, cast: Cast) -> None:
        self._port = cast.port
        self._dice = random.Random(1)
        self._failure = ""
        self._listeners: list[Listener] = []
        self.heartbeats = self.heartbeats_answered = 0

    async def connect(self) -> None:
        """They come when they are told to."""

    async def carry_out(self, gathering: Gathering) -> Gathered:
        arriving = [Listener(self, self._dice) for _ in range(gathering.sessions)]
        await introduce(arriving, self._port)
        for listener in arriving:
            listener.keep_beating()
        self._listeners += arriving
        if self._failure:
            raise LoadFailed(self._failure)
        return Gathered(
            connected=len(self._listeners),
            heartbeats=self.heartbeats,
            heartbeats_answered=self.heartbeats_answered,
        )

    def done(self, _: Talker, __: int) -> None:
        """Nobody asks for anything."""

    def failed(self, reason: str) -> None:
        self._failure = self._failure or reason


def main() -> None:
    obey(Crowd(msgspec.json.decode(sys.argv[1], type=Cast)), Gathering)


if __name__ == "__main__":
    main()
