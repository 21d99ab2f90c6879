"""Sound from a microphone, as 16 kHz mono PCM16 in chunks, and a gate that leaves silence out.

The `sounddevice` package when it is installed, else the first recorder on the PATH."""

import asyncio
import contextlib
import importlib
import math
import shutil
import sys
from array import array
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from operator import mul
from typing import Any, Protocol

from lingua_sdk.audio import CHUNK_BYTES, SAMPLE_RATE
from lingua_sdk.processes import die_with_parent, stop

STOP_WITHIN_S = 2.0
# Sound that waits to be sent: ten seconds, then what is said is lost, as on a telephone.
MAX_WAITING_CHUNKS = 50
_KEPT_COMPLAINT_BYTES = 500

_SOX = ("-q", "-t", "raw", "-b", "16", "-e", "signed-integer", "-L", "-r", str(SAMPLE_RATE), "-c", "1", "-")
RECORDERS: dict[str, tuple[str, ...]] = {
    "arecord": ("-q", "-t", "raw", "-f", "S16_LE", "-r", str(SAMPLE_RATE), "-c", "1"),
    "parec": ("--raw", "--format=s16le", f"--rate={SAMPLE_RATE}", "--channels=1", "--latency-msec=100"),
    "rec": _SOX,
    "sox": ("-d", *_SOX),
}


class NoMicrophone(Exception):
    """Nothing can be recorded; the message says what to do."""


class Microphone(Protocol):
    name: str

    def chunks(self) -> AsyncIterator[bytes]:
        """Sound as it comes, until it is stopped; what was recorded by then still comes."""
        ...

    async def stop(self) -> None: ...


@asynccontextmanager
async def listening() -> AsyncIterator[Microphone]:
    microphone: Microphone | None = _device()
    if microphone is None:
        microphone = await _recorder()
    try:
        yield microphone
    finally:
        await microphone.stop()


async def speech_of(source: Microphone) -> AsyncIterator[bytes]:
    """What is said, without the silence: for `Client.stream`."""
    gate = Gate()
    async for chunk in source.chunks():
        for part in gate.take(chunk):
            yield part


class Gate:
    """Lets speech through, with a little before and after it: in silence existing clients send nothing.

    What counts as silence follows the room: the quietest 20 ms of each chunk, also between two syllables.
    """

    QUIETEST = 150.0
    LOUDEST_ROOM = 1_000.0
    TIMES_THE_ROOM = 3.0
    ROOM_RISES_BY = 1.05
    HANGOVER_CHUNKS = 2

    def __init__(self) -> None:
        self._room = self.QUIETEST / self.TIMES_THE_ROOM
        self._open_for_chunks = 0
        self._before: bytes | None = None

    @property
    def is_open(self) -> bool:
        return self._open_for_chunks > 0

    def take(self, chunk: bytes) -> list[bytes]:
        """What is to be sent now."""
        quietest, loudest = levels(chunk)
        self._room = min(quietest, self._room * self.ROOM_RISES_BY, self.LOUDEST_ROOM)
        # A room without any noise would rise for ever from nothing.
        self._room = max(self._room, self.QUIETEST / self.TIMES_THE_ROOM)
        if loudest >= self._room * self.TIMES_THE_ROOM:
            sent = [chunk] if self._before is None else [self._before, chunk]
            self._before = None
            self._open_for_chunks = self.HANGOVER_CHUNKS + 1
            return sent
        self._open_for_chunks = max(0, self._open_for_chunks - 1)
        if self.is_open:
            return [chunk]
        self._before = chunk
        return []


def levels(chunk: bytes, frame_ms: int = 20) -> tuple[float, float]:
    """The quietest and the loudest 20 ms, as root mean square of samples; (0, 0) for nothing."""
    samples = array("h", chunk[: len(chunk) // 2 * 2])
    size = SAMPLE_RATE * frame_ms // 1000
    frames = [samples[at : at + size] for at in range(0, len(samples), size)]
    found = [math.sqrt(sum(map(mul, frame, frame)) / len(frame)) for frame in frames]
    return (min(found), max(found)) if found else (0.0, 0.0)


class _Recorder:
    """A program that writes samples to its standard output."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self._process = process
        self._is_stopped = False
        self._complaint = b""
        self._complaining = asyncio.ensure_future(self._listen_to_complaints())

    async def chunks(self) -> AsyncIterator[bytes]:
        assert self._process.stdout is not None
        heard_nothing = True
        while True:
            try:
                yield await self._process.stdout.readexactly(CHUNK_BYTES)
                heard_nothing = False
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    yield error.partial
                elif heard_nothing and not self._is_stopped:
                    await self._complaining
                    why = self._complaint.decode(errors="replace").strip().splitlines() or ["it said nothing"]
                    raise NoMicrophone(
                        f"{self.name} records nothing ({why[-1]}); check that a microphone is connected"
                    ) from None
                return

    async def stop(self) -> None:
        assert self._process.stdout is not None
        if self._is_stopped or self._process.stdout.at_eof():
            # It is ending; a signal to a process that has just ended would confuse the code that waits for it.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_WITHIN_S)
        self._is_stopped = True
        if self._process.returncode is None:
            await stop(self._process, STOP_WITHIN_S)

    async def _listen_to_complaints(self) -> None:
        assert self._process.stderr is not None
        while said := await self._process.stderr.read(4096):
            self._complaint = (self._complaint + said)[-_KEPT_COMPLAINT_BYTES:]


async def _recorder() -> _Recorder:
    for name, arguments in RECORDERS.items():
        if path := shutil.which(name):
            # In a session of its own, so that Ctrl-C reaches us alone and the last samples still come.
            process = await asyncio.create_subprocess_exec(
                *(path, *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
                # Windows has no fork, and refuses it.
                preexec_fn=die_with_parent if sys.platform != "win32" else None,
            )
            return _Recorder(name, process)
    raise NoMicrophone(
        "no recorder is installed; pip install 'lingua-sdk[microphone]', or install arecord (alsa-utils) or sox"
    )


class _Device:
    """A microphone through PortAudio, whose thread hands us the sound."""

    name = "sounddevice"

    def __init__(self, stream_kind: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_WAITING_CHUNKS + 1)
        self._stream = stream_kind(
            samplerate=SAMPLE_RATE,
            channels=1,
            dtype="int16",
            blocksize=CHUNK_BYTES // 2,
            callback=lambda sound, *_: self._loop.call_soon_threadsafe(self._heard, bytes(sound)),
        )
        self._stream.start()

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._waiting.get()) is not None:
            yield chunk

    async def stop(self) -> None:
        if not self._stream.closed:
            await asyncio.to_thread(self._stream.close)
            # After all that the thread has handed over; there is a place kept for it.
            self._loop.call_soon(self._waiting.put_nowait, None)

    def _heard(self, chunk: bytes) -> None:
        if self._waiting.qsize() < MAX_WAITING_CHUNKS:
            self._waiting.put_nowait(chunk)


def _device() -> _Device | None:
    """None when the package or the library below it is not installed."""
    try:
        sounddevice: Any = importlib.import_module("sounddevice")
    except (ImportError, OSError):
        return None
    try:
        return _Device(sounddevice.RawInputStream)
    except sounddevice.PortAudioError as error:
        raise NoMicrophone(f"the microphone cannot be opened: {error}; check that one is connected") from error
