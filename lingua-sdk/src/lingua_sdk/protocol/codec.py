"""Encodes and decodes frames. An unreadable frame is rejected with one sentence that quotes no speech."""

import difflib
import re
from itertools import accumulate
from typing import Any, Generic, TypeVar, get_args

import msgspec

from lingua_sdk.domain.decoding import DECODE_ERRORS
from lingua_sdk.protocol import bulk, speech
from lingua_sdk.protocol.node import JobAssign, NodeIncoming, NodeOutgoing
from lingua_sdk.protocol.session import AudioChunk, SessionIncoming, SessionOutgoing, Utterance
from lingua_sdk.protocol.shapes import Count, Message, Number

_MAX_QUOTED_CHARS = 40

# Far more than any message has, far less than Python's recursion limit: what was read with little stack in use
# must still be writable, or storable, from deep inside a service.
_MAX_DEPTH = 100

M = TypeVar("M")
B = TypeVar("B")


class UnreadableFrame(ValueError):
    """A frame that is not a known message; its text is one sentence that may be sent to the peer."""


class _UnknownType(UnreadableFrame):
    """Apart from the rest because a newer scheduler may say more than an older peer understands."""


class _Envelope(msgspec.Struct):
    type: str | msgspec.UnsetType = msgspec.UNSET


_MISSING_FIELD = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(?P<field>.*)`", re.DOTALL)
_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Of the structure of JSON only how deep it goes, and what is a string, is looked at.
_NO_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_SHALLOW = 8
_STEPS = [{ord("["): 1, ord("]"): -1}.get(byte, 0) for byte in range(256)]

_TOO_DEEP = "the {what} is nested too deeply"


class _BadChunk(Message, kw_only=True, tag="audio_chunk"):
    """What can be read of a chunk whose payload is text, but not base64."""

    session_id: str
    seq: Count
    is_final: bool
    payload: str
    client_timestamp_ms: Number | None = None


_encoder = msgspec.json.Encoder()
_bad_chunk_decoder = msgspec.json.Decoder(_BadChunk)
_envelope_decoder = msgspec.json.Decoder(_Envelope)
_speech_decoders: dict[str, msgspec.json.Decoder[Utterance] | msgspec.json.Decoder[AudioChunk]] = {
    "audio": msgspec.json.Decoder(Utterance),
    "payload": msgspec.json.Decoder(AudioChunk),
}


class _Reader(Generic[M]):
    """Reads the messages of one direction."""

    def __init__(self, union: Any) -> None:
        self._decoder: msgspec.json.Decoder[M] = msgspec.json.Decoder(union)
        self._known_types = [str(message.__struct_config__.tag) for message in get_args(union)]
        # Messages whose fields say how deep they go; what they do not know is skipped and not kept.
        self._flat_types = frozenset(message for message in get_args(union) if not _may_be_deep(message))

    def read(self, frame: bytes | str, is_flat: bool = False) -> M:
        """Of a flat frame it is known already that it is not nested too deeply."""
        try:
            message = self._decoder.decode(frame)
            if is_flat or type(message) in self._flat_types or not _is_too_deep(frame):
                return message
            refusal = UnreadableFrame(_TOO_DEEP.format(what="frame"))
        except DECODE_ERRORS as error:
            refusal = self._refusal(frame, error)
        # Outside the handler, because a UnicodeError holds the whole frame and would travel as the context.
        try:
            raise refusal
        finally:
            # Its traceback holds this frame, so a variable here would hold it for ever.
            del refusal

    def read_known(self, frame: bytes | str) -> M | None:
        try:
            return self.read(frame)
        except _UnknownType:
            return None

    def _refusal(self, frame: bytes | str, error: Exception) -> UnreadableFrame:
        try:
            wire_type = _envelope_decoder.decode(frame).type
        except DECODE_ERRORS as envelope_error:
            return UnreadableFrame(_about_the_frame(envelope_error))
        if wire_type is msgspec.UNSET:
            return UnreadableFrame('the frame has no "type" field')
        if wire_type not in self._known_types:
            return _UnknownType(self._about_the_type(wire_type))
        if not isinstance(error, msgspec.ValidationError):
            # The envelope skips over what it does not know, so only the full reading met this.
            return UnreadableFrame(_about_the_frame(error))
        return UnreadableFrame(f"{wire_type}: {about_the_field(str(error))}")

    def _about_the_type(self, wire_type: str) -> str:
        quoted = wire_type[:_MAX_QUOTED_CHARS]
        nearest = difflib.get_close_matches(quoted, self._known_types, n=1)
        hint = f'; did you mean "{nearest[0]}"?' if nearest else ""
        return f'unknown type "{quoted}"{hint}'


def _may_be_deep(message: type[msgspec.Struct]) -> bool:
    """Whether a field may hold JSON of any shape."""
    seen, todo = set(), [msgspec.inspect.type_info(message)]
    while todo:
        kind = todo.pop()
        if isinstance(kind, msgspec.inspect.AnyType):
            return True
        if isinstance(kind, msgspec.inspect.StructType) and kind.cls not in seen:
            seen.add(kind.cls)
            todo += (field.type for field in kind.fields)
        todo += (
            getattr(kind, inner) for inner in ("type", "item_type", "key_type", "value_type") if hasattr(kind, inner)
        )
        todo += getattr(kind, "types", ())
    return False


def _is_too_deep(frame: bytes | str) -> bool:
    """Whether valid JSON goes deeper than we allow."""
    written = frame.encode() if isinstance(frame, str) else frame
    # Few brackets cannot nest deeply; that spares all but the longest lists the walk.
    if len(written) <= bulk.SMALL_BYTES:
        if written.count(b"{") + written.count(b"[") <= _MAX_DEPTH:
            return False
    elif not (_has_many(b"{", written) or _has_many(b"[", written)):
        return False
    if b"\\" in written:
        written = _JSON_STRING.sub(b"", written)
    # Strings without brackets are two quotes now, and need no reading.
    kept = written.translate(_ALIKE, _NO_STRUCTURE).replace(b'""', b"")
    if b'"' in kept:
        kept = _JSON_STRING.sub(b"", kept)
    # The innermost brackets are taken away, level by level: this way C walks through thousands of pairs, not we.
    for _ in range(_SHALLOW):
        if not kept:
            return False
        kept = kept.replace(b"[]", b"")
    # Little is left, or the frame was made to be slow to check: one scan instead of a hundred.
    return max(accumulate(map(_STEPS.__getitem__, kept)), default=0) + _SHALLOW > _MAX_DEPTH


def _has_many(bracket: bytes, written: bytes) -> bool:
    # Not bytes.count: find leaps over megabytes of base64, count steps through them.
    at = -1
    for _ in range(_MAX_DEPTH // 2 + 1):
        at = written.find(bracket, at + 1)
        if at < 0:
            return False
    return True


def _about_the_frame(error: Exception, what: str = "frame") -> str:
    match error:
        case RecursionError():
            return _TOO_DEEP.format(what=what)
        case UnicodeError():
            return f"the {what} is not UTF-8 text"
        case msgspec.ValidationError() if _PLACE.search(str(error)):
            return 'the "type" field is not a string'
        case msgspec.ValidationError():
            return f"the {what} is not a JSON object"
        case _:
            return f"the {what} is not JSON: {error}"


def about_the_field(complaint: str, what: str = "field") -> str:
    """Rewords msgspec, which names fields and kinds; it quotes a value only when the type is unknown."""
    place = _PLACE.search(complaint)
    path = place["path"] if place else ""
    fault = _PLACE.sub("", complaint)
    missing = _MISSING_FIELD.fullmatch(fault)
    if missing:
        path = f"{path}.{missing['field']}".removeprefix(".")
        return f'{what} "{path}" is missing'
    if unknown := _UNKNOWN_FIELD.fullmatch(fault):
        path = f"{path}.{unknown['field'][:_MAX_QUOTED_CHARS]}".removeprefix(".")
        return f'unknown {what} "{path}"'
    fault = fault.replace("`", "")
    return f'invalid {what} "{path}": {fault[:1].lower()}{fault[1:]}'


_session_reader: _Reader[SessionIncoming] = _Reader(SessionIncoming)
_node_reader: _Reader[NodeIncoming] = _Reader(NodeIncoming)
_for_client_reader: _Reader[SessionOutgoing] = _Reader(SessionOutgoing)
_for_node_reader: _Reader[NodeOutgoing] = _Reader(NodeOutgoing)


def encode(message: Message) -> bytes:
    if type(message) is JobAssign and len(message.audio) >= speech.LONG_AUDIO_BYTES:
        return speech.put_in(_encoder.encode(msgspec.structs.replace(message, audio=b"")), message.audio)
    return _encoder.encode(message)


def decode_session(frame: bytes | str, most: bulk.Bulk = bulk.OF_CLIENTS) -> SessionIncoming:
    """What a client tells the scheduler; raises UnreadableFrame."""
    is_flat = False
    if len(frame) > bulk.SMALL_BYTES:
        if len(frame) >= speech.LONG_FRAME_BYTES and isinstance(frame, bytes):
            message = _read_apart(frame, most)
            if message is not None:
                return message
        is_flat = _is_flat(frame, most)
    try:
        return _session_reader.read(frame, is_flat)
    except UnreadableFrame:
        chunk = _without_audio(frame)
        if chunk is None:
            raise
        return chunk


def _is_flat(frame: bytes | str, most: bulk.Bulk) -> bool:
    """Whether it has too few brackets to be nested too deeply; raises UnreadableFrame when it holds too much."""
    written = frame.encode(errors="replace") if isinstance(frame, str) else frame
    try:
        return bulk.brackets_of(written, most) <= _MAX_DEPTH
    except bulk.TooMuch as error:
        raise UnreadableFrame(str(error)) from None


def _without_audio(frame: bytes | str) -> AudioChunk | None:
    """A chunk whose payload is not base64 counts as an empty one; None when something else is wrong with the frame."""
    try:
        chunk = _bad_chunk_decoder.decode(frame)
    except DECODE_ERRORS:
        return None
    if _is_too_deep(frame):
        return None
    return AudioChunk(session_id=chunk.session_id, seq=chunk.seq, is_final=chunk.is_final)


def _read_apart(frame: bytes, most: bulk.Bulk) -> Utterance | AudioChunk | None:
    """A frame with long speech; None for any other, and for one with a fault, which the usual reading can name."""
    apart = speech.cut_out(frame)
    if apart is None:
        return None
    is_flat = len(apart.others) > bulk.SMALL_BYTES and _is_flat(apart.others, most)
    try:
        message = _speech_decoders[apart.name].decode(apart.others)
    except DECODE_ERRORS:
        return None
    if not is_flat and _is_too_deep(apart.others):
        return None
    setattr(message, apart.name, apart.audio)
    return message


def decode_node(frame: bytes | str, most: bulk.Bulk = bulk.OF_NODES) -> NodeIncoming:
    """What a node tells the scheduler; raises UnreadableFrame."""
    return _node_reader.read(frame, len(frame) > bulk.SMALL_BYTES and _is_flat(frame, most))


def _with_choices(said: str, kind: Any) -> str:
    """msgspec quotes a value outside a list of allowed ones, and does not name these."""
    place = _PLACE.search(said)
    if place is None or "Invalid enum value" not in said:
        return said
    info = msgspec.inspect.type_info(kind)
    for name in place["path"].split("."):
        found = [field.type for field in getattr(info, "fields", ()) if field.encode_name == name]
        if not found:
            return said
        info = next((one for one in getattr(found[0], "types", ()) if hasattr(one, "values")), found[0])
    choices = " or ".join(map(str, getattr(info, "values", ())))
    return said.replace(" - at", f"; send {choices} - at") if choices else said


def decode_body(body: bytes, decoder: msgspec.json.Decoder[B], most: bulk.Bulk = bulk.OF_CALLERS) -> B:
    """What a caller sends over HTTP; raises UnreadableFrame."""
    try:
        bulk.brackets_of(body, most, "body")
    except bulk.TooMuch as error:
        raise UnreadableFrame(str(error)) from None
    try:
        read = decoder.decode(body)
        if not _is_too_deep(body):
            return read
        refusal = UnreadableFrame(_TOO_DEEP.format(what="body"))
    except DECODE_ERRORS as error:
        said = _with_choices(str(error), decoder.type)
        is_about_a_field = isinstance(error, msgspec.ValidationError) and (
            _PLACE.search(said) or _MISSING_FIELD.fullmatch(said) or _UNKNOWN_FIELD.fullmatch(said)
        )
        refusal = UnreadableFrame(about_the_field(said) if is_about_a_field else _about_the_frame(error, "body"))
    # Outside the handler, for the same reason as above.
    try:
        raise refusal
    finally:
        # Its traceback holds this frame, so a variable here would hold it for ever.
        del refusal


def decode_for_client(frame: bytes | str) -> SessionOutgoing | None:
    """What the scheduler tells a client, None when of an unknown type; raises UnreadableFrame."""
    return _for_client_reader.read_known(frame)


def decode_for_node(frame: bytes | str) -> NodeOutgoing | None:
    """What the scheduler tells a node, None when of an unknown type; raises UnreadableFrame."""
    return _for_node_reader.read_known(frame)
