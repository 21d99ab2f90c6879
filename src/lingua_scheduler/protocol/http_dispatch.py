"""Translating one utterance over HTTP: request and response bodies."""

from typing import Annotated, Literal

from msgspec import Meta

from lingua_sdk.protocol.shapes import Count, Degraded, LanguagesUsed, Shape

_Name = Annotated[str, Meta(min_length=1, max_length=128)]
_Key = Annotated[str, Meta(min_length=1, max_length=256)]
_Code = Annotated[str, Meta(max_length=35)]
_Ref = Annotated[str, Meta(min_length=1, max_length=2048)]
_Rate = Annotated[int, Meta(ge=8_000, le=192_000)]


class DispatchOptions(Shape, kw_only=True):
    """`require_tts: false` requests text only; `strict` accepts only the preferred node.

    `timeout_ms` limits the wait for a node, not the time the node takes; 0 = do not wait. `allow_pivot: false`
    refuses a translation by way of a third language."""

    require_tts: bool | None = None
    preferred_node_id: _Name | None = None
    strict: bool | None = None
    affinity_key: _Key | None = None
    timeout_ms: Annotated[int, Meta(ge=0, le=60_000)] | None = None
    allow_pivot: bool | None = None


class F2fDispatch(Shape, kw_only=True):
    """One utterance, with its audio (base64) or an `audio_ref`, which only the node interprets."""

    session_id: _Name
    src_lang: _Code
    tgt_lang: _Code
    audio: bytes | None = None
    audio_ref: _Ref | None = None
    audio_format: Literal["opus", "pcm16"] | None = None
    sample_rate: _Rate | None = None
    request_id: _Name | None = None
    tenant_id: _Name | None = None
    options: DispatchOptions | None = None


class F2fDispatched(Shape, kw_only=True):
    """The job has a slot on this node; later attempts may use other nodes.

    `note` says why the preferred node was not taken; it is absent otherwise."""

    job_id: str
    node_id: str
    attempt_id: Count
    languages_used: LanguagesUsed
    note: str | None = None


class ResultQuery(Shape, kw_only=True):
    """`wait_ms` is the maximum time to wait for the job to end; 0 answers immediately."""

    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0


class ResultError(Shape, kw_only=True):
    code: str
    detail: str


class FetchedResult(Shape, kw_only=True):
    """`state` is `DISPATCHED` until the job has ended. `tts_audio` is base64, as the node sent it."""

    job_id: str
    state: str
    text_asr: str | None = None
    text_translated: str | None = None
    tts_audio: str | None = None
    tts_format: str | None = None
    error: ResultError | None = None
    degraded: Annotated[Degraded | None, Meta(description="What was given up because no node does all of it")] = None
