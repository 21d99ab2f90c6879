"""One sound file translated in one HTTP request: query and response."""

from typing import Annotated, Literal

from msgspec import Meta

from lingua_scheduler.protocol.http_dispatch import ResultError
from lingua_sdk.protocol.shapes import Count, Degraded, LanguagesUsed, Shape

MAX_WAIT_MS = 600_000

UtteranceState = Literal["DONE", "NO_TEXT", "FAILED", "CANCELLED"]
FileState = Literal["DONE", "PARTIAL", "NO_TEXT", "CANCELLED"]


class TranslateQuery(Shape, kw_only=True):
    src: Annotated[str, Meta(max_length=35, description="Language spoken", examples=["en"])]
    tgt: Annotated[str, Meta(max_length=35, description="Language to translate into", examples=["de"])]
    speech: Annotated[bool, Meta(description="`false` asks for text only, which more nodes can serve")] = True
    allow_pivot: Annotated[
        bool, Meta(description="`false` refuses a translation by way of a third language (`pools.pivot_langs`)")
    ] = True
    timeout_ms: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_WAIT_MS)] | None,
        Meta(description="Maximum time to wait for the translation; default and limit: `calls.translate_timeout_ms`"),
    ] = None


class TranslatedUtterance(Shape, kw_only=True):
    """One sentence or a part of it. `error` says why there is no translation."""

    begins_ms: Annotated[Count, Meta(description="Where it begins in the file")]
    duration_ms: Count
    state: Annotated[
        UtteranceState,
        Meta(description="`NO_TEXT`: no speech was recognised; `CANCELLED`: the job was cancelled"),
    ]
    text: str = ""
    translation: str = ""
    error: ResultError | None = None
    degraded: Annotated[Degraded | None, Meta(description="What was given up because no node does all of it")] = None
    speech: Annotated[
        str | None, Meta(description="Its speech as the node sent it, base64; only if the speech could not be joined")
    ] = None
    speech_format: str | None = None


class TranslateTiming(Shape, kw_only=True):
    audio_ms: Annotated[Count, Meta(description="Length of the audio in the file")]
    decoding_ms: Annotated[Count, Meta(description="Time to decode the file and cut it into utterances")]
    total_ms: Annotated[Count, Meta(description="Time from the end of the request body to the response")]


class TranslatedFile(Shape, kw_only=True):
    """`text` and `translation` are those of all utterances, in order."""

    state: Annotated[
        FileState,
        Meta(
            description="`PARTIAL`: some utterances have no translation, see `utterances`; `NO_TEXT`: no speech was "
            "recognised in the file"
        ),
    ]
    src_lang: Annotated[str, Meta(description="Source language as it was asked for")]
    tgt_lang: Annotated[str, Meta(description="Target language as it was asked for")]
    languages_used: Annotated[
        LanguagesUsed | None, Meta(description="The tags under which nodes served them; absent if there was no job")
    ] = None
    text: Annotated[str, Meta(description="Recognised text")]
    translation: str
    speech: Annotated[
        str | None, Meta(description="Translated speech as a WAV file, base64; absent if there is none")
    ] = None
    utterances: list[TranslatedUtterance]
    timing: TranslateTiming
