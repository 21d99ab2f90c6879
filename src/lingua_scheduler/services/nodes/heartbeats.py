"""Heartbeats of connected nodes: what each says is heeded, at the pace a node is allowed."""

import asyncio

import msgspec

from lingua_scheduler.clock import SYSTEM_CLOCK, Clock
from lingua_scheduler.domain.nodes.nodes import BeatOutcome, LoadLimits, Profile
from lingua_scheduler.services.attempts.peers import CloseCode
from lingua_scheduler.services.nodes.capabilities import (
    changed_by,
    hint_about,
    is_new,
    load_of,
    most_slots,
    queue_of,
    refusal_of,
)
from lingua_scheduler.services.nodes.links import NodeLink, NodeLinks
from lingua_scheduler.services.nodes.node_writer import NodeWriter
from lingua_scheduler.services.nodes.running_jobs import RunningJobs
from lingua_scheduler.setting_sections.nodes import NodesSettings
from lingua_scheduler.telemetry import logs, metrics
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.protocol.node import NodeHeartbeat
from lingua_sdk.protocol.shapes import ErrorMessage

_log = logs.get()

_HEARTBEATS = metrics.by(metrics.HEARTBEATS, *BeatOutcome)
_CUT_OFF = metrics.CUT_OFF.labels("too_busy")


class Heartbeats:
    def __init__(
        self,
        links: NodeLinks,
        writer: NodeWriter,
        running: RunningJobs,
        settings: NodesSettings,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._links = links
        self._writer = writer
        self._running = running
        self._settings = settings
        self._load_limits = LoadLimits(
            cpu=settings.max_cpu_percent,
            memory=settings.max_memory_percent,
            gpu=settings.max_gpu_percent,
            gpu_memory=settings.max_gpu_memory_percent,
        )
        # Those that said something too fast.
        self._late: dict[str, NodeLink] = {}

    async def take(self, link: NodeLink, message: NodeHeartbeat) -> BeatOutcome:
        """A heartbeat that changes nothing costs one cheap script. What comes too fast waits, and the newest wins."""
        if not link.pace.may_beat():
            self._put_off(link, message)
            return BeatOutcome.PUT_OFF
        return await self._heed(link, message)

    async def heed_late(self) -> None:
        """What nodes said too fast, a while ago."""
        for link in list(self._late.values()):
            message = link.pace.put_off
            if message is None or not self._links.is_current(link):
                self._late.pop(link.node_id, None)
            elif link.pace.is_time() and link.pace.may_beat():
                del self._late[link.node_id]
                await self._heed(link, message)

    async def _heed(self, link: NodeLink, message: NodeHeartbeat) -> BeatOutcome:
        # Before Redis is asked for anything, which may be away.
        read_at = link.beaten_at_s = self._clock()
        message = link.pace.catch_up(message)
        if message.heartbeat_interval_ms is not None:
            link.alive_ms = alive_ms(message.heartbeat_interval_ms, self._settings)
        load = load_of(message.resource_usage)
        if load.differs(link.load):
            link.load = load
        link.queue = queue_of(message.resource_usage)
        profile = self._changed(link, message)
        if profile != link.profile:
            # Before Redis is asked for anything: it may be away, and the node does not say it again.
            link.profile = profile
        if message.running_job_ids is not None:
            await self._running.reconcile(link, message.running_job_ids)
        outcome = await self._writer.beat(link)
        _HEARTBEATS[outcome].inc()
        metrics.HEARTBEAT_SECONDS.observe(self._clock() - read_at)
        is_put_off = outcome is BeatOutcome.ALIVE and link.pace.put_off is not None
        return BeatOutcome.PUT_OFF if is_put_off else outcome

    def _changed(self, link: NodeLink, message: NodeHeartbeat) -> Profile:
        """The node's current capabilities; the previous ones, if it changes them too often."""
        is_paid = is_new(message.language_capabilities)
        if is_paid and not link.pace.may_change(message.language_capabilities):
            # Not even read.
            self._put_off(link, message, is_change=True)
            return link.profile
        if complaint := refusal_of(message.language_capabilities):
            # What it said before holds, and all else it says counts.
            link.peer.post(ErrorMessage(code=ErrorCode.INVALID_CAPABILITY_SCHEMA.value, message=complaint))
            message = msgspec.structs.replace(message, language_capabilities=None)
        elif message.language_capabilities is not None:
            link.hint(hint_about(message.language_capabilities))
        most = most_slots(link.peer.principal, self._settings.max_jobs)
        profile = changed_by(message, link.profile, most, self._load_limits)
        if profile != link.profile and not is_paid and not link.pace.may_change(message.language_capabilities):
            self._put_off(link, message, is_change=True)
            return link.profile
        return profile

    def _put_off(self, link: NodeLink, message: NodeHeartbeat, *, is_change: bool = False) -> None:
        _HEARTBEATS[BeatOutcome.PUT_OFF].inc()
        self._late[link.node_id] = link
        if not link.pace.wait(message, is_change=is_change):
            self.cut_off(link)

    def cut_off(self, link: NodeLink) -> None:
        """Disconnect a node that keeps sending too many heartbeats."""
        _CUT_OFF.inc()
        _log.warning("node.too_busy", node_id=link.node_id)
        link.peer.close(CloseCode.MISBEHAVED, "too many heartbeats or capability changes; connect again")

    async def show_life(self, link: NodeLink) -> BeatOutcome:
        """Renew the node's heartbeat in Redis without changing anything else."""
        return await self._writer.beat(link)

    async def vouch(self) -> None:
        """A node that does not say how often it beats is alive as long as its socket answers pings."""
        now_s = self._clock()
        quiet = [
            link
            for link in self._links.all()
            if not link.tells_interval
            and now_s - link.beaten_at_s > link.alive_ms / 1000 / self._settings.missed_heartbeats
            and link.peer.is_heard
        ]
        await asyncio.gather(*map(self.show_life, quiet))


def alive_ms(interval_ms: float | None, settings: NodesSettings) -> int:
    """How long a node counts as alive after a heartbeat that told its interval, or did not."""
    if interval_ms is None:
        return settings.heartbeat_interval_ms * settings.missed_heartbeats
    # Bounds: a node must not count as alive for ever, nor be swept between two heartbeats.
    return int(min(max(interval_ms, 1_000), 60_000) * settings.missed_heartbeats)
