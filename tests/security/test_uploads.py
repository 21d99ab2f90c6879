"""One address sends files that take long to decode, as many as are taken: another one still has room, and a decoder."""

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest

from lingua_scheduler.protocol.uploads import wav_of
from lingua_scheduler.services.dispatch import sound_files
from tests.support.peers import field
from tests.support.schedulers import scheduler_on
from tests.support.servers import RedisProcess
from tests.support.sounds import sample_pcm16
from tests.support.waiting import until

FILE = wav_of(sample_pcm16())
FILES = 20
# Holds eight files of callers.
ROOM = 2 * 8 * len(FILE) + len(FILE)
# It takes a file, and until the test says so it does not decode it.
SLOW = """
import os, runpy, sys, time
folder = sys.argv[1]
open(os.path.join(folder, str(os.getpid())), "w").close()
while not os.path.exists(os.path.join(folder, "go")):
    time.sleep(0.01)
runpy.run_module("lingua_scheduler.uploads", run_name="__main__")
"""


async def send(port: int, address: str) -> int:
    """The status of the answer."""
    connector = aiohttp.TCPConnector(local_addr=(address, 0))
    url = f"http://127.0.0.1:{port}/v1/translate?src=en&tgt=zh"
    async with (
        aiohttp.ClientSession(connector=connector) as http,
        http.post(url, data=FILE, headers={"Content-Type": "audio/wav"}) as response,
    ):
        await response.read()
        return response.status


async def test_one_address_takes_neither_all_room_nor_all_decoders(
    server: RedisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sound_files, "_COMMAND", (sys.executable, "-c", SLOW, str(tmp_path)))
    async with (
        scheduler_on(server.url, server__max_audio_bytes=ROOM, calls__max_decoders=1) as (scheduler, _),
        field(scheduler.port) as peers,
        asyncio.TaskGroup() as group,
    ):
        await peers.node()
        hoard = [group.create_task(send(scheduler.port, "127.0.0.2")) for _ in range(FILES)]
        await until(lambda: sum(task.done() for task in hoard) >= FILES // 2, within_s=30)
        # What did not fit was refused; the rest waits for the decoder that one of them has.
        await until(lambda: any(tmp_path.iterdir()), within_s=30)
        assert {task.result() for task in hoard if task.done()} == {503}
        waiting = [task for task in hoard if not task.done()]
        assert len(waiting) > 2
        honest = group.create_task(send(scheduler.port, "127.0.0.3"))
        places = scheduler._translations._sounds._places
        await until(lambda: len(places._waiting) == 2)
        (tmp_path / "go").touch()
        assert await honest == 200
        assert not all(task.done() for task in waiting)
