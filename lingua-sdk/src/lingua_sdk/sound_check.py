"""Checks that speech of engines is 16-bit samples: a buffer of floats read as such is noise at full volume."""

import operator
import sys
from array import array
from typing import Any

from lingua_sdk.audio import Audio, to_little_endian
from lingua_sdk.failures import BrokenContract, type_name

# Of telephones and of studios, and a margin.
LOWEST_RATE, HIGHEST_RATE = 4_000, 192_000
_TO_DO = "scale to -32768..32767 and convert to int16"
# By the letter of a buffer's format.
_KINDS = dict.fromkeys("efd", "float") | dict.fromkeys("bhilqn", "int") | dict.fromkeys("BHILQN", "uint")


def checked_audio(method: str, audio: Audio) -> Audio:
    """The audio with its samples as bytes. Raises BrokenContract."""
    rate = _checked_rate(f"Audio.sample_rate of {method}()", audio.sample_rate)
    return Audio(checked_samples(f"Audio.samples of {method}()", audio.samples), rate)


def checked_samples(name: str, samples: Any) -> bytes:
    """16-bit little-endian samples of one channel, of any object that has a buffer of them."""
    if isinstance(samples, bytes):
        return _whole(name, samples)
    view = _view(samples)
    if view is None:
        raise BrokenContract(f"{name} must be 16-bit samples, got {_listed(samples)}; {_TO_DO}")
    if view.format == "B" and isinstance(samples, bytearray | memoryview):
        return _whole(name, view.tobytes())
    if not _is_int16(view):
        raise BrokenContract(f"{name} must be 16-bit samples, got {type_name(samples)} of {_item(view)}; {_TO_DO}")
    if sum(size > 1 for size in view.shape or ()) > 1:
        shape = " x ".join(map(str, view.shape or ()))
        raise BrokenContract(f"{name} must be one channel, got {type_name(samples)} of {shape} samples")
    is_native = view.format != "<h"
    return to_little_endian(array("h", view.tobytes())) if is_native else view.tobytes()


def checked_bytes(name: str, given: Any) -> bytes:
    """Encoded speech, such as Opus."""
    if not isinstance(given, bytes | bytearray | memoryview):
        raise BrokenContract(f"{name} must be bytes, got {type_name(given)}")
    return bytes(given)


def _checked_rate(name: str, given: Any) -> int:
    try:
        rate = -1 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        rate = -1
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        got = given if type(given) is int else type_name(given)
        raise BrokenContract(
            f"{name} must be an int from {LOWEST_RATE} to {HIGHEST_RATE} (samples per second), got {got}"
        )
    return rate


def _whole(name: str, samples: bytes) -> bytes:
    if len(samples) % 2:
        raise BrokenContract(
            f"{name} must be 16-bit samples, got {len(samples)} bytes, which is no whole number of samples"
        )
    return samples


def _view(samples: Any) -> memoryview | None:
    try:
        return memoryview(samples)
    except (TypeError, ValueError, BufferError):
        return None


def _is_int16(view: memoryview) -> bool:
    order, letter = view.format[:-1], view.format[-1:]
    return letter == "h" and view.itemsize == 2 and order in ("", "@", "=", "<")


def _item(view: memoryview) -> str:
    """What a buffer holds, as numpy calls it."""
    order, letter = view.format[:-1], view.format[-1:]
    if letter not in _KINDS:
        return f"items of {view.itemsize} bytes"
    is_foreign = order in (">", "!") and sys.byteorder == "little"
    return f"{'big-endian ' if is_foreign else ''}{_KINDS[letter]}{8 * view.itemsize}"


def _listed(samples: Any) -> str:
    is_list = isinstance(samples, list | tuple) and len(samples) > 0
    return f"{type_name(samples)} of {type_name(samples[0])}" if is_list else type_name(samples)
