"""Decodes uploaded sound files in a process of their own, bounded in time, memory and number."""

import asyncio
import sys
from contextlib import suppress

import msgspec

from lingua_scheduler.protocol.uploads import (
    SAMPLE_RATE,
    Decoded,
    DecodeOrder,
    Flaw,
    Joined,
    JoinOrder,
    NotDecoded,
    SoundFormat,
    decode_reply,
    encode_order,
)
from lingua_scheduler.services.dispatch.fair_places import FairPlaces
from lingua_scheduler.setting_sections.callers import CallsSettings
from lingua_scheduler.setting_sections.sessions import SessionsSettings
from lingua_scheduler.telemetry import logs
from lingua_sdk.processes import die_with_parent

_log = logs.get()

_BYTES_A_MS = SAMPLE_RATE * 2 // 1000
# What a reply has besides its samples.
_ENVELOPE_BYTES = 1_048_576
_MAX_JOINED_BYTES = 134_217_728
_READ_BYTES = 262_144
_COMMAND = (sys.executable, "-m", "lingua_scheduler.uploads")

BROKEN = NotDecoded(Flaw.UNREADABLE, "the file cannot be decoded")


class SoundFiles:
    def __init__(self, calls: CallsSettings, sessions: SessionsSettings) -> None:
        self._settings = calls
        self._piece_ms = min(sessions.max_duration_ms, sessions.max_utterance_bytes // _BYTES_A_MS)
        self._silence_rms = sessions.silence_pcm_rms
        self._places = FairPlaces(calls.max_decoders)

    async def decode(self, sound: bytes, sound_format: SoundFormat, caller: str = "") -> Decoded | NotDecoded:
        """The utterances in a file. Callers, by their address, get a decoder in turn."""
        settings = self._settings
        order = DecodeOrder(sound_format, settings.max_upload_ms, self._piece_ms, self._silence_rms)
        max_bytes = settings.max_upload_ms * _BYTES_A_MS + _ENVELOPE_BYTES
        reply = await self._ask(caller, encode_order(order), sound, max_bytes)
        return BROKEN if isinstance(reply, Joined) else reply

    async def join(self, sounds: list[tuple[str, bytes]], caller: str = "") -> bytes | None:
        """One WAV file of what nodes spoke; None if a format cannot be read here."""
        reply = await self._ask(caller, encode_order(JoinOrder(sounds)), b"", _MAX_JOINED_BYTES)
        return reply.wav if isinstance(reply, Joined) else None

    async def _ask(self, caller: str, order: bytes, sound: bytes, max_bytes: int) -> Decoded | Joined | NotDecoded:
        async with self._places.place(caller):
            process = await asyncio.create_subprocess_exec(
                *_COMMAND,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                preexec_fn=die_with_parent,
            )
            try:
                async with asyncio.timeout(self._settings.decode_timeout_ms / 1000):
                    _, said = await asyncio.gather(_write(process, order, sound), _read(process, max_bytes))
                return decode_reply(said)
            except TimeoutError:
                _log.warning("upload.slow", bytes=len(sound))
                return NotDecoded(Flaw.UNREADABLE, "the file takes too long to decode")
            except (msgspec.DecodeError, OSError):
                # It crashed, or was ended by its limits.
                _log.warning("upload.broken", bytes=len(sound))
                return BROKEN
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                if process.stdout is not None:
                    # What is left in the pipe; unread, it would stay open.
                    await process.stdout.read()
                await process.wait()


async def _write(process: asyncio.subprocess.Process, *parts: bytes) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError):  # it ended early, and has replied why
        for part in parts:
            if process.stdin.is_closing():
                return  # likewise, and the event loop has noticed: writing would not be a ConnectionError then
            process.stdin.write(part)
            await process.stdin.drain()
        process.stdin.close()


async def _read(process: asyncio.subprocess.Process, max_bytes: int) -> bytes:
    """Raises OSError if there is more than a reply can have."""
    assert process.stdout is not None
    found = bytearray()
    while part := await process.stdout.read(_READ_BYTES):
        found += part
        if len(found) > max_bytes:
            raise OSError("too much output")
    return bytes(found)
