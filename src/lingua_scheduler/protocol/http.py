"""What callers say and hear over HTTP, one struct a body. What is told of a field here is told in the OpenAPI document.

Bodies are read tolerantly: unknown fields are ignored, and an optional field may be absent or null."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from lingua_scheduler.protocol.node import JobAssign, JobCancel, NodeControl
from lingua_scheduler.protocol.shapes import Count, JobError, Name, Names, Number, Text

NODE_ID = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$"
LANGUAGE = r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$"
MAX_LANGUAGE_CHARS = 35
MAX_POLL_MS = 30_000
_MAX_JOBS = 1_000_000


def _told(description: str, *examples: Any) -> Meta:
    return Meta(description=description, examples=list(examples) or None)


NodeId = Annotated[str, Meta(pattern=NODE_ID)]
Language = Annotated[str, Meta(pattern=LANGUAGE, max_length=MAX_LANGUAGE_CHARS)]
# What one node may declare is less, and checked where it is read, so that it hears the limit and what it met.
Languages = Annotated[list[Language], Meta(max_length=4_096)]
JobId = Annotated[str, Meta(min_length=1, max_length=128)]
Pairs = Annotated[list[Name | dict[str, Any]], Meta(max_length=65_536)]
_Extra = Annotated[dict[str, Any], Meta(max_length=1024)]
CallbackUrl = Annotated[str, Meta(max_length=2048)]


class Body(msgspec.Struct, kw_only=True, gc=False):
    """What a caller sends."""


class Answer(msgspec.Struct, kw_only=True, gc=False):
    """What a caller gets; every field is always there."""


# The fleet


class NodeAbout(Answer, kw_only=True):
    node_id: str
    state: Annotated[str, _told("registering, ready, degraded or draining", "ready")]
    shard: int
    max_jobs: Annotated[int, _told("Slots: how many jobs it may hold at once")]
    held: Annotated[int, _told("Slots that are taken")]
    free: Annotated[int | None, _told("Slots that are free; null while it takes no work")]
    alive_until_ms: Annotated[int, _told("It counts as gone at this time (epoch ms), unless it is heard of before")]
    quarantined_for_ms: Annotated[int | None, _told("How long it gets no work after repeated failures; usually null")]
    unavailable_for_ms: Annotated[dict[str, int], _told("Services it said it lacks, and for how long it is believed")]
    pairs: Annotated[list[str], _told("Language pairs it serves, src:tgt; empty when it is wide")]
    version: str
    platform: str
    services: list[str]
    wide_pairs: Annotated[
        int,
        _told("Of a wide node, which serves more than 256 pairs, how many; 0 otherwise; /v1/pools names the languages"),
    ]


class NodeLanguages(Answer, kw_only=True):
    asr: list[str]
    semantic: list[str]
    tts: list[str]
    translations: Annotated[list[str] | None, _told("Pairs it translates, src:tgt; null stands for any")]


class LeaseAbout(Answer, kw_only=True):
    job_id: str
    attempt_id: int
    state: Annotated[str, _told("The state of the job; empty when only its slot is still taken", "RUNNING")]
    deadline_ms: Annotated[int, _told("When this attempt is given up, epoch ms")]


class NodeDetail(NodeAbout, kw_only=True):
    instance_id: Annotated[str, _told("The scheduler instance it is connected to")]
    acknowledges: Annotated[bool, _told("Whether it acknowledges a job before it starts")]
    languages: NodeLanguages
    jobs: Annotated[list[LeaseAbout], _told("What it holds, the nearest deadline first")]


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
    sessions: Annotated[int, _told("Sessions of this instance, or of all its workers, as the next three")]
    nodes_connected: Annotated[int, _told("Nodes connected to this instance")]
    jobs_waiting: Annotated[int, _told("Jobs that wait here for a free slot")]
    jobs_ended: Annotated[dict[str, int], _told("Jobs that ended here since it started, by state")]
    slots: Annotated[Slots, _told("Of the whole fleet")]
    nodes: Annotated[list[NodeAbout], _told("The whole fleet")]
    workers: Annotated[list[WorkerAbout], _told("Those that serve this port together; empty when it is one process")]


class WidePool(Answer, kw_only=True):
    name: Annotated[str, _told("The same name always stands for the same languages", "*:0123456789abcdef:text")]
    sources: Annotated[list[str], _told("Languages that are understood")]
    text: Annotated[list[str], _told("Languages these can be translated into")]
    speech: Annotated[list[str], _told("Those of them that are also spoken")]
    translations: Annotated[dict[str, list[str]] | None, _told("Source to targets; null: any source into any target")]
    nodes: Annotated[int, _told("How many nodes serve all of it")]


class PoolList(Answer, kw_only=True):
    pairs: Annotated[
        dict[str, dict[str, int]],
        _told("How many nodes serve a pair, as speech and as text; pairs that only wide nodes serve are in wide"),
    ]
    wide: Annotated[
        list[WidePool], _told("Nodes that serve more than 256 pairs each, by their languages: any source to any target")
    ]
    leader: Annotated[str | None, _told("The instance that builds the map for all; null when nobody leads")]
    version: Annotated[int, _told("Of the published map; 0 when there is none")]
    generated_by: str
    generated_at_ms: Annotated[int, _told("When it was built or last found to be right, epoch ms")]


class PoolMember(Answer, kw_only=True):
    node_id: str
    state: str
    speech: Annotated[bool, _told("Whether it also speaks the target language")]
    max_jobs: int
    held: int
    free: int | None


class PoolDetail(Answer, kw_only=True):
    src: str
    tgt: str
    speech: Annotated[int, _told("Nodes that translate the pair and speak the target")]
    text: Annotated[int, _told("Nodes that translate the pair")]
    slots: int
    free: int
    nodes: Annotated[list[PoolMember], _told("Who serves the pair, the first 1000 of them")]
    missing: Annotated[dict[str, str], _told("What nobody serves, and why: a sentence for speech, text or both")]


class DrainAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, _told("drained, or kept when it was draining already", "drained")]
    running: Annotated[int, _told("Jobs it still holds; ask for the node to see this fall to 0")]
    jobs: Annotated[list[LeaseAbout], _told("Those jobs, the nearest deadline first")]


class ResumeAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, _told("resumed, or kept when it was not draining", "resumed")]


class EvictAnswer(Answer, kw_only=True):
    node_id: str
    outcome: Annotated[str, _told("Always evicted", "evicted")]
    jobs: Annotated[list[str], _told("Jobs it held; they go to other nodes, if any may have them")]


# Nodes that are driven over HTTP


class NodeSays(Body, kw_only=True):
    """What a node tells of itself, at registration and with a heartbeat."""

    health: Annotated[
        Name | None, _told("ok, ready or healthy: it takes work. Any other word: no new work until this changes", "ok")
    ] = None
    semantic_langs: Annotated[Languages | None, _told("Languages it repairs", ["en", "zh"])] = None
    asr_langs: Annotated[Languages | None, _told("Languages it hears; left out: the same as semantic_langs")] = None
    nmt_pairs: Annotated[
        Pairs | None, _told('Pairs it translates, "en:zh" or {"src": "en", "tgt": "zh"}; none: any pair', ["en:zh"])
    ] = None
    tts_langs: Annotated[Languages | None, _told("Languages it speaks", ["zh"])] = None
    max_concurrent_jobs: Annotated[
        Annotated[int, Meta(ge=0, le=_MAX_JOBS)] | None, _told("Slots: how many jobs it takes at once", 2)
    ] = None
    current_load: Annotated[
        Number | None, _told("Jobs it counts itself; for people, since slots are counted from leases")
    ] = None
    callback_url: Annotated[
        CallbackUrl | None, _told("We POST every message here; left out or empty: the node polls")
    ] = None
    boot_id: Annotated[Name | None, _told("One for each process of the node: who repeats it may take its id over")] = (
        None
    )
    heartbeat_interval_ms: Annotated[
        Annotated[int, Meta(ge=1, le=86_400_000)] | None, _told("How often it will beat or poll")
    ] = None
    running_job_ids: Annotated[
        Annotated[list[JobId], Meta(max_length=10_000)] | None, _told("What it really runs, if it wants this compared")
    ] = None


class NodeRegistration(NodeSays, kw_only=True):
    node_id: Annotated[NodeId | None, _told("Left out: it is given one", "node-http-1")] = None
    version: Annotated[Name, _told("Of the node's own program")] = ""
    platform: Name = "http"


class NodeBeat(NodeSays, kw_only=True):
    """What is left out stays as it was."""

    node_id: Annotated[NodeId, _told("As registered", "node-http-1")]


class NodeWelcome(Answer, kw_only=True):
    ok: bool
    node_id: str
    state: Annotated[str, _told("registering (no pair can be served yet), ready or degraded", "ready")]
    heartbeat_interval_ms: Annotated[int, _told("Beat or poll at least this often; gone after three times this")]


class NodePoll(Body, kw_only=True):
    node_id: Annotated[NodeId, _told("As registered", "node-http-1")]
    boot_id: Name | None = None
    wait_ms: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_POLL_MS)] | None, _told("How long to wait for something to do", 20_000)
    ] = None


class PollAnswer(Answer, kw_only=True):
    assignments: Annotated[list[JobAssign], _told("Jobs to acknowledge, do, and answer")]
    cancels: Annotated[list[JobCancel], _told("Jobs to stop, if they still run")]
    controls: list[NodeControl]


class AttemptSays(Body, kw_only=True):
    """What a node says of one attempt: all three must be those of its order."""

    job_id: Annotated[JobId, _told("", "job-0-i-1a2b3c4d-1")]
    attempt_id: Annotated[Count, _told("", 1)]
    node_id: Annotated[NodeId, _told("", "node-http-1")]
    boot_id: Name | None = None


class JobAcked(AttemptSays, kw_only=True):
    pass


class JobDone(AttemptSays, kw_only=True):
    """The same optional fields as in `job_result`."""

    text_asr: Annotated[Text | None, _told("What was heard", "hello")] = None
    text_translated: Annotated[Text | None, _told("", "你好")] = None
    tts_audio: Annotated[str | None, _told("Speech, base64")] = None
    tts_format: Name | None = None
    extra: Annotated[_Extra | None, _told('`{"reason": "ASR_EMPTY"}`: there was nothing to hear')] = None
    processing_time_ms: Number | None = None
    asr_quality_level: Name | None = None
    reason_codes: Names | None = None
    quality_score: Number | None = None
    rerun_count: Count | None = None
    segments_meta: Any = None


class JobFailed(AttemptSays, kw_only=True):
    error: Annotated[
        JobError | None,
        _told("The code decides whether another node is tried", {"code": "NODE_OVERLOADED", "message": "busy"}),
    ] = None
    processing_time_ms: Number | None = None


class Ok(Answer, kw_only=True):
    ok: bool = True
