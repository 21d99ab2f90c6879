"""One sound file in, its translation out: the file is decoded, cut, and each utterance is a job of its own."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from pybase64 import b64decode

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.access.principals import LOCAL, Principal
from lingua_scheduler.domain.jobs.job_ids import JobHandle
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.domain.sessions.terms import Terms
from lingua_scheduler.protocol.http_dispatch import DispatchOptions, F2fDispatch, FetchedResult, ResultError
from lingua_scheduler.protocol.uploads import SAMPLE_RATE, Decoded, NotDecoded, Piece, SoundFormat, wav_of
from lingua_scheduler.services.attempts.permissions import denial
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.dispatch.audio_budget import AudioBudget
from lingua_scheduler.services.dispatch.cancelling import Cancelling
from lingua_scheduler.services.dispatch.http_calls import Calls
from lingua_scheduler.services.dispatch.sound_files import SoundFiles
from lingua_scheduler.store.connection import RedisAway
from lingua_scheduler.telemetry import logs
from lingua_scheduler.telemetry.tasks import Nursery
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.languages import AUTO, tag_of
from lingua_sdk.protocol.shapes import LanguagesUsed

_log = logs.get()

# Utterances of one file that are translated concurrently.
AT_ONCE = 3
# How soon it is noticed that the caller has left.
LOOK_EVERY_S = 0.5
# Between two tries to get a slot, while all nodes are busy.
TRY_AGAIN_S = 0.5
# Of all utterances of a file, as base64: more than two minutes of studio quality have.
MAX_SPEECH_CHARS = 33_554_432
_BYTES_A_MS = SAMPLE_RATE * 2 // 1000

TOO_MUCH_SPEECH = "there is more translated speech than can be held; send the file in parts"
NOT_IN_TIME = "there was no result in time (timeout_ms, calls.translate_timeout_ms)"


class Upload(NamedTuple):
    """A file, and what is wanted of it."""

    sound: bytes
    format: SoundFormat
    src_lang: str
    tgt_lang: str
    wants_speech: bool
    timeout_s: float
    carrier: Mapping[str, str]
    # Its address.
    caller: str = ""
    principal: Principal = LOCAL
    allows_pivot: bool = True


class PieceOutcome(NamedTuple):
    begins_ms: int
    duration_ms: int
    result: FetchedResult


class FileOutcome(NamedTuple):
    """How each utterance of a file ended. `speech` is a WAV file; None where nodes spoke in an unreadable format."""

    audio_ms: int
    decoding_ms: int
    total_ms: int
    pieces: list[PieceOutcome]
    speech: bytes | None = b""
    languages_used: LanguagesUsed | None = None


class _Result(NamedTuple):
    """How a job ended, and under which tags it was served, if it was."""

    fetched: FetchedResult
    languages_used: LanguagesUsed | None = None


class _Speech:
    """The translated speech of one file, which is held until the answer is made."""

    def __init__(self, budget: AudioBudget) -> None:
        self._budget = budget
        self._chars = 0

    def hold(self, result: _Result) -> _Result:
        """The same, or a failure if there is no room for it."""
        size = len(result.fetched.tts_audio or "")
        if self._chars + size > MAX_SPEECH_CHARS or not self._budget.take_of_caller(size):
            return _failed(ErrorCode.NODE_OVERLOADED, TOO_MUCH_SPEECH)
        self._chars += size
        return result

    def let_go(self) -> None:
        self._budget.give_back_of_caller(self._chars)


class FileTranslations:
    def __init__(self, calls: Calls, cancelling: Cancelling, sounds: SoundFiles, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._calls = calls
        self._cancelling = cancelling
        self._sounds = sounds
        self._work = Nursery("translations")

    async def translate(
        self, upload: Upload, is_connected: Callable[[], bool]
    ) -> FileOutcome | Refusal | NotDecoded | None:
        """None if the caller has left: then nothing goes on."""
        if complaint := _complaint(upload):
            return Refusal(ErrorCode.INVALID_MESSAGE, complaint)
        # Before the file is decoded.
        wanted = Terms(tag_of(upload.src_lang) or "", tag_of(upload.tgt_lang) or "").pools()
        if refusal := denial(upload.principal, wanted) or self._calls.refusal():
            return refusal
        if not self._calls.budget.take_of_caller(len(upload.sound), upload.caller):
            return Refusal(ErrorCode.NODE_OVERLOADED, "too much audio is waiting for translation; try again later")
        speech = _Speech(self._calls.budget)
        running = self._work.start(self._translate(upload, speech))
        try:
            while not running.done():
                await asyncio.wait((running,), timeout=LOOK_EVERY_S)
                if not running.done() and not is_connected():
                    _log.info("upload.left")
                    return None
            outcome: FileOutcome | Refusal | NotDecoded = running.result()
            return outcome
        finally:
            self._calls.budget.give_back_of_caller(len(upload.sound), upload.caller)
            try:
                if not running.done():
                    running.cancel()
                    await asyncio.wait((running,))
            finally:
                speech.let_go()

    async def close(self) -> None:
        await self._work.close()

    async def _translate(self, upload: Upload, speech: _Speech) -> FileOutcome | Refusal | NotDecoded:
        began_s = self._clock()
        results: list[_Result] = []
        decoded: Decoded | NotDecoded | None = None
        decoding_ms = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(upload.timeout_s):
                decoded = await self._sounds.decode(upload.sound, upload.format, upload.caller)
                decoding_ms = self._since_ms(began_s)
                if isinstance(decoded, NotDecoded):
                    return decoded
                results = [_failed(ErrorCode.JOB_TIMEOUT, NOT_IN_TIME) for _ in decoded.pieces]
                await self._run_all(upload, decoded.pieces, results, speech, began_s + upload.timeout_s)
        if not isinstance(decoded, Decoded):
            return Refusal(ErrorCode.JOB_TIMEOUT, NOT_IN_TIME)
        joined = await self._joined(upload, [result.fetched for result in results]) if upload.wants_speech else b""
        pieces = [
            PieceOutcome(piece.begins_ms, len(piece.audio) // _BYTES_A_MS, result.fetched)
            for piece, result in zip(decoded.pieces, results, strict=True)
        ]
        used = next((result.languages_used for result in results if result.languages_used), None)
        return FileOutcome(decoded.audio_ms, decoding_ms, self._since_ms(began_s), pieces, joined, used)

    def _since_ms(self, began_s: float) -> int:
        return int((self._clock() - began_s) * 1000)

    async def _run_all(
        self, upload: Upload, pieces: list[Piece], results: list[_Result], speech: _Speech, until_s: float
    ) -> None:
        """Each result is written as soon as it is known: what is done in time counts."""
        places = asyncio.Semaphore(AT_ONCE)

        async def run(number: int) -> None:
            async with places:
                results[number] = speech.hold(await self._run(upload, pieces[number], until_s))

        async with asyncio.TaskGroup() as group:
            for number in range(len(pieces)):
                group.create_task(run(number))

    async def _run(self, upload: Upload, piece: Piece, until_s: float) -> _Result:
        while True:
            left_ms = max(1, int((until_s - self._clock()) * 1000))
            asked = F2fDispatch(
                session_id="translate",
                src_lang=upload.src_lang,
                tgt_lang=upload.tgt_lang,
                audio=piece.audio,
                options=DispatchOptions(
                    require_tts=upload.wants_speech, timeout_ms=left_ms, allow_pivot=upload.allows_pivot
                ),
            )
            placed = await self._calls.dispatch(asked, upload.carrier, upload.principal)
            if not isinstance(placed, Refusal):
                used = LanguagesUsed(src_lang=placed.src_lang, tgt_lang=placed.tgt_lang)
                return _Result(await self._follow(placed.handle), used)
            if placed.code is not ErrorCode.ALL_CANDIDATES_FULL_OR_FAILED:
                return _failed(placed.code, placed.message)
            # It never ran, so it may be tried again for as long as the caller waits.
            await asyncio.sleep(TRY_AGAIN_S)

    async def _follow(self, handle: str) -> FetchedResult:
        try:
            found = await self._calls.take_result(handle)
        except asyncio.CancelledError:
            self._work.start(self._cancel(JobHandle.parse(handle).job_id))
            raise
        return found or _failed(ErrorCode.RESULT_LOST, "the result was dropped before it was read").fetched

    async def _cancel(self, job_id: str) -> None:
        try:
            await self._cancelling.cancel(job_id)
        except RedisAway:
            _log.warning("job.left_open", job_id=job_id)

    async def _joined(self, upload: Upload, results: list[FetchedResult]) -> bytes | None:
        sounds = [(result.tts_format or "pcm16", b64decode(result.tts_audio)) for result in results if result.tts_audio]
        if not sounds:
            return b""
        if all(name == "pcm16" for name, _ in sounds):
            return wav_of(b"".join(sound for _, sound in sounds))
        return await self._sounds.join(sounds, upload.caller)


def _failed(code: ErrorCode, detail: str) -> _Result:
    return _Result(FetchedResult(job_id="", state=JobState.FAILED, error=ResultError(code=code, detail=detail)))


def _complaint(upload: Upload) -> str | None:
    """In the names of the query, which are not those of a session."""
    if upload.src_lang == AUTO:
        return "src=auto is for sessions only; name the language that is spoken"
    for name, text in (("src", upload.src_lang), ("tgt", upload.tgt_lang)):
        if tag_of(text) is None:
            return f"invalid {name}: expected a language tag such as en or pt-BR"
    return None
