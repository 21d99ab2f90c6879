"""Translating one utterance over HTTP: what a caller asks, and what it is answered."""

from typing import Annotated, Literal

from msgspec import Meta

from lingua_scheduler.protocol.shapes import Count, Shape

_Name = Annotated[str, Meta(min_length=1, max_length=128)]
_Key = Annotated[str, Meta(min_length=1, max_length=256)]
_Code = Annotated[str, Meta(max_length=35)]
_Ref = Annotated[str, Meta(min_length=1, max_length=2048)]
_Rate = Annotated[int, Meta(ge=8_000, le=192_000)]


class DispatchOptions(Shape, kw_only=True):
    """`require_tts: false` asks for text alone; `strict` for the preferred node or none.

    `timeout_ms` is how long the call may wait for a node, not how long the node may take."""

    require_tts: bool | None = None
    preferred_node_id: _Name | None = None
    strict: bool | None = None
    affinity_key: _Key | None = None
    timeout_ms: Annotated[int, Meta(ge=1, le=60_000)] | None = None


class F2fDispatch(Shape, kw_only=True):
    """One utterance; the audio comes with it (base64), or as `audio_ref`, which only the node understands."""

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
    """The job has a slot on this node; later attempts may be on others."""

    job_id: str
    node_id: str
    attempt_id: Count


class ResultQuery(Shape, kw_only=True):
    """`wait_ms` waits for the job to end; 0 answers at once."""

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
