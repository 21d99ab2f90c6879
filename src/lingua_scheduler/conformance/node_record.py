"""What a node has said so far, judged frame by frame. Sans-IO: frames, jobs and times are handed in."""

import binascii
from typing import NamedTuple

import pybase64

from lingua_scheduler.conformance.book import Book
from lingua_sdk.domain.languages import Pair, valid_codes
from lingua_sdk.protocol import codec
from lingua_sdk.protocol.node import (
    AsrPartial,
    JobAck,
    JobAssign,
    JobResult,
    JobStarted,
    NodeHeartbeat,
    NodeIncoming,
    NodeRegister,
)
from lingua_sdk.protocol.pairs import read_translations

DEFAULT_INTERVAL_S = 15.0
MISSED_HEARTBEATS = 3

# A frame of this type that cannot be read fails its own check.
_FIELDS = {
    "node_register": "register-fields",
    "node_heartbeat": "heartbeat-fields",
    "job_result": "result-fields",
}


class JobKey(NamedTuple):
    job_id: str
    attempt_id: int


class NodeRecord:
    """`slack_s` is added to every limit of time, for a slow machine."""

    def __init__(self, book: Book, slack_s: float) -> None:
        self._book = book
        self._slack_s = slack_s
        self.node_id = ""
        self.registration: NodeRegister | None = None
        self.heartbeats = 0
        self.acks: set[JobKey] = set()
        # Results that were acknowledged.
        self.confirmed: set[JobKey] = set()
        self.results: dict[str, list[JobResult]] = {}
        self._jobs: dict[str, JobAssign] = {}
        self._granted: set[JobKey] = set()
        self._running: set[str] = set()
        self._boot_id: str | None = None
        self._is_first = True
        self._last_beat_s: float | None = None

    @property
    def features(self) -> frozenset[str]:
        listed = self.registration.advanced_features if self.registration else None
        return frozenset(listed or ())

    @property
    def asks_first(self) -> bool:
        """Whether it waits for a grant before it starts a job."""
        return "job_ack" in self.features

    @property
    def slots(self) -> int | None:
        return self.registration.max_concurrent_jobs if self.registration else None

    @property
    def interval_s(self) -> float:
        told = self.registration.heartbeat_interval_ms if self.registration else None
        return told / 1000 if told else DEFAULT_INTERVAL_S

    @property
    def silence_limit_s(self) -> float:
        return MISSED_HEARTBEATS * self.interval_s + self._slack_s

    def connected(self) -> None:
        self._is_first = True
        self._last_beat_s = None

    def restarted(self) -> None:
        """What follows is of another process."""
        self.registration = None
        self._running.clear()

    def acknowledged(self, node_id: str) -> None:
        self.node_id = node_id

    def assigned(self, job: JobAssign) -> None:
        self._jobs[job.job_id] = job
        self.results.setdefault(job.job_id, [])

    def granted(self, key: JobKey) -> None:
        self._granted.add(key)

    def heard(self, frame: str | bytes, at_s: float) -> NodeIncoming | None:
        """The message of a frame; None if it cannot be read."""
        if isinstance(frame, bytes):
            self._book.failed("readable-frames", "text frames alone", f"a binary frame of {len(frame)} bytes")
            return None
        try:
            message = codec.decode_node(frame)
        except codec.UnreadableFrame as error:
            self._unreadable(str(error))
            return None
        self._in_order(message)
        self._book.passed("readable-frames")
        match message:
            case NodeRegister():
                self._registers(message)
            case NodeHeartbeat():
                self._beats(message, at_s)
            case JobAck() | JobStarted() | JobResult() | AsrPartial():
                self._about_a_job(message)
        return message

    def _unreadable(self, error: str) -> None:
        name = _FIELDS.get(error.partition(":")[0], "readable-frames")
        self._book.failed(name, "a frame as docs/protocol.md describes it", error)

    def _in_order(self, message: NodeIncoming) -> None:
        if self._is_first and not isinstance(message, NodeHeartbeat):
            is_registration = isinstance(message, NodeRegister)
            came = str(message.__struct_config__.tag)
            self._book.judge("registers-first", is_registration, "node_register as the first frame", came)
            self._is_first = False

    def _registers(self, message: NodeRegister) -> None:
        self._book.passed("register-fields")
        if self.registration is None:
            self._boot_id = message.boot_id
        elif self._boot_id is None:
            self._book.does_not_apply("keeps-boot-id", "the node has no boot_id")
        else:
            is_same = message.boot_id == self._boot_id
            self._book.judge("keeps-boot-id", is_same, f"boot_id {self._boot_id}", f"boot_id {message.boot_id}")
        self.registration = message
        came = "no pair in language_capabilities"
        self._book.judge("languages", pair_of(message) is not None, "at least one pair of language tags", came)

    def _beats(self, message: NodeHeartbeat, at_s: float) -> None:
        if not self.node_id:
            return
        self.heartbeats += 1
        expected = f"node_id {self.node_id}"
        self._book.judge("heartbeat-fields", message.node_id == self.node_id, expected, f"node_id {message.node_id}")
        if self._last_beat_s is not None:
            gap_s = at_s - self._last_beat_s
            limit = f"a heartbeat within {self.silence_limit_s:.1f} s"
            self._book.judge("heartbeat-interval", gap_s <= self.silence_limit_s, limit, f"{gap_s:.1f} s of silence")
        self._last_beat_s = at_s
        if message.running_job_ids is not None:
            self._lists(message.running_job_ids)
        self._runs(max(message.resource_usage.running_jobs, len(message.running_job_ids or ())), "a heartbeat")

    def _lists(self, running_ids: list[str]) -> None:
        expected = "only jobs that run"
        for job_id in running_ids:
            if job_id not in self._jobs:
                self._book.failed("running-ids", expected, f"{job_id}, which was never assigned")
            elif self.results[job_id]:
                self._book.failed("running-ids", expected, f"{job_id}, which has its result")
        self._book.passed("running-ids")

    def _runs(self, count: int, where: str) -> None:
        if self.slots is not None and count > self.slots:
            self._book.failed("slots-limit", f"at most {self.slots} jobs at once", f"{count} running in {where}")

    def _about_a_job(self, message: JobAck | JobStarted | JobResult | AsrPartial) -> None:
        job = self._jobs.get(message.job_id)
        if job is None:
            self._book.failed("result-ids", "the job_id of an assigned job", f"job_id {message.job_id}")
            return
        for name, expected, came in wrong_ids(message, job, self.node_id):
            self._book.failed("result-ids", f"{name} {expected}", f"{name} {came} in {message.__struct_config__.tag}")
        key = JobKey(job.job_id, job.attempt_id)
        if isinstance(message, JobAck):
            self.acks.add(key)
        else:
            self._works_on(key, message)

    def _works_on(self, key: JobKey, message: JobStarted | JobResult | AsrPartial) -> None:
        is_refusal = isinstance(message, JobResult) and not message.success
        if self.asks_first and key not in self._granted and not is_refusal:
            came = f"{message.__struct_config__.tag} before a grant"
            self._book.failed("waits-for-grant", f"job_grant granted before work on {key.job_id}", came)
        if isinstance(message, JobStarted):
            self._running.add(key.job_id)
            self._runs(len(self._running), "job_started")
        elif isinstance(message, JobResult):
            self._running.discard(key.job_id)
            self._answers(message)

    def _answers(self, message: JobResult) -> None:
        self._book.passed("result-ids")
        wrong = wrong_in_result(message)
        self._book.judge("result-fields", not wrong, "a whole result", wrong)
        known = self.results[message.job_id]
        known.append(message)
        if message.success and sum(one.success for one in known) > 1 and not self._is_kept(message):
            self._book.failed("answers-once", f"one successful result of {message.job_id}", "a second one")

    def _is_kept(self, message: JobResult) -> bool:
        """A result that was not acknowledged comes again after a reconnect."""
        return self.asks_first and JobKey(message.job_id, message.attempt_id) not in self.confirmed


def wrong_ids(
    message: JobAck | JobStarted | JobResult | AsrPartial, job: JobAssign, node_id: str
) -> list[tuple[str, object, object]]:
    """Name, expected and actual value of each id that does not repeat the job's."""
    expected = {
        "attempt_id": job.attempt_id,
        "session_id": job.session_id,
        "utterance_index": job.utterance_index,
        "trace_id": job.trace_id,
        "node_id": node_id,
    }
    pairs = [(name, value, getattr(message, name, value)) for name, value in expected.items()]
    return [one for one in pairs if one[1] != one[2]]


def wrong_in_result(result: JobResult) -> str:
    """What a result lacks; empty if nothing."""
    if not result.success:
        return "" if result.error is not None and result.error.code else "success is false, and there is no error.code"
    has_reason = bool(result.extra and result.extra.get("reason"))
    if result.text_asr is None and result.text_translated is None and not has_reason:
        return "success is true, and there is neither text_asr nor text_translated nor extra.reason"
    if result.tts_audio:
        try:
            pybase64.b64decode(result.tts_audio, validate=True)
        except (binascii.Error, ValueError):
            return "tts_audio is not base64"
    return ""


def pair_of(registration: NodeRegister) -> Pair | None:
    """A pair for the kit's jobs; None if the node names none."""
    able = registration.language_capabilities
    if able is None:
        return None
    heard = sorted(valid_codes(able.asr_languages or ()))
    spoken = sorted(valid_codes(able.tts_languages or able.semantic_languages or heard))
    declared = read_translations(able.nmt_capabilities).pairs
    if declared is None:
        declared = [(source, target) for source in heard for target in spoken if source != target]
    if not declared:
        return None
    fitting = [pair for pair in declared if pair[0] in heard and pair[1] in spoken]
    return Pair(*(fitting or declared)[0])
