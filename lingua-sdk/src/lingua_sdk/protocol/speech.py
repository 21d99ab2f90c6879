"""Long speech in a frame, decoded and encoded apart from the other fields, because base64 is most of the work."""

import binascii
import re
from typing import NamedTuple

import pybase64

# What is shorter is quicker in one piece: a frame to be read, and speech to be written.
LONG_FRAME_BYTES = 6_144
LONG_AUDIO_BYTES = 2_048
# A frame with much before its speech is parsed in one piece.
_LATEST_BEGIN = 1_024

# A quote inside a string has a backslash before it, so this is the name of a field, and a text follows.
_FIELD = re.compile(rb',[ \t\r\n]*("audio"|"payload")[ \t\r\n]*:[ \t\r\n]*"')
_WRITTEN_FIELD = b'"audio":"'


class Apart(NamedTuple):
    """A frame with "" for the text of a field, the field's name, and what the text says."""

    others: bytes
    name: str
    audio: bytes


def cut_out(frame: bytes) -> Apart | None:
    """None when only the whole frame can be read, if at all."""
    field = _FIELD.search(frame, 0, _LATEST_BEGIN)
    if field is None:
        return None
    quoted_name, begin = field[1], field.end()
    end = frame.find(b'"', begin)
    # With a bracket before it the field may be another object's; a name that comes twice is for a JSON parser.
    if end < 0 or frame.find(b"{", 1, begin) >= 0 or b"[" in frame[:begin] or quoted_name in frame[end:]:
        return None
    try:
        audio = pybase64.b64decode(memoryview(frame)[begin:end], validate=True)
    except binascii.Error:
        return None
    return Apart(frame[:begin] + frame[end:], quoted_name[1:-1].decode(), audio)


def put_in(frame: bytes, audio: bytes) -> bytes:
    """The frame with this speech for the "" of its first `audio`."""
    before, name, after = frame.partition(_WRITTEN_FIELD)
    return b"".join((before, name, pybase64.b64encode(audio), after))
