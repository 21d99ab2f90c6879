"""What a client has said so far, judged frame by frame. Sans-IO: frames and what was answered are handed in."""

from typing import NamedTuple

from lingua_scheduler.conformance.book import Book
from lingua_scheduler.conformance.checks import PeerProfile
from lingua_sdk.domain.languages import AUTO, tag_of
from lingua_sdk.protocol import binary, codec
from lingua_sdk.protocol.audio import detect_format
from lingua_sdk.protocol.session import (
    AudioChunk,
    ClientHeartbeat,
    SessionClose,
    SessionIncoming,
    SessionInit,
    TtsPlayEnded,
    TtsStarted,
    Utterance,
)

_FIELDS = {"session_init": "init-fields"}
GATEWAY = "api-gateway"


class EndedSpeech(NamedTuple):
    """An utterance that has ended, and whether it came whole."""

    number: int
    is_whole: bool


class ClientRecord:
    def __init__(self, book: Book) -> None:
        self._book = book
        self.init: SessionInit | None = None
        self.platform = ""
        self.session_id = ""
        self.token = ""
        self.use_binary = False
        # Frames with speech, and utterances that have ended and have no outcome yet.
        self.spoken = 0
        self.ended: list[EndedSpeech] = []
        self.answered: set[int] = set()
        # Whole utterances that came again while they had no outcome.
        self.repeated: set[int] = set()
        # Which check a wrong session id, and a wrong seq, fails.
        self.session_check, self.seq_check = "session-id", "seq"
        self.next_seq: int | None = None
        # What an earlier session of the client has counted to.
        self._former_seq = 0
        self._first_index = self._next_index = 0
        self._last_whole = -1
        self._unfinished_bytes = 0
        self._is_acknowledged = False

    @property
    def sends_chunks(self) -> bool:
        return self.next_seq is not None

    def connected(self) -> None:
        self.init = None
        self._is_acknowledged = False

    def opened(self, session_id: str, token: str, use_binary: bool) -> None:
        """A new session was acknowledged."""
        self.session_id, self.token, self.use_binary = session_id, token, use_binary
        self._is_acknowledged = True
        self._former_seq = max(self._former_seq, self.next_seq or 0)
        self.next_seq, self.seq_check = None, "seq"
        self.ended.clear()
        self.answered.clear()
        self._first_index = self._next_index = self._unfinished_bytes = 0
        self._last_whole = -1

    def resumed(self, next_seq: int | None) -> None:
        """The session goes on; chunks from `next_seq` on are expected."""
        self._is_acknowledged = True
        if next_seq is not None:
            self.next_seq = next_seq
            self.seq_check = "replay"
        self._unfinished_bytes = 0

    def outcome(self, speech: EndedSpeech) -> None:
        self.answered.add(speech.number)
        if speech in self.ended:
            self.ended.remove(speech)

    @property
    def contiguous(self) -> int:
        """The last utterance up to which every outcome was sent; the one before the first if none."""
        last = self._first_index - 1
        while last + 1 in self.answered:
            last += 1
        return last

    def heard(self, frame: str | bytes) -> SessionIncoming | None:
        message = self._read(frame)
        if message is None:
            return None
        if not self._is_in_order(message):
            return message
        self._book.passed("readable-frames")
        match message:
            case SessionInit():
                self._inits(message)
            case AudioChunk():
                self._belongs(message.session_id, "audio_chunk")
                self._chunk(message)
            case Utterance():
                self._belongs(message.session_id, "utterance")
                self._whole(message)
            case ClientHeartbeat() | SessionClose() | TtsStarted() | TtsPlayEnded():
                self._belongs(message.session_id, str(message.__struct_config__.tag))
        return message

    def _read(self, frame: str | bytes) -> SessionIncoming | None:
        try:
            if isinstance(frame, str):
                return codec.decode_session(frame)
            is_allowed = self.use_binary and self._is_acknowledged
            expected = "use_binary_frame: true in the acknowledgement first"
            self._book.judge("binary-frames", is_allowed, expected, "a binary frame without it")
            chunk = binary.decode_binary(frame)
        except codec.UnreadableFrame as error:
            own = _FIELDS.get(str(error).partition(":")[0], "readable-frames")
            name = own if isinstance(frame, str) else "binary-frames"
            self._book.failed(name, "a frame as docs/protocol.md describes it", str(error))
            return None
        is_final = chunk.is_final if isinstance(chunk, binary.AudioChunkFrame) else True
        audio = chunk.audio if isinstance(chunk, binary.AudioChunkFrame) else b""
        return AudioChunk(session_id=chunk.session_id, seq=chunk.seq, is_final=is_final, payload=audio)

    def _is_in_order(self, message: SessionIncoming) -> bool:
        came = str(message.__struct_config__.tag)
        if self.init is None and not isinstance(message, SessionInit):
            # The gateway goes on with its session on another connection.
            if self._book.profile is PeerProfile.EXISTING and getattr(message, "session_id", "") == self.session_id:
                return True
            self._book.failed("init-first", "session_init as the first frame", came)
            return False
        if self.init is not None and not self._is_acknowledged:
            self._book.failed("waits-for-ack", "nothing before session_init_ack", came)
            return False
        return True

    def _inits(self, message: SessionInit) -> None:
        self.init = message
        self.platform = message.platform
        self._book.passed("init-first")
        languages = {"src_lang": message.src_lang, "tgt_lang": message.tgt_lang}
        bad = [f"{name} {text!r}" for name, text in languages.items() if not _is_language(name, text)]
        self._book.judge("init-fields", not bad, "language tags such as en or zh-Hans", ", ".join(bad))

    def _belongs(self, session_id: str, where: str) -> None:
        is_own = session_id == self.session_id
        came = f"session_id {session_id} in {where}"
        self._book.judge(self.session_check, is_own, f"session_id {self.session_id}", came)

    def _chunk(self, message: AudioChunk) -> None:
        audio = message.payload or b""
        if self.next_seq is None:
            self.next_seq = self._first_index = self._next_index = self._first_seq(message.seq)
        is_next = message.seq == self.next_seq
        self._book.judge(self.seq_check, is_next, f"seq {self.next_seq}", f"seq {message.seq}")
        self.seq_check = "seq"
        self.next_seq = message.seq + 1
        if audio:
            self.spoken += 1
            self._is_sound(audio)
            self._unfinished_bytes += len(audio)
        if message.is_final and self._unfinished_bytes:
            self._unfinished_bytes = 0
            self.ended.append(EndedSpeech(self._next_index, is_whole=False))
            self._next_index += 1
        self._book.passed("speaks")

    def _first_seq(self, came: int) -> int:
        """What a session may begin with. Of a client that counts on, outcomes are numbered from there."""
        is_existing = self._book.profile is PeerProfile.EXISTING
        counts_on = 0 < self._former_seq <= came
        return came if is_existing or counts_on else 0

    def _whole(self, message: Utterance) -> None:
        self.spoken += 1
        self._is_sound(message.audio)
        self._book.passed("speaks")
        if message.utterance_index in self.answered:
            came = f"utterance_index {message.utterance_index} again"
            self._book.failed("no-repeats", "no utterance that has its outcome", came)
            return
        speech = EndedSpeech(message.utterance_index, is_whole=True)
        if speech in self.ended:
            self.repeated.add(speech.number)
            return
        is_later = message.utterance_index > self._last_whole
        expected = f"utterance_index above {self._last_whole}"
        self._book.judge("utterance-index", is_later, expected, f"utterance_index {message.utterance_index}")
        self._last_whole = max(self._last_whole, message.utterance_index)
        self.ended.append(speech)

    def _is_sound(self, audio: bytes) -> None:
        is_whole = detect_format(audio) == "opus" or len(audio) % 2 == 0
        came = f"{len(audio)} bytes, neither whole samples nor framed Opus"
        self._book.judge("audio-format", is_whole, "PCM16 or framed Opus", came)


def _is_language(name: str, text: str) -> bool:
    return (name == "src_lang" and text == AUTO) or tag_of(text) is not None
