"""Messages between a node and the scheduler, one struct each."""

from typing import Annotated, Any

from msgspec import Meta

from lingua_sdk.protocol.pairs import SCHEMA as PAIRS_SCHEMA
from lingua_sdk.protocol.shapes import (
    BootId,
    CapabilityByType,
    Count,
    ErrorMessage,
    InstalledModel,
    InstalledService,
    JobError,
    JobPipeline,
    Message,
    Name,
    Names,
    Number,
    SampleRate,
    Shape,
    Text,
)

# Of languages less is allowed, but that is said where they are read, so that a node hears the limit and what it met.
_Languages = Annotated[list[Name], Meta(max_length=4096)]
_JobIds = Annotated[list[Name], Meta(max_length=10_000)]
_Models = Annotated[list[InstalledModel], Meta(max_length=4096)]
_Services = Annotated[list[InstalledService], Meta(max_length=4096)]
_Types = Annotated[list[CapabilityByType], Meta(max_length=256)]


class Gpu(Shape, kw_only=True):
    name: Name
    memory_gb: Number


class Hardware(Shape, kw_only=True):
    cpu_cores: Number
    memory_gb: Number
    gpus: Annotated[list[Gpu], Meta(max_length=256)] | None = None


class ResourceUsage(Shape, kw_only=True):
    cpu_percent: Number
    mem_percent: Number
    running_jobs: Count
    gpu_percent: Number | None = None
    gpu_mem_percent: Number | None = None
    gpu_queue_length: Number | None = None


class LanguageCapabilities(Shape, kw_only=True):
    """At most 256 languages in a list and 16 384 translations; more is refused as `INVALID_CAPABILITY_SCHEMA`.

    A node without `semantic_languages` gets no jobs: semantic repair of recognised text is required (setting
    `pools.admission`). `nmt_capabilities` are the pairs it translates; absent, null or empty means any pair. All forms
    of the schema are read. An unreadable entry is left out, and the node gets an `error`; if every entry is unreadable,
    the registration is refused as `INVALID_CAPABILITY_SCHEMA`.
    """

    asr_languages: _Languages | None = None
    tts_languages: _Languages | None = None
    semantic_languages: _Languages | None = None
    nmt_capabilities: Annotated[Any, Meta(extra_json_schema=PAIRS_SCHEMA)] = None
    semantic_core_ready: bool | None = None


# Node → scheduler


class NodeRegister(Message, kw_only=True, tag="node_register"):
    """The first message after connecting; without an id the first time, with the assigned id after a reconnect."""

    node_id: Name | None = None
    version: Name
    capability_schema_version: Name | None = None
    platform: Name
    hardware: Hardware
    installed_models: _Models
    installed_services: _Services | None = None
    capability_by_type: _Types
    features_supported: Annotated[dict[str, Any], Meta(max_length=1024)]
    advanced_features: Names | None = None
    accept_public_jobs: bool
    language_capabilities: LanguageCapabilities | None = None
    running_job_ids: _JobIds | None = None
    max_concurrent_jobs: Count | None = None
    boot_id: BootId | None = None
    heartbeat_interval_ms: Number | None = None


class NodeHeartbeat(Message, kw_only=True, tag="node_heartbeat"):
    """After a reconnect it may arrive before `node_register`."""

    node_id: Name
    timestamp: Number
    resource_usage: ResourceUsage
    installed_services: _Services
    capability_by_type: _Types
    installed_models: _Models | None = None
    rerun_metrics: Any = None
    asr_metrics: Any = None
    processing_metrics: Any = None
    language_capabilities: LanguageCapabilities | None = None
    running_job_ids: _JobIds | None = None
    max_concurrent_jobs: Count | None = None
    boot_id: Name | None = None
    heartbeat_interval_ms: Number | None = None


class JobAck(Message, kw_only=True, tag="job_ack"):
    job_id: Name
    attempt_id: Count
    node_id: Name
    session_id: Name
    trace_id: Name


class JobStarted(Message, kw_only=True, tag="job_started"):
    """The node works on the job. Repeated with `extend_ms`, it asks for so much time from now on.

    The deadline moves at most to `job.deadline_ms` after the dispatch. Older schedulers ignore `extend_ms`.
    """

    job_id: Name
    attempt_id: Count
    node_id: Name
    session_id: Name
    trace_id: Name
    extend_ms: Count | None = None


class JobResult(Message, kw_only=True, tag="job_result"):
    """The result of a job. `tts_audio` stays base64: the scheduler passes it on without decoding it."""

    job_id: Name
    attempt_id: Count
    node_id: Name
    session_id: Name
    utterance_index: Count
    success: bool
    trace_id: Name
    text_asr: Text | None = None
    text_translated: Text | None = None
    tts_audio: str | None = None
    tts_format: Name | None = None
    extra: Annotated[dict[str, Any], Meta(max_length=1024)] | None = None
    processing_time_ms: Number | None = None
    error: JobError | None = None
    group_id: Name | None = None
    part_index: Count | None = None
    node_completed_at_ms: Number | None = None
    asr_quality_level: Name | None = None
    reason_codes: Names | None = None
    quality_score: Number | None = None
    rerun_count: Count | None = None
    segments_meta: Any = None


class AsrPartial(Message, kw_only=True, tag="asr_partial"):
    job_id: Name
    node_id: Name
    session_id: Name
    utterance_index: Count
    text: Text
    is_final: bool
    trace_id: Name


class NodeError(Message, kw_only=True, tag="node_error"):
    node_id: Name
    code: Name
    message: Text
    details: Any = None


# Scheduler → node


class NodeRegisterAck(Message, kw_only=True, tag="node_register_ack"):
    node_id: str
    message: str
    status: str


class NodeHeartbeatAck(Message, kw_only=True, tag="node_heartbeat_ack"):
    node_id: str
    timestamp: Number


class LanguageCandidates(Shape, kw_only=True):
    """Languages for the node's language identification to choose from."""

    candidates: list[str]


class JobAssign(Message, kw_only=True, tag="job_assign"):
    job_id: str
    attempt_id: Count
    session_id: str
    utterance_index: Count
    src_lang: str
    tgt_lang: str
    pipeline: JobPipeline
    audio: bytes
    audio_format: str
    sample_rate: SampleRate
    enable_streaming_asr: bool
    partial_update_interval_ms: Number
    trace_id: str
    turn_id: str
    dialect: str | None = None
    features: dict[str, Any] | None = None
    mode: str | None = None
    lang_a: str | None = None
    lang_b: str | None = None
    auto_langs: list[str] | None = None
    group_id: str | None = None
    part_index: Count | None = None
    context_text: str | None = None
    padding_ms: Number | None = None
    lid: LanguageCandidates | None = None
    is_manual_cut: bool = False
    is_timeout_triggered: bool = False
    is_max_duration_triggered: bool = False
    start_within_ms: Count | None = None
    # Where the audio is, when it is not in `audio`; we pass it on and never look at it.
    audio_ref: str | None = None
    # W3C trace context, while the scheduler is traced: the parent of what the node makes of the job.
    traceparent: str | None = None
    # Text in `src_lang` instead of audio, for nodes that announced `text_input`: nothing is to be recognised or
    # repaired. It is translated if `pipeline.use_nmt`, and spoken if `pipeline.use_tts`.
    text_input: str | None = None


class JobCancel(Message, kw_only=True, tag="job_cancel"):
    job_id: str
    trace_id: str | None = None
    reason: str | None = None


class JobGrant(Message, kw_only=True, tag="job_grant"):
    """The answer to `job_ack`: `granted`, or `stale` if the attempt no longer belongs to the node."""

    job_id: str
    attempt_id: Count
    verdict: str


class ResultAck(Message, kw_only=True, tag="result_ack"):
    """The result is stored in Redis; the node may discard it."""

    job_id: str
    attempt_id: Count


class NodeControl(Message, kw_only=True, tag="node_control"):
    command: str
    reason: str | None = None


NodeIncoming = NodeRegister | NodeHeartbeat | JobAck | JobStarted | JobResult | AsrPartial | NodeError

NodeOutgoing = (
    NodeRegisterAck | NodeHeartbeatAck | JobAssign | JobCancel | JobGrant | ResultAck | NodeControl | ErrorMessage
)
