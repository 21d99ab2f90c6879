"""Request and response bodies of the HTTP API, one struct each. Field descriptions here go into the OpenAPI document.

Reading is tolerant: unknown fields are ignored, and an optional field may be absent or null."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from lingua_scheduler.domain.watching.picture import Level
from lingua_sdk.protocol.node import JobAssign, JobCancel, NodeControl
from lingua_sdk.protocol.pairs import EXPECTED
from lingua_sdk.protocol.pairs import SCHEMA as PAIRS_SCHEMA
from lingua_sdk.protocol.shapes import BootId, Count, JobError, Name, Names, Number, Text

NODE_ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$"
LANGUAGE = r"^[a-z]{2,3}(-([A-Za-z0-9]-)?[A-Za-z0-9]{2,8})*$"
# As a node may write it (docs/languages.md).
_TAG = r"^[A-Za-z]{2,3}([-_]([A-Za-z0-9][-_])?[A-Za-z0-9]{2,8})*$"
MAX_LANGUAGE_CHARS = 35
MAX_POLL_MS = 30_000
_MAX_JOBS = 1_000_000


def _told(description: str, *examples: Any) -> Meta:
    return Meta(description=description, examples=list(examples) or None)


NodeId = Annotated[str, Meta(pattern=NODE_ID)]
Language = Annotated[str, Meta(pattern=_TAG, max_length=MAX_LANGUAGE_CHARS)]
# What one node may declare is less, and checked where it is read, so that it hears the limit and what it met.
Languages = Annotated[list[Language], Meta(max_length=4_096)]
JobId = Annotated[str, Meta(min_length=1, max_length=128)]
Pairs = Annotated[
    Annotated[list[Name | dict[str, Any] | Names], Meta(max_length=65_536)]
    | Annotated[dict[str, Any], Meta(max_length=4_096)],
    Meta(extra_json_schema=PAIRS_SCHEMA),
]
_Extra = Annotated[dict[str, Any], Meta(max_length=1024)]
CallbackUrl = Annotated[str, Meta(max_length=2048)]


class Body(msgspec.Struct, kw_only=True, gc=False):
    """Base of request bodies."""


class Answer(msgspec.Struct, kw_only=True, gc=False):
    """Base of response bodies; every field is always present."""


# The fleet


class NodeAbout(Answer, kw_only=True):
    node_id: str
    state: Annotated[str, _told("registering, ready, degraded or draining", "ready")]
    shard: int
    max_jobs: Annotated[int, _told("Slots: maximum concurrent jobs")]
    held: Annotated[int, _told("Slots in use")]
    free: Annotated[int | None, _told("Free slots; null while the node accepts no jobs")]
    alive_until_ms: Annotated[int, _told("Time at which it counts as gone unless it sends a heartbeat, epoch ms")]
    quarantined_for_ms: Annotated[
        int | None, _told("Time left of its quarantine after repeated failures; usually null")
    ]
    unavailable_for_ms: Annotated[
        dict[str, int], _told("Services it reported as missing, and for how long it gets no jobs that need them")
    ]
    pairs: Annotated[list[str], _told("Language pairs it serves, src:tgt; empty when it is wide")]
    version: str
    platform: str
    services: list[str]
    wide_pairs: Annotated[
        int,
        _told("Number of pairs if it is a wide node (more than 256 pairs), else 0; /v1/pools names the languages"),
    ]
    level: Annotated[Level | None, _told("The verdict on it: notice, warning or critical; null when it is well")]
    private_to: Annotated[str, _told("The only tenant whose jobs it gets; empty if it gets those of all", "acme")]


class NodeLanguages(Answer, kw_only=True):
    asr: list[str]
    semantic: list[str]
    tts: list[str]
    translations: Annotated[list[str] | None, _told("Pairs it translates, src:tgt; null = any pair")]


class LeaseAbout(Answer, kw_only=True):
    job_id: str
    attempt_id: int
    state: Annotated[str, _told("State of the job; empty if only its slot is still in use", "RUNNING")]
    deadline_ms: Annotated[int, _told("Deadline of this attempt, epoch ms")]


class NodeErrorAbout(Answer, kw_only=True):
    at_ms: int
    reason: Annotated[str, _told("Error code of the node, or the scheduler's reason", "JOB_TIMEOUT")]
    job_id: str


class NodeLately(Answer, kw_only=True):
    """Its attempts of the last hour, by all instances together; counted within seconds."""

    done: int
    failed: int
    failed_percent: float | None
    mean_ms: Annotated[int | None, _told("Mean time of the attempts that were done; null when there were none")]
    slowest_ms: int | None
    real_time_factor: Annotated[
        float | None, _told("Time taken per time of audio; below 1 it keeps up with speech", "0.4")
    ]
    errors: Annotated[list[NodeErrorAbout], _told("Its last errors, newest first, at most 10")]


class NodeDetail(NodeAbout, kw_only=True):
    instance_id: Annotated[str, _told("The scheduler instance it is connected to")]
    acknowledges: Annotated[bool, _told("Whether it acknowledges a job before it starts")]
    languages: NodeLanguages
    jobs: Annotated[list[LeaseAbout], _told("Its leases, nearest deadline first")]
    lately: NodeLately


class NodeList(Answer, kw_only=True):
    nodes: list[NodeAbout]


class Slots(Answer, kw_only=True):
    total: int
    taken: int


class RedisAbout(Answer, kw_only=True):
    version: str
    url: str
    ready: bool


class WorkerAbout(Answer, kw_only=True):
    worker: int
    pid: int
    instance_id: str
    sessions: int
    nodes_connected: int
    jobs_waiting: int
    jobs_ended: dict[str, int]


class Status(Answer, kw_only=True):
    instance_id: str
    version: str
    uptime_seconds: float
    redis: RedisAbout
    sessions: Annotated[
        int,
        _told(
            "Sessions of this instance; with several workers, of all of them. The same holds for the next three fields"
        ),
    ]
    nodes_connected: Annotated[int, _told("Nodes connected to this instance")]
    jobs_waiting: Annotated[int, _told("Jobs waiting here for a free slot")]
    jobs_ended: Annotated[dict[str, int], _told("Jobs that ended here since it started, by state")]
    slots: Annotated[Slots, _told("Nodes of the whole fleet")]
    nodes: Annotated[list[NodeAbout], _told("All nodes of all instances")]
    workers: Annotated[list[WorkerAbout], _told("Workers that share this port; empty if there is only one process")]


class WidePool(Answer, kw_only=True):
    name: Annotated[str, _told("Name of the pool, derived from its languages", "*:0123456789abcdef:text")]
    sources: Annotated[list[str], _told("Source languages")]
    text: Annotated[list[str], _told("Target languages")]
    speech: Annotated[list[str], _told("Target languages that are also spoken (TTS)")]
    translations: Annotated[dict[str, list[str]] | None, _told("Targets by source; null = any source into any target")]
    nodes: Annotated[int, _told("Number of nodes that serve all of them")]


class PrivatePools(Answer, kw_only=True):
    """As in the list of all pools, of the private nodes of one tenant."""

    pairs: dict[str, dict[str, int]]
    wide: list[WidePool]


class PoolList(Answer, kw_only=True):
    pairs: Annotated[
        dict[str, dict[str, int]],
        _told(
            "Nodes that accept jobs, per pair, for speech and for text; pairs that only wide nodes serve are in "
            "`wide`. None for a caller of a tenant that uses its private nodes alone (`pools.private_only`)"
        ),
    ]
    wide: Annotated[list[WidePool], _told("Wide nodes (more than 256 pairs each), grouped by their languages")]
    private: Annotated[dict[str, PrivatePools], _told("By tenant; a caller of one tenant is told of its own alone")]
    tenant: Annotated[
        str, _told("Whose jobs the caller's are: what serves them is `pairs`, and `private` of this tenant")
    ]
    leader: Annotated[str | None, _told("The leader: the instance that builds the pool map; null if there is none")]
    version: Annotated[int, _told("Version of the published pool map; 0 if there is none")]
    generated_by: str
    generated_at_ms: Annotated[int, _told("When the map was built or last confirmed, epoch ms")]


class PoolMember(Answer, kw_only=True):
    node_id: str
    state: str
    speech: Annotated[bool, _told("Whether it also speaks the target language")]
    max_jobs: int
    held: int
    free: int | None
    private_to: Annotated[str, _told("The only tenant whose jobs it gets; empty if it gets those of all")]


class PoolDetail(Answer, kw_only=True):
    src: str
    tgt: str
    speech: Annotated[int, _told("Nodes that accept jobs, translate the pair and speak the target")]
    text: Annotated[int, _told("Nodes that accept jobs and translate the pair")]
    slots: int
    free: int
    nodes: Annotated[list[PoolMember], _told("Nodes that serve the pair, the first 1000")]
    missing: Annotated[dict[str, str], _told("Why no node serves the pair: a sentence for speech, text or both")]


class DrainAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, _told("drained, or kept if it was already draining", "drained")]
    running: Annotated[int, _told("Number of jobs still running")]
    jobs: Annotated[list[LeaseAbout], _told("Those jobs, nearest deadline first")]


class ResumeAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, _told("resumed, or kept if it was not draining", "resumed")]


class ReleaseAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, _told("released, or kept if it was in no quarantine", "released")]


class EvictAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, _told("Always evicted", "evicted")]
    jobs: Annotated[list[str], _told("Number of jobs it was running; they are retried on other nodes")]


class PairingAnswer(Answer, kw_only=True):
    node_id: str
    code: Annotated[str, _told("For `pairing_code` of one `session_init`", "K7QW2MZA")]
    valid_ms: Annotated[int, _told("How long it can be used, once", 300_000)]


# Nodes that are driven over HTTP


class NodeSays(Body, kw_only=True):
    """Description of a node, in its registration and its heartbeats."""

    health: Annotated[
        Name | None, _told("ok, ready or healthy: it accepts jobs. Any other value: no new jobs until it changes", "ok")
    ] = None
    semantic_langs: Annotated[
        Languages | None, _told("Languages it repairs (semantic repair of recognised text)", ["en", "zh"])
    ] = None
    asr_langs: Annotated[Languages | None, _told("Languages it recognises (ASR); default: semantic_langs")] = None
    nmt_pairs: Annotated[
        Pairs | None, _told(f"Pairs it translates, written as {EXPECTED}; absent = any pair", ["en:zh"])
    ] = None
    tts_langs: Annotated[Languages | None, _told("Languages it speaks (TTS)", ["zh"])] = None
    max_concurrent_jobs: Annotated[
        Annotated[int, Meta(ge=0, le=_MAX_JOBS)] | None, _told("Slots: concurrent jobs it accepts", 2)
    ] = None
    current_load: Annotated[
        Number | Annotated[dict[Name, Number | None], Meta(max_length=16)] | None,
        _told(
            "Load of its processors as shares from 0 to 1, shown to operators and compared with "
            "`nodes.max_cpu_percent` and the like; keys cpu, memory, gpu, gpu_memory. A plain number is ignored: slots "
            "are counted from leases",
            {"gpu": 0.52, "cpu": 0.33},
        ),
    ] = None
    callback_url: Annotated[
        CallbackUrl | None, _told("URL to which the scheduler POSTs every message; absent or empty = the node polls")
    ] = None
    boot_id: Annotated[
        BootId | None,
        _told(
            "Unique id of the node's process; a registration with the same one may take over the node id. Without "
            "one, a registration from the same address counts as the same process"
        ),
    ] = None
    heartbeat_interval_ms: Annotated[
        Annotated[int, Meta(ge=1, le=86_400_000)] | None, _told("Interval at which it sends heartbeats or polls")
    ] = None
    running_job_ids: Annotated[
        Annotated[list[JobId], Meta(max_length=10_000)] | None,
        _told("Jobs it is running; if given, they are compared with its leases"),
    ] = None


class NodeRegistration(NodeSays, kw_only=True):
    node_id: Annotated[NodeId | None, _told("Absent = the scheduler assigns one", "node-http-1")] = None
    version: Annotated[Name, _told("Version of the node's software")] = ""
    platform: Name = "http"
    text_input: Annotated[
        bool | None, _told("True = the node also takes jobs that bring text (`text_input`) instead of audio", True)
    ] = None


class NodeBeat(NodeSays, kw_only=True):
    """A heartbeat. Absent fields keep their values."""

    node_id: Annotated[NodeId, _told("As registered", "node-http-1")]


class NodeWelcome(Answer, kw_only=True, omit_defaults=True):
    ok: bool
    node_id: str
    state: Annotated[str, _told("registering (no pair can be served yet), ready or degraded", "ready")]
    heartbeat_interval_ms: Annotated[
        int, _told("Send a heartbeat or poll at least this often; after three times this without one it counts as gone")
    ]
    hint: Annotated[
        str | None,
        _told(
            "Why the node gets no jobs; absent if it serves a pair",
            "no jobs until it declares semantic_langs (pools.admission)",
        ),
    ] = None


class NodePoll(Body, kw_only=True):
    node_id: Annotated[NodeId, _told("As registered", "node-http-1")]
    boot_id: BootId | None = None
    wait_ms: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_POLL_MS)] | None, _told("Maximum time to wait for a message", 20_000)
    ] = None


class PollAnswer(Answer, kw_only=True):
    assignments: Annotated[list[JobAssign], _told("Jobs to acknowledge, process and answer")]
    cancels: Annotated[list[JobCancel], _told("Jobs to stop if they are still running")]
    controls: list[NodeControl]


class AttemptSays(Body, kw_only=True):
    """Identifies one attempt; all three fields must match the job as it was sent."""

    job_id: Annotated[JobId, _told("", "job-0-1a2b3c4d-1")]
    attempt_id: Annotated[Count, _told("", 1)]
    node_id: Annotated[NodeId, _told("", "node-http-1")]
    boot_id: BootId | None = None


class JobAcked(AttemptSays, kw_only=True):
    pass


class AttemptEnd(AttemptSays, kw_only=True):
    """How an attempt ended. A failure is described by `error`, or in short by `reason`."""

    status: Annotated[
        Name | None, _told("Absent or ok: the job is done. Any other value: it failed, as with /v1/job/fail", "ok")
    ] = None
    reason: Annotated[
        Text | None,
        _told("Why it failed: an error code, or words, which count as PROCESSING_ERROR", "MODEL_LOAD_FAILED"),
    ] = None
    error: Annotated[
        JobError | None,
        _told("Decides whether the job is retried on another node", {"code": "NODE_OVERLOADED", "message": "busy"}),
    ] = None
    processing_time_ms: Number | None = None


class JobDone(AttemptEnd, kw_only=True):
    """The same optional fields as in `job_result`."""

    text_asr: Annotated[Text | None, _told("Recognised text", "hello")] = None
    text_translated: Annotated[Text | None, _told("", "你好")] = None
    tts_audio: Annotated[str | None, _told("Translated speech, base64")] = None
    tts_format: Name | None = None
    extra: Annotated[_Extra | None, _told('`{"reason": "ASR_EMPTY"}` if no speech was recognised')] = None
    asr_quality_level: Name | None = None
    reason_codes: Names | None = None
    quality_score: Number | None = None
    rerun_count: Count | None = None
    segments_meta: Any = None


class JobFailed(AttemptEnd, kw_only=True):
    pass


class Ok(Answer, kw_only=True):
    ok: bool = True
