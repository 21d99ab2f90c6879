"""HTTP edge: a sound file is translated in one request."""

from typing import cast

from aiohttp import hdrs, web
from pybase64 import b64encode_as_string

from lingua_scheduler.console.dispatching import problem_of
from lingua_scheduler.console.operations import Call, KnownProblem, Operation, Problem
from lingua_scheduler.domain.access.scopes import Scope
from lingua_scheduler.domain.jobs.jobs import JobState
from lingua_scheduler.protocol.http_translate import (
    FileState,
    TranslatedFile,
    TranslatedUtterance,
    TranslateQuery,
    TranslateTiming,
    UtteranceState,
)
from lingua_scheduler.protocol.uploads import MEDIA_TYPES, WAV_TYPES, Flaw, NotDecoded, sniff
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.dispatch.translating import FileOutcome, FileTranslations, Upload
from lingua_scheduler.setting_sections.callers import CallsSettings
from lingua_sdk.domain.errors import ErrorCode, HttpCode

_JSON = "application/json"
_HEAD_BYTES = 16


def translating(translations: FileTranslations, settings: CallsSettings) -> Operation:
    async def translate(call: Call[bytes, TranslateQuery]) -> TranslatedFile | web.Response:
        wants_wav = _wants_wav(call.headers.get(hdrs.ACCEPT, ""))
        sound_format = sniff(call.body[:_HEAD_BYTES])
        if sound_format is None:
            detail = (
                "the body is not a WAV, WebM, Ogg, MP3 or MP4 file; raw samples are accepted by POST /v1/dispatch/f2f"
            )
            raise Problem(415, HttpCode.UNSUPPORTED_MEDIA_TYPE, detail)
        query = call.query
        timeout_ms = min(query.timeout_ms or settings.translate_timeout_ms, settings.translate_timeout_ms)
        upload = Upload(
            call.body,
            sound_format,
            query.src,
            query.tgt,
            query.speech or wants_wav,
            timeout_ms / 1000,
            call.headers,
            call.caller.meter or call.caller.address,
            call.principal,
            query.allow_pivot,
        )
        outcome = await translations.translate(upload, call.is_connected)
        match outcome:
            case None:
                # The caller has left.
                raise Problem(503, HttpCode.SERVICE_UNAVAILABLE, "the caller has left")
            case Refusal():
                raise problem_of(outcome)
            case NotDecoded():
                raise _not_decoded(outcome, settings)
        _raise_if_all_failed(outcome)
        return _file(outcome) if wants_wav else _answer(outcome, query)

    return Operation(
        method="POST",
        path="/v1/translate",
        needs=(Scope.DISPATCH_CALL,),
        tag="dispatch",
        summary="Translate a sound file in one request; responds with texts and speech",
        description="The body is a WAV, WebM (Opus), Ogg (Opus or Vorbis), MP3 or MP4 (AAC) file; its first bytes "
        "decide which. WAV always works, the other formats need the extra `lingua-scheduler[audio]`. Pauses end "
        "utterances, and each utterance is a job. The response comes when all of them have ended. With "
        "`Accept: audio/wav` it is the translated speech as a file, or 204 if there is none. If the caller "
        "disconnects, the jobs are cancelled.",
        handle=translate,
        body=bytes,
        media=MEDIA_TYPES,
        max_bytes=settings.max_upload_bytes,
        max_bytes_setting="calls.max_upload_bytes",
        query=TranslateQuery,
        answer=TranslatedFile,
        answer_media=("audio/wav",),
        is_for_apps=True,
        problems=(
            KnownProblem(
                406,
                HttpCode.NOT_ACCEPTABLE.value,
                "`Accept` names neither JSON nor WAV, or the speech cannot be joined",
            ),
            KnownProblem(413, HttpCode.AUDIO_TOO_LONG.value, "The audio is longer than `calls.max_upload_ms`"),
            KnownProblem(
                422, ErrorCode.NO_CAPABLE_NODE.value, "No connected node serves the language pair; the detail says why"
            ),
            KnownProblem(422, HttpCode.UNREADABLE_AUDIO.value, "The file cannot be decoded; the detail says why"),
            KnownProblem(
                502,
                ErrorCode.PROCESSING_ERROR.value,
                "Every utterance failed on its node; other codes of nodes are possible",
            ),
            KnownProblem(
                503,
                ErrorCode.NODE_OVERLOADED.value,
                "`calls.max_jobs` jobs are unfinished, or the scheduler is stopping",
            ),
            KnownProblem(504, ErrorCode.JOB_TIMEOUT.value, "There was no result in time"),
        ),
    )


def _wants_wav(accept: str) -> bool:
    """JSON is the default; 406 for what can be given in neither form."""
    wanted = [part.partition(";")[0].strip().lower() for part in accept.split(",") if part.strip()]
    if not wanted:
        return False
    for media in wanted:
        if media in (_JSON, "application/*", "*/*"):
            return False
        if media in (*WAV_TYPES, "audio/*"):
            return True
    raise Problem(406, HttpCode.NOT_ACCEPTABLE, f"responses are {_JSON} or audio/wav, not {accept[:100]}")


def _not_decoded(flawed: NotDecoded, settings: CallsSettings) -> Problem:
    match flawed.flaw:
        case Flaw.TOO_LONG:
            detail = f"the audio is longer than {settings.max_upload_ms} ms (calls.max_upload_ms); send it in parts"
            return Problem(413, HttpCode.AUDIO_TOO_LONG, detail)
        case Flaw.NO_LIBRARY:
            return Problem(415, HttpCode.UNSUPPORTED_MEDIA_TYPE, flawed.detail)
        case Flaw.UNREADABLE:
            return Problem(422, HttpCode.UNREADABLE_AUDIO, flawed.detail)


def _raise_if_all_failed(outcome: FileOutcome) -> None:
    failed = [piece.result.error for piece in outcome.pieces if piece.result.state == JobState.FAILED]
    error = failed[0] if failed else None
    if error is None or len(failed) < len(outcome.pieces):
        return
    try:
        refusal = Refusal(ErrorCode(error.code), error.detail)
    except ValueError:
        refusal = Refusal(ErrorCode.PROCESSING_ERROR, error.detail)
    raise problem_of(refusal, default=502)


def _answer(outcome: FileOutcome, query: TranslateQuery) -> TranslatedFile:
    utterances = [
        TranslatedUtterance(
            begins_ms=piece.begins_ms,
            duration_ms=piece.duration_ms,
            state=cast("UtteranceState", piece.result.state),
            text=piece.result.text_asr or "",
            translation=piece.result.text_translated or "",
            error=piece.result.error,
            degraded=piece.result.degraded,
            speech=piece.result.tts_audio if outcome.speech is None else None,
            speech_format=piece.result.tts_format if outcome.speech is None else None,
        )
        for piece in outcome.pieces
    ]
    states = {one.state for one in utterances}
    return TranslatedFile(
        state=_state(states),
        src_lang=query.src,
        tgt_lang=query.tgt,
        languages_used=outcome.languages_used,
        text=" ".join(one.text for one in utterances if one.text),
        translation=" ".join(one.translation for one in utterances if one.translation),
        speech=b64encode_as_string(outcome.speech) if outcome.speech else None,
        utterances=utterances,
        timing=TranslateTiming(audio_ms=outcome.audio_ms, decoding_ms=outcome.decoding_ms, total_ms=outcome.total_ms),
    )


def _state(states: set[UtteranceState]) -> FileState:
    if "FAILED" in states or ("CANCELLED" in states and len(states) > 1):
        return "PARTIAL"
    if "DONE" in states:
        return "DONE"
    return "CANCELLED" if "CANCELLED" in states else "NO_TEXT"


def _file(outcome: FileOutcome) -> web.Response:
    if outcome.speech is None:
        detail = "the nodes' speech cannot be joined here (pip install 'lingua-scheduler[opus]'); ask for JSON"
        raise Problem(406, HttpCode.NOT_ACCEPTABLE, detail)
    if not outcome.speech or outcome.languages_used is None:
        return web.Response(status=204)
    language = outcome.languages_used.tgt_lang
    headers = {
        hdrs.CONTENT_DISPOSITION: f'attachment; filename="translation-{language}.wav"',
        hdrs.CONTENT_LANGUAGE: language,
    }
    return web.Response(body=outcome.speech, content_type="audio/wav", headers=headers)
