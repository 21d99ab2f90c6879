"""Limits of a frame besides its speech, checked before parsing: many small objects cost more than their size."""

import re
from typing import NamedTuple

# Shorter messages are not checked.
SMALL_BYTES = 4_096
# Speech may have any length that a frame may have; the field is looked for by its name.
_SPEECH = (b'"audio"', b'"payload"', b'"tts_audio"')
_BEGINNING = 1_024
# Between the name and the text. No peer writes more white space than this, and skipping it takes time.
_TEXT = re.compile(rb'[ \t\r\n]{0,64}:[ \t\r\n]{0,64}"')
# A node that lists its languages and pairs says more than any other.
_LISTS = (b'"node_register"', b'"node_heartbeat"')


class Bulk(NamedTuple):
    """The most a frame may hold besides its speech, in bytes, and in objects and lists."""

    size: int
    brackets: int
    # The same of a frame in which a node lists what it can do.
    list_size: int = 0
    list_brackets: int = 0


# Enough for pipelines, features and what two browsers tell each other.
OF_CLIENTS = Bulk(65_536, 256)
# Texts of many parts, with what was heard when; and 16 384 pairs of languages, each an object.
OF_NODES = Bulk(262_144, 4_096, 1_048_576, 32_768)

# The same over HTTP.
OF_CALLERS = Bulk(65_536, 256)
OF_RESULTS = Bulk(OF_NODES.size, OF_NODES.brackets)
OF_LISTS = Bulk(OF_NODES.list_size, 70_000)


class TooMuch(ValueError):
    """A frame, or a body, that holds too much; its text is one sentence about it."""


def brackets_of(frame: bytes, most: Bulk, what: str = "frame") -> int:
    """How many objects and lists it has, if it may be read; raises TooMuch. Of a small one they are not counted."""
    length = len(frame)
    if length <= SMALL_BYTES:
        return length
    size, brackets = most.size, most.brackets
    rest = length if length <= size else length - _speech(frame, length - size)
    found = _count(frame, brackets)
    if rest <= size and found <= brackets:
        return found
    if most.list_size and any(name in frame for name in _LISTS):
        size, brackets = most.list_size, most.list_brackets
    if rest > size:
        raise TooMuch(f"the {what} has {rest} bytes besides its speech; at most {size} are allowed")
    found = frame.count(b"[") + frame.count(b"{")
    if found > brackets:
        raise TooMuch(f"the {what} has {found} objects and lists; at most {brackets} are allowed")
    return found


def _count(frame: bytes, most: int) -> int:
    """No further than one more than the most."""
    # Not bytes.count: find leaps over speech, count steps through it.
    found = 0
    for bracket in (b"[", b"{"):
        at = frame.find(bracket)
        while at >= 0:
            found += 1
            if found > most:
                return found
            at = frame.find(bracket, at + 1)
    return found


def _speech(frame: bytes, enough: int) -> int:
    """How long the longest text of a field for speech is, or one that is long enough."""
    longest = 0
    # Most peers write it near the beginning, and looking for a name through all of a long frame takes its time.
    for end in (_BEGINNING, len(frame)):
        for name in _SPEECH:
            at = frame.find(name, 0, end)
            text = _TEXT.match(frame, at + len(name)) if at >= 0 else None
            if text is not None:
                longest = max(longest, frame.find(b'"', text.end()) - text.end())
            if longest >= enough:
                return longest
    return longest
