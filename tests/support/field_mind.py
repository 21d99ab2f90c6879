"""What the existing node makes of a job: its memory for the life of its process, and its answer, or none."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support import field_frames
from tests.support.field_speech import Heard, HeardWord, hear, opus, say
from tests.support.peers import Frame

SHORTEST_TRANSLATED = 6
LONGEST_HELD_BACK = 40
LONG_PART_MS = 10_000
# Recorded: about 70 ms of speech a character, and never more than 2.8 s.
_TTS_PACKETS_A_CHARACTER = 3
_TTS_PACKETS = 140


class Memory(NamedTuple):
    """Lost only with the process."""

    job_ids: set[str]
    utterances: set[tuple[str, int]]


@dataclass
class _Turn:
    """Parts that wait for the job that closes their turn."""

    audio: list[Heard] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    jobs: list[Frame] = field(default_factory=list)


class Mind:
    """A process of a node. `names_merged_jobs`: it also answers for the parts it has merged, with NO_TEXT_ASSIGNED."""

    def __init__(self, *, names_merged_jobs: bool = False) -> None:
        self.memory = Memory(set(), set())
        self._names_merged_jobs = names_merged_jobs
        self._turns: dict[tuple[str, str], _Turn] = {}
        self._last_text: dict[str, str] = {}

    def refusal(self, job: Frame, node_id: str) -> Frame | None:
        """At once, before it is queued: a repeated job id, or utterance of a session. Otherwise it is remembered."""
        about = (job["session_id"], job["utterance_index"])
        if job["job_id"] in self.memory.job_ids:
            return field_frames.failure(job, node_id, f"DUPLICATE_JOB_ID: {job['job_id']}", 0)
        if about in self.memory.utterances:
            return field_frames.failure(job, node_id, f"DUPLICATE_UTTERANCE: {about[0]} {about[1]}", 0)
        self.memory.job_ids.add(job["job_id"])
        self.memory.utterances.add(about)
        return None

    def collect(self, job: Frame) -> Heard | None:
        """What there is to recognise now, with what its turn had kept; None when the job is kept too."""
        heard = heard_in(job)
        if _fault(job):
            return heard
        turn = self._turn(job)
        turn.audio.append(heard)
        if not _closes(job) and sum(part.duration_ms for part in turn.audio) < LONG_PART_MS:
            turn.jobs.append(job)
            return None
        joined = _joined(turn.audio)
        turn.audio.clear()
        return joined

    def answers(self, job: Frame, heard: Heard, node_id: str, processing_ms: int) -> list[Frame]:
        """To a job with what was collected: none, one, or one for each of the jobs that were merged."""
        if fault := _fault(job):
            return [field_frames.failure(job, node_id, fault, processing_ms)]
        turn = self._turn(job)
        if _closes(job):
            del self._turns[(job["session_id"], job["turn_id"])]
        if not heard.words:
            reason = "NO_TEXT_ASSIGNED" if turn.text else "ASR_EMPTY"
            return [self._empty(job, node_id, heard, processing_ms, reason)]
        turn.text.append(heard.text)
        text = " ".join(turn.text)
        if self._last_text.get(job["session_id"]) == text:
            return []
        self._last_text[job["session_id"]] = text
        merged = turn.jobs if self._names_merged_jobs else []
        nothing = Heard([], 0)
        others = [self._empty(part, node_id, nothing, processing_ms, "NO_TEXT_ASSIGNED") for part in merged]
        return [*others, self._spoken(job, node_id, heard, text, processing_ms)]

    def _turn(self, job: Frame) -> _Turn:
        return self._turns.setdefault((job["session_id"], job["turn_id"]), _Turn())

    def _empty(self, job: Frame, node_id: str, heard: Heard, processing_ms: int, reason: str) -> Frame:
        extra = field_frames.about_audio(job, node_id, "", "", heard.duration_ms) | {"reason": reason}
        return field_frames.result(job, node_id, _texts("", ""), extra, processing_ms)

    def _spoken(self, job: Frame, node_id: str, heard: Heard, text: str, processing_ms: int) -> Frame:
        extra = field_frames.about_audio(job, node_id, heard.language, text, heard.duration_ms)
        translated = translation(text, *_direction(job, heard.language)) if is_translated(job, text) else ""
        return field_frames.result(job, node_id, _texts(text, translated), extra, processing_ms)


def is_translated(job: Frame, text: str) -> bool:
    """By its flags and the length of its text; a job that closes no turn is never translated."""
    if job.get("is_manual_cut"):
        return len(text) >= SHORTEST_TRANSLATED
    return bool(job.get("is_timeout_triggered")) and len(text) > LONGEST_HELD_BACK


def translation(text: str, source: str, target: str) -> str:
    return f"[{source}>{target}] {text.upper()}"


def _direction(job: Frame, spoken: str) -> tuple[str, str]:
    if job["src_lang"] != "auto":
        return job["src_lang"], job["tgt_lang"]
    return spoken, job["lang_b"] if spoken == job["lang_a"] else job["lang_a"]


def _texts(recognised: str, translated: str) -> Frame:
    spoken = ""
    if translated:
        packets = min(_TTS_PACKETS, _TTS_PACKETS_A_CHARACTER * len(translated))
        spoken = base64.b64encode(opus((say("speech") * 6)[:packets])).decode()
    return {"text_asr": recognised, "text_translated": translated, "tts_audio": spoken}


def heard_in(job: Frame) -> Heard:
    return hear(base64.b64decode(job["audio"]), job["audio_format"])


def _closes(job: Frame) -> bool:
    return bool(job.get("is_manual_cut") or job.get("is_timeout_triggered"))


def _fault(job: Frame) -> str:
    if "lid" in job:
        return field_frames.LID_NOT_LOADED
    if job["src_lang"] == "auto" and not (job.get("lang_a") and job.get("lang_b")):
        return "src_lang is auto: lang_a and lang_b are needed"
    return ""


def _joined(parts: Iterable[Heard]) -> Heard:
    """A word on both sides of a cut is one word again when the parts are joined."""
    words: list[HeardWord] = []
    duration_ms = 0
    for part in parts:
        duration_ms += part.duration_ms
        for word in part.words:
            if words and words[-1].occurrence == word.occurrence and words[-1].last < word.first:
                words[-1] = words[-1]._replace(last=word.last)
            else:
                words.append(word)
    return Heard(words, duration_ms)
