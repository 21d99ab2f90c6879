"""The client without `async`: the event loop runs in a thread of its own. Nodes need none of this: see `run_node`."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from lingua_sdk import wav
from lingua_sdk.access import Token
from lingua_sdk.client import Client
from lingua_sdk.line import SessionFailed
from lingua_sdk.recording import paced
from lingua_sdk.results import Partial, Result
from lingua_sdk.tls import ClientTls

__all__ = ["SyncClient", "translate"]

LOCAL = "ws://127.0.0.1:5010"
_T = TypeVar("_T")


class _LoopThread:
    """An event loop that other threads call into."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lingua-sync", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for it. What interrupts the wait, such as Ctrl-C, cancels it."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class SyncClient:
    """`with SyncClient(…) as client:` — takes what `Client` takes, and has its verbs; read `results()` in a `for` loop.

    Speaking may wait until results are read. To speak and to read at the same time, use two threads: every method may
    be called from any thread.
    """

    def __init__(
        self, address: str | Sequence[str], src_lang: str, tgt_lang: str, *, token: Token = None, **options: Any
    ) -> None:
        # Here, so that a wrong option or address is told at once, as it is with Client.
        self._client = Client(address, src_lang, tgt_lang, token=token, **options)
        self._thread: _LoopThread | None = None

    def __enter__(self) -> Self:
        self._thread = _LoopThread()
        try:
            self._thread.call(self._client.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call(lambda: self._client.__aexit__(kind, error, trace))
        finally:
            self._end()

    @property
    def session_id(self) -> str:
        return self._client.session_id

    @property
    def unserved(self) -> str:
        """Why no connected node serves these languages; empty if one does."""
        return self._client.unserved

    def send(self, audio: bytes, *, is_final: bool = False) -> None:
        """A stretch of audio, PCM16 or framed Opus, 16 kHz mono."""
        self._call(lambda: self._client.send(audio, is_final=is_final))

    def final(self) -> None:
        """The person has finished a sentence."""
        self._call(self._client.final)

    def stream(self, chunks: Iterable[bytes]) -> None:
        """Send chunks as they come, then a final; an empty one says that a sentence has ended."""
        for chunk in chunks:
            self.send(chunk, is_final=not chunk)
        self.final()

    def utterance(self, audio: bytes, *, audio_format: str = "pcm16", speech: bool = True) -> int:
        """A whole utterance at once; its number is returned."""
        return self._call(lambda: self._client.utterance(audio, audio_format=audio_format, speech=speech))

    def finish(self) -> None:
        """Nothing more will be said: the results end when everything has been translated."""
        self._call(self._client.finish)

    def results(self) -> Iterator[Result]:
        """Until the end; raises SessionFailed or AccessDenied."""
        results = self._client.results()
        while (result := self._call(lambda: _next_of(results))) is not None:
            yield result

    def _call(self, begin: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        if self._thread is None:
            raise SessionFailed("the session is not open; use: with SyncClient(…) as client")
        return self._thread.call(begin())

    def _end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.end()


def translate(
    audio: str | Path | bytes,
    src_lang: str,
    tgt_lang: str,
    *,
    address: str | Sequence[str] = LOCAL,
    token: Token = None,
    tls: ClientTls | None = None,
) -> list[Result]:
    """The outcomes of a WAV file, or of PCM16 at 16 kHz: one for each utterance, in order.

    Raises ValueError, SessionFailed, AccessDenied, or one of Failures.
    """
    pcm16 = audio if isinstance(audio, bytes) else wav.read(audio)

    async def work() -> list[Result]:
        async with Client(address, src_lang, tgt_lang, token=token, tls=tls) as client, asyncio.TaskGroup() as tasks:
            tasks.create_task(_speak(client, pcm16))
            return [result async for result in client.results() if not isinstance(result, Partial)]

    return asyncio.run(work())


async def _speak(client: Client, pcm16: bytes) -> None:
    await client.stream(paced(pcm16, is_fast=True))
    await client.finish()


async def _next_of(results: AsyncIterator[Result]) -> Result | None:
    return await anext(results, None)
