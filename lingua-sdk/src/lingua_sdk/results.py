"""What a client hears, as plain values: a translation, a partial, or why there is none."""

import base64
from typing import NamedTuple

from lingua_sdk.audio import Audio, printed
from lingua_sdk.decoding import decode
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.session import AsrPartial, MissingResult, TranslationResult, UiEvent

Heard = TranslationResult | MissingResult | AsrPartial | UiEvent


class Translation(NamedTuple):
    """`speech` is empty when none was asked for; `audio()` is the same as samples.

    `is_late`: one that was said after it has come before it.
    """

    utterance_index: int
    text: str
    translated: str
    speech: bytes = b""
    speech_format: str = "pcm16"
    is_late: bool = False

    def __repr__(self) -> str:
        return printed(self)

    def audio(self) -> Audio:
        """Raises CannotDecode when a node speaks in a form that cannot be read here."""
        return decode(self.speech, self.speech_format, 16_000)


class Partial(NamedTuple):
    """What was understood so far of an utterance that is not over."""

    utterance_index: int
    text: str


class NoText(NamedTuple):
    """Nothing was said, or nothing that could be understood."""

    utterance_index: int
    reason: str


class Failed(NamedTuple):
    """No node could translate it, or not in time, or it was cancelled; `code` and `hint` say why."""

    utterance_index: int
    code: str = ""
    hint: str = ""

    @property
    def is_cancelled(self) -> bool:
        return self.code == ErrorCode.JOB_CANCELLED


class Gap(NamedTuple):
    """Its translation came too late or was lost; `reason` as in docs/sessions.md."""

    utterance_index: int
    reason: str


Result = Translation | Partial | NoText | Failed | Gap


class Reading:
    """Turns messages into results. What a failure was comes before the word that nothing came of it."""

    def __init__(self) -> None:
        self._failures: dict[int, UiEvent] = {}

    def take(self, heard: Heard) -> Result | None:
        match heard:
            case TranslationResult():
                self._failures.pop(heard.utterance_index, None)
                speech = base64.b64decode(heard.tts_audio)
                return Translation(
                    heard.utterance_index,
                    heard.text_asr,
                    heard.text_translated,
                    speech,
                    heard.tts_format,
                    is_late=heard.late,
                )
            case AsrPartial():
                return Partial(heard.utterance_index, heard.text)
            case MissingResult(reason="no_text" | "silence_detected"):
                return NoText(heard.utterance_index, heard.reason)
            case MissingResult(reason="job_failed"):
                event = self._failures.pop(heard.utterance_index, None)
                if heard.code is not None:
                    return Failed(heard.utterance_index, heard.code, heard.detail or "")
                # A scheduler of an older release.
                return Failed(heard.utterance_index, *(_why(event) if event else ()))
            case MissingResult():
                return Gap(heard.utterance_index, heard.reason)
            case UiEvent(status="error"):
                self._failures[heard.utterance_index] = heard
        return None


def _why(event: UiEvent) -> tuple[str, str]:
    return event.error_code or "", event.hint or ""
