"""The client without `async`, against a real scheduler and a real node."""

import asyncio
import threading
from pathlib import Path

import pytest

from lingua_sdk import wav
from lingua_sdk.address import BadAddress
from lingua_sdk.line import SessionFailed
from lingua_sdk.results import Translation
from lingua_sdk.sync import SyncClient, translate
from tests.support.peers import Field

SECOND = b"\x00\x01" * 16_000


async def test_a_file_is_translated(peers: Field, tmp_path: Path) -> None:
    await peers.node()
    path = tmp_path / "speech.wav"
    wav.write(path, SECOND)
    address = f"127.0.0.1:{peers.port}"
    found = await asyncio.to_thread(translate, path, "en", "zh", address=address)
    assert [type(result) for result in found] == [Translation]
    assert await asyncio.to_thread(translate, SECOND, "en", "zh", address=address) != []


async def test_a_session_speaks_and_is_read_in_a_loop(peers: Field) -> None:
    await peers.node()

    def work() -> list[str]:
        with SyncClient(f"127.0.0.1:{peers.port}", "en", "zh") as client:
            assert client.session_id.startswith("s-")
            assert client.unserved == ""
            assert client.utterance(SECOND) == 0
            client.stream([SECOND])
            client.finish()
            return [type(result).__name__ for result in client.results()]

    assert await asyncio.to_thread(work) == ["Translation"] * 2


async def test_two_threads_may_speak_and_read_at_once(peers: Field) -> None:
    await peers.node()

    def work() -> int:
        with SyncClient(f"127.0.0.1:{peers.port}", "en", "zh") as client:

            def speak() -> None:
                for _ in range(5):
                    client.utterance(SECOND)
                client.finish()

            speaking = threading.Thread(target=speak)
            speaking.start()
            count = sum(1 for _ in client.results())
            speaking.join()
            return count

    assert await asyncio.to_thread(work) == 5


def test_errors_are_raised_where_they_happen_and_no_thread_is_left() -> None:
    with pytest.raises(ConnectionRefusedError):
        with SyncClient("127.0.0.1:1", "en", "zh"):
            pass
    with pytest.raises(ConnectionRefusedError):
        translate(SECOND, "en", "zh", address="127.0.0.1:1")
    with pytest.raises(BadAddress):
        SyncClient("redis://127.0.0.1", "en", "zh")
    with pytest.raises(SessionFailed, match="with SyncClient"):
        SyncClient("127.0.0.1:1", "en", "zh").final()
    assert "lingua-sync" not in {thread.name for thread in threading.enumerate()}
