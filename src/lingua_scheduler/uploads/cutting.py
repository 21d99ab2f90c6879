"""Cuts a recording into utterances: at its pauses, and where it is too long at its quietest moment."""

import math
from operator import mul

from lingua_scheduler.protocol.uploads import SAMPLE_RATE, Piece
from lingua_sdk.audio import from_little_endian
from lingua_sdk.protocol.audio import SilenceLevels, listen
from lingua_sdk.recording import AFTER_SPEECH_MS, BEFORE_SPEECH_MS, pauses_in

_BYTES_A_MS = SAMPLE_RATE * 2 // 1000
_FRAME_MS = 20
_FRAME_BYTES = _FRAME_MS * _BYTES_A_MS
# A moment is quiet when its neighbours are: this many frames on either side.
_NEIGHBOURS = 3


def cut(pcm16: bytes, piece_ms: int, silence_rms: int) -> list[Piece]:
    """What is louder than silence, in order; at most `piece_ms` each."""
    most = max(1, piece_ms // _FRAME_MS) * _FRAME_BYTES
    places = [place for begins, ends in _spoken(pcm16) for place in _split(pcm16, begins, ends, most)]
    pieces = [Piece(begins // _BYTES_A_MS, pcm16[begins:ends]) for begins, ends in places if ends > begins]
    silence = SilenceLevels(0, silence_rms)
    return [piece for piece in pieces if listen(piece.audio, silence)[1]]


def _spoken(pcm16: bytes) -> list[tuple[int, int]]:
    """From pause to pause, with a little of each."""
    found, begins = [], 0
    for pause_begins, pause_ends in pauses_in(pcm16):
        if pause_begins:
            found.append((begins, pause_begins + AFTER_SPEECH_MS * _BYTES_A_MS))
        begins = max(0, pause_ends - BEFORE_SPEECH_MS * _BYTES_A_MS) if pause_ends < len(pcm16) else pause_ends
    found.append((begins, len(pcm16)))
    return found


def _split(pcm16: bytes, begins: int, ends: int, most: int) -> list[tuple[int, int]]:
    found = []
    while ends - begins > most:
        middle = begins + min(most, most // 2 + _quietest(pcm16[begins + most // 2 : begins + most]))
        found.append((begins, middle))
        begins = middle
    return [*found, (begins, ends)]


def _quietest(pcm16: bytes) -> int:
    """Where its quietest moment is, in bytes from its beginning."""
    samples = from_little_endian(pcm16)
    size = _FRAME_BYTES // 2
    levels = [
        math.sqrt(sum(map(mul, frame, frame)))
        for frame in (samples[at : at + size] for at in range(0, len(samples), size))
    ]
    around = [sum(levels[max(0, at - _NEIGHBOURS) : at + _NEIGHBOURS + 1]) for at in range(len(levels))]
    # Those at the edge have fewer neighbours, and would seem quiet; of equals the latest, so that pieces are long.
    candidates = range(_NEIGHBOURS, len(levels) - _NEIGHBOURS) or range(len(levels))
    return max(1, min(candidates, key=lambda at: (around[at], -at))) * _FRAME_BYTES
