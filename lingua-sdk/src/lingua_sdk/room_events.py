"""What happens in a room, as plain values: who is there, what is said and written, and its end."""

import base64
import re
from typing import NamedTuple

from lingua_sdk.audio import Audio, printed
from lingua_sdk.decoding import decode
from lingua_sdk.protocol.session import (
    AsrPartial,
    MissingResult,
    RoomCaption,
    RoomHistory,
    RoomMembers,
    RoomMessage,
    RoomSpeaking,
    TranslationResult,
)
from lingua_sdk.room_seqs import RoomSeqs

# Names of members that have left, for what they said before.
MAX_NAMES = 1_000

_BOTH = re.compile(r"[^()]*[\u4e00-\u9fff][^()]*\((.+)\)", re.DOTALL)

InRoom = RoomMembers | RoomCaption | RoomSpeaking | RoomMessage | RoomHistory | TranslationResult | MissingResult


def in_english(text: str) -> str:
    """Sentences about rooms are in Chinese, which existing apps show, with the same in English in brackets."""
    found = _BOTH.fullmatch(text)
    return found[1] if found else text


class RoomPerson(NamedTuple):
    session_id: str
    name: str
    # In which it reads and hears the others, and which it speaks; empty if it did not say so.
    language: str
    speaks: str
    # host, listener, or empty.
    role: str


class MembersChanged(NamedTuple):
    """Everyone who is in the room now, in the order they joined; guests are only counted."""

    members: tuple[RoomPerson, ...]
    is_locked: bool = False
    guests: int = 0


class Said(NamedTuple):
    """What a member said: as it was understood (`text`), and in the language of this listener (`translated`).

    Of your own speech, `translated` is empty unless no one else is there. `room_seq` is its place in the room, the same
    for every listener; None if the scheduler gave it none. `is_late`: one that was said after it has come before it.
    """

    speaker: str
    name: str
    text: str
    translated: str
    language: str
    room_seq: int | None
    speech: bytes = b""
    speech_format: str = "pcm16"
    is_own: bool = False
    is_late: bool = False

    def __repr__(self) -> str:
        return printed(self)

    def audio(self) -> Audio:
        """Raises CannotDecode when a node speaks in a form that cannot be read here."""
        return decode(self.speech, self.speech_format, 16_000)


class Unheard(NamedTuple):
    """A member spoke, and there is no text: `reason` as in docs/sessions.md, `code`, `is_late` as of `Said`."""

    speaker: str
    name: str
    room_seq: int | None
    reason: str
    code: str = ""
    is_late: bool = False


class Caption(NamedTuple):
    """What a member is saying, as far as it is understood, in its own language. `Said` follows. May be lost."""

    speaker: str
    name: str
    text: str
    language: str
    is_final: bool


class Speaking(NamedTuple):
    """A member begins or ends to speak. May be lost."""

    speaker: str
    name: str
    is_speaking: bool


class TextMessage(NamedTuple):
    """A text message; also your own."""

    speaker: str
    name: str
    text: str
    at_ms: int


class EarlierLine(NamedTuple):
    """Said or written before you came, in your language where it was translated into it; `original` as it was said."""

    speaker: str
    name: str
    text: str
    original: str
    at_ms: int


class History(NamedTuple):
    """The last minutes, oldest first."""

    lines: tuple[EarlierLine, ...]


class Rejected(NamedTuple):
    """Something that you did not wait for was refused; `text` says why."""

    code: str
    text: str


class Ended(NamedTuple):
    """The room has ended for you: it was closed, it expired, or the host removed you. Nothing follows."""

    text: str


RoomEvent = MembersChanged | Said | Unheard | Caption | Speaking | TextMessage | History | Rejected | Ended


class RoomReading:
    """Turns messages into events; an outcome that has come before is None."""

    def __init__(self, own: str) -> None:
        self.own = own
        self._names: dict[str, str] = {}
        self.seqs = RoomSeqs()
        self.members: tuple[RoomPerson, ...] = ()

    def read(self, message: InRoom) -> RoomEvent | None:
        match message:
            case TranslationResult() | MissingResult():
                return self._outcome(message)
            case RoomMembers():
                return self._changed(message)
            case RoomCaption():
                name, text = self._name(message.session_id), message.text
                return Caption(message.session_id, name, text, message.lang, message.is_final)
            case RoomSpeaking():
                return Speaking(message.session_id, self._name(message.session_id), message.speaking)
            case RoomMessage():
                name = message.display_name or self._name(message.session_id)
                return TextMessage(message.session_id, name, message.text, int(message.sent_at_ms))
            case RoomHistory():
                return self._history(message)

    def partial(self, message: AsrPartial) -> Caption:
        """Of our own speech."""
        return Caption(self.own, self._name(self.own), message.text, "", message.is_final)

    def _outcome(self, message: TranslationResult | MissingResult) -> Said | Unheard | None:
        # One that was missed may come from an instance that does not know what was told before.
        is_late = message.late or (message.room_seq is not None and message.room_seq < self.seqs.highest)
        if message.room_seq is not None and not self.seqs.take(message.room_seq):
            return None
        speaker, name = message.session_id, self._name(message.session_id)
        if isinstance(message, MissingResult):
            return Unheard(speaker, name, message.room_seq, message.reason, message.code or "", is_late)
        return Said(
            speaker,
            name,
            message.text_asr,
            message.text_translated,
            message.lang or "",
            message.room_seq,
            base64.b64decode(message.tts_audio),
            message.tts_format,
            is_own=speaker == self.own,
            is_late=is_late,
        )

    def _changed(self, message: RoomMembers) -> MembersChanged:
        self.members = tuple(
            RoomPerson(
                one.session_id, one.display_name or "", one.preferred_lang or "", one.src_lang or "", one.role or ""
            )
            for one in message.members
        )
        for one in self.members:
            # Those who are here are the last to be forgotten.
            self._names.pop(one.session_id, None)
            self._names[one.session_id] = one.name
        while len(self._names) > MAX_NAMES:
            del self._names[next(iter(self._names))]
        return MembersChanged(self.members, message.locked, message.guests)

    def _history(self, message: RoomHistory) -> History:
        for line in message.lines:
            if line.room_seq is not None:
                self.seqs.know(line.room_seq)
        return History(
            tuple(
                EarlierLine(
                    line.session_id, line.display_name or "", line.text, line.text_asr or line.text, int(line.at_ms)
                )
                for line in message.lines
            )
        )

    def _name(self, session_id: str) -> str:
        return self._names.get(session_id, "")
