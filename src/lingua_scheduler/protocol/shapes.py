"""What both sides of the wire share: the base of every message, the numbers, and the nested objects."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

# Lua and JavaScript keep numbers as doubles; a larger integer would silently become another one there.
_MAX_EXACT_INT = 2**53 - 1

Count = Annotated[int, Meta(ge=0, le=_MAX_EXACT_INT)]
SampleRate = Annotated[int, Meta(ge=1, le=_MAX_EXACT_INT)]

# A time or a measure. An int stays an int, so that a strict peer we pass it on to reads what was sent.
Number = Annotated[int, Meta(ge=-_MAX_EXACT_INT, le=_MAX_EXACT_INT)] | float


# Names, ids, codes and tokens that a peer makes up; what one of them may list; and texts that people read or hear.
Name = Annotated[str, Meta(max_length=256)]
Names = Annotated[list[Name], Meta(max_length=1024)]
Text = Annotated[str, Meta(max_length=65_536)]


class Shape(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """An object inside a message. JSON is a tree, so no cycle needs the garbage collector."""


class Message(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    """A frame on the wire. A field without a default is always written, one at its default never."""

    # Whether it may wait a moment for others, so that they leave in one write.
    may_wait: ClassVar[bool] = False
    # Whether a peer that reads slowly can do without it, because a later one says more.
    may_be_dropped: ClassVar[bool] = False


class ErrorMessage(Message, kw_only=True, tag="error"):
    code: str
    message: str
    details: Any = None


class JobError(Shape, kw_only=True):
    code: Name
    message: Text
    details: Any = None


class FeatureFlags(Shape, kw_only=True):
    """What a client wants to be told of a voice, or done with it; flags that are not known here are left out."""

    emotion_detection: bool | None = None
    voice_style_detection: bool | None = None
    speech_rate_detection: bool | None = None
    speech_rate_control: bool | None = None
    speaker_identification: bool | None = None
    persona_adaptation: bool | None = None


class PipelineChoice(Shape, kw_only=True):
    """The stages a client asks for; what it leaves open is the scheduler's choice."""

    use_asr: bool
    use_nmt: bool
    use_tts: bool
    use_semantic: bool | None = None
    use_tone: bool | None = None


class JobPipeline(Shape, kw_only=True):
    use_asr: bool
    use_nmt: bool
    use_tts: bool
    use_semantic: bool
    use_tone: bool


class InstalledService(Shape, kw_only=True):
    service_id: Name
    type: Name
    device: Name
    status: Name
    version: Name | None = None
    model_id: Name | None = None
    engine: Name | None = None
    mem_mb: Number | None = None
    warmup_ms: Number | None = None
    last_error: Text | None = None


class CapabilityByType(Shape, kw_only=True):
    type: Name
    ready: bool
    reason: Text | None = None
    ready_impl_ids: Names | None = None
    devices: Names | None = None


class InstalledModel(Shape, kw_only=True):
    model_id: Name
    kind: Name
    version: Name
    src_lang: Name | None = None
    tgt_lang: Name | None = None
    dialect: Name | None = None
    enabled: bool | None = None


class ServiceTimings(Shape, kw_only=True):
    asr_ms: Number | None = None
    nmt_ms: Number | None = None
    tts_ms: Number | None = None
    total_ms: Number | None = None


class NetworkTimings(Shape, kw_only=True):
    web_to_scheduler_ms: Number | None = None
    scheduler_to_node_ms: Number | None = None
    node_to_scheduler_ms: Number | None = None
    scheduler_to_web_ms: Number | None = None


_PAIR_KEYS = (("from", "to"), ("src_lang", "tgt_lang"), ("src", "tgt"))
_ARROWS = re.compile(r"\s*(?:->|→|:)\s*")
# Two codes of 35 characters, an arrow, and spaces. Looking for an arrow takes the square of the spaces.
_MAX_PAIR_CHARS = 256

# Between codes a hyphen is ambiguous, except that languages are lower case (zh) and their subtags are not
# (Hant, TW): zh-Hant-en is a pair, zh-Hant and zh-TW are one language each.
_CODE = r"([a-z]{2,3}(?:-[A-Z][a-z]{3})?(?:-[A-Z]{2})?)"
_HYPHENATED_PAIR = re.compile(f"{_CODE}-{_CODE}")


class Translations(NamedTuple):
    """What a node declares."""

    # Directed pairs, or None when it declares none, which stands for any pair.
    pairs: list[tuple[str, str]] | None
    # Which entry is the first without a readable pair.
    unreadable: int | None


def translation_pairs(nmt_capabilities: object) -> list[tuple[str, str]] | None:
    """The directed pairs a node declares, or None when it declares none, which stands for any pair.

    Unreadable entries are skipped; a list without a readable one declares nothing.
    """
    return read_translations(nmt_capabilities).pairs


def read_translations(nmt_capabilities: object) -> Translations:
    """As `translation_pairs`, for those who do not bear with an entry that cannot be read."""
    pairs: list[tuple[str, str]] = []
    unreadable: int | None = None
    for place, entry in enumerate(_entries(nmt_capabilities)):
        before = len(pairs)
        pairs += [pair for candidate in _candidates(entry) if (pair := _pair(candidate)) is not None]
        if unreadable is None and len(pairs) == before:
            unreadable = place
    return Translations(pairs or None, unreadable)


def count_translations(nmt_capabilities: object, most: int) -> int:
    """How many pairs are declared, without reading any; not counted to the end when there are more than `most`."""
    entries = _entries(nmt_capabilities)
    return len(entries) if len(entries) > most else sum(len(_candidates(entry)) for entry in entries)


def _entries(nmt_capabilities: object) -> list[Any]:
    return nmt_capabilities if isinstance(nmt_capabilities, list) else [nmt_capabilities]


def _candidates(entry: object) -> Sequence[Any]:
    if isinstance(entry, dict):
        listed = entry.get("supported_pairs")
        if isinstance(listed, list):
            return listed
    return (entry,)


def _pair(candidate: object) -> tuple[str, str] | None:
    if isinstance(candidate, str):
        return _pair_of_text(candidate.strip()) if len(candidate) <= _MAX_PAIR_CHARS else None
    if isinstance(candidate, dict):
        for source_key, target_key in _PAIR_KEYS:
            source, target = candidate.get(source_key), candidate.get(target_key)
            if isinstance(source, str) and isinstance(target, str) and source and target:
                return source, target
    return None


def _pair_of_text(text: str) -> tuple[str, str] | None:
    sides = _ARROWS.split(text)
    if len(sides) == 2 and all(sides):
        return sides[0], sides[1]
    match = _HYPHENATED_PAIR.fullmatch(text)
    return (match[1], match[2]) if match else None
