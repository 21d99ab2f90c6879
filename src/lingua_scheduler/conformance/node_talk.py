"""A conversation of the scripted scheduler with a node: it acknowledges, grants and confirms as a scheduler does."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

from lingua_scheduler.conformance.book import Book
from lingua_scheduler.conformance.listening import Entrance, Line, PeerFrame
from lingua_scheduler.conformance.node_record import JobKey, NodeRecord, pair_of
from lingua_scheduler.conformance.play import PeerLost, Play, arriving
from lingua_sdk.protocol.node import (
    JobAck,
    JobAssign,
    JobGrant,
    JobResult,
    NodeHeartbeat,
    NodeHeartbeatAck,
    NodeRegister,
    NodeRegisterAck,
    ResultAck,
)
from lingua_sdk.protocol.shapes import JobPipeline, Message

NODE_ID = "node-C0F02A11"
SAMPLE_RATE = 16_000


class NodeTalk:
    def __init__(self, door: Entrance, book: Book, play: Play) -> None:
        self.door = door
        self.book = book
        self.play = play
        self.record = NodeRecord(book, play.patience_s)
        self.line: Line | None = None
        # What is answered to `job_ack`, and whether results are acknowledged.
        self.verdict = "granted"
        self.confirms = True
        self._serials = count(1)

    @property
    def is_connected(self) -> bool:
        return self.line is not None and not self.line.is_over

    async def meet(self, within_s: float) -> bool:
        """Take the next connection in, up to the acknowledgement; False if there is none, or no registration."""
        self.line = await arriving(self.door, self.play.program, within_s)
        if self.line is None:
            return False
        known = self.record.registration
        self.record.connected()
        try:
            return await self.until(lambda: self.record.registration is not known)
        except PeerLost:
            return False

    async def must_be_connected(self) -> None:
        """After a scene that the connection did not survive."""
        if not self.is_connected and not await self.meet(self.play.reconnect_within_s):
            raise PeerLost("the node did not come back")

    async def until(self, is_met: Callable[[], bool], within_s: float | None = None) -> bool:
        """Read until it is so; False if it is not in time. Raises PeerLost."""
        deadline_s = time.monotonic() + (self.play.patience_s if within_s is None else within_s)
        while not is_met():
            if self.line is None:
                raise PeerLost("the node is not connected")
            try:
                heard = await self.line.next(max(0.0, deadline_s - time.monotonic()))
            except TimeoutError:
                return False
            if heard is None:
                raise PeerLost("the node closed the connection")
            await self._take(heard)
        return True

    async def say(self, message: Message, **unknown_fields: Any) -> None:
        assert self.line is not None
        if unknown_fields:
            await self.line.send_fields(message, **unknown_fields)
        else:
            await self.line.send(message)

    async def assign(self, job: JobAssign | None = None, **unknown_fields: Any) -> JobAssign:
        job = job or self.job()
        self.record.assigned(job)
        await self.say(job, **unknown_fields)
        return job

    async def answered(self, *jobs: JobAssign, within_s: float | None = None) -> bool:
        return await self.until(lambda: all(self.record.results[job.job_id] for job in jobs), within_s)

    async def is_answered(self, check: str, *jobs: JobAssign, within_s: float | None = None) -> bool:
        """The outcome of a check whose proof is that jobs are answered."""
        is_met = await self.answered(*jobs, within_s=within_s)
        silent = [job.job_id for job in jobs if not self.record.results[job.job_id]]
        within_s = self.play.patience_s if within_s is None else within_s
        return self.book.judge(check, is_met, f"job_result within {within_s:g} s", f"none of {', '.join(silent)}")

    def job(self, audio: bytes | None = None, audio_format: str = "pcm16") -> JobAssign:
        """One that the node can do, as far as it told. Each is of its own session, because nodes may skip a repeat."""
        registration = self.record.registration
        pair = pair_of(registration) if registration else None
        source, target = pair or ("en", "zh")
        speaks = (
            registration and registration.language_capabilities and registration.language_capabilities.tts_languages
        ) or ()
        serial = next(self._serials)
        return JobAssign(
            job_id=f"job-conformance-{serial}",
            attempt_id=1,
            session_id=f"s-C0F0{serial:04X}",
            utterance_index=serial % 7,
            src_lang=source,
            tgt_lang=target,
            pipeline=JobPipeline(
                use_asr=True, use_nmt=True, use_tts=target in speaks, use_semantic=False, use_tone=False
            ),
            audio=self.play.audio if audio is None else audio,
            audio_format=audio_format,
            sample_rate=SAMPLE_RATE,
            enable_streaming_asr=True,
            partial_update_interval_ms=1000,
            trace_id=f"trace-{serial}",
            turn_id=f"turn-{serial}",
            features={},
            is_manual_cut=True,
            start_within_ms=int(self.play.patience_s * 1000) if self.record.asks_first else None,
        )

    async def _take(self, heard: PeerFrame) -> None:
        match self.record.heard(heard.data, heard.at_s):
            case NodeRegister() as said:
                self.record.acknowledged(said.node_id or self.record.node_id or NODE_ID)
                ack = NodeRegisterAck(node_id=self.record.node_id, message="registered", status="registering")
                await self.say(ack)
            case NodeHeartbeat() if self.record.asks_first:
                await self.say(NodeHeartbeatAck(node_id=self.record.node_id, timestamp=int(time.time() * 1000)))
            case JobAck() as said:
                await self._grant(JobKey(said.job_id, said.attempt_id))
            case JobResult() as said if self.record.asks_first and self.confirms:
                self.record.confirmed.add(JobKey(said.job_id, said.attempt_id))
                await self.say(ResultAck(job_id=said.job_id, attempt_id=said.attempt_id))

    async def _grant(self, key: JobKey) -> None:
        verdict = "stale" if self.record.results.get(key.job_id) else self.verdict
        if verdict == "granted":
            self.record.granted(key)
        await self.say(JobGrant(job_id=key.job_id, attempt_id=key.attempt_id, verdict=verdict))
