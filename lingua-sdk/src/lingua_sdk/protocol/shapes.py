"""Shared by client and node messages: the base struct, number types and nested objects."""

from typing import Annotated, Any, ClassVar

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

# What stands for the boot id of a node that gives none: its address. No peer may claim it.
NO_BOOT_ID = "address:"
BootId = Annotated[str, Meta(max_length=256, pattern=f"^(?!{NO_BOOT_ID})")]


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
    """Optional speech features that a client requests; unknown flags are ignored."""

    emotion_detection: bool | None = None
    voice_style_detection: bool | None = None
    speech_rate_detection: bool | None = None
    speech_rate_control: bool | None = None
    speaker_identification: bool | None = None
    persona_adaptation: bool | None = None


class LanguagesUsed(Shape, kw_only=True):
    """The language tags under which nodes serve what was asked for (docs/languages.md)."""

    src_lang: str
    tgt_lang: str
    lang_a: str | None = None
    lang_b: str | None = None
    auto_langs: list[str] | None = None


class PipelineChoice(Shape, kw_only=True):
    """The stages a client requests; for absent ones the scheduler decides."""

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


class Degraded(Shape, kw_only=True):
    """`rung` is `pivot`, translated by way of the language `pivot`, or `text_only`, without the speech asked for."""

    rung: str
    pivot: str | None = None
