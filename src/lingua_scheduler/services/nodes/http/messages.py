"""What a node says of itself over HTTP, as the messages a socket would carry."""

from math import inf
from typing import Any, NamedTuple

from lingua_scheduler.domain.errors import ErrorCode
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.domain.nodes.nodes import ANNOUNCED
from lingua_scheduler.protocol.http import NodeRegistration, NodeSays
from lingua_scheduler.protocol.node import (
    Hardware,
    LanguageCapabilities,
    NodeHeartbeat,
    NodeRegister,
    ResourceUsage,
)
from lingua_scheduler.services.attempts.timings import now_ms
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.nodes.capabilities import excess, unreadable_pair

HEALTHY = frozenset({"ok", "ready", "healthy"})


class Claim(NamedTuple):
    """All that was said so far: what a heartbeat leaves out stays as it was."""

    health: str = "ok"
    semantic_langs: list[str] | None = None
    asr_langs: list[str] | None = None
    nmt_pairs: list[Any] | None = None
    tts_langs: list[str] | None = None

    @property
    def is_healthy(self) -> bool:
        return self.health.lower() in HEALTHY

    @property
    def languages(self) -> LanguageCapabilities:
        return LanguageCapabilities(
            asr_languages=self.semantic_langs if self.asr_langs is None else self.asr_langs,
            semantic_languages=self.semantic_langs,
            tts_languages=self.tts_langs,
            nmt_capabilities=self.nmt_pairs,
        )

    def changed_by(self, says: NodeSays) -> "Claim":
        return Claim(
            *(getattr(self, name) if getattr(says, name) is None else getattr(says, name) for name in self._fields)
        )


def complaint_about(says: NodeSays, destinations: Destinations) -> str | None:
    """What the shape of the body does not tell; None when there is nothing wrong."""
    if says.callback_url and (complaint := destinations.complaint(says.callback_url)):
        return f'field "callback_url" is wrong: {complaint}'
    return None


def complaint_about_languages(said: LanguageCapabilities) -> Refusal | None:
    """The same of what it speaks. Long lists have to be read for it, if nobody said the same lately."""
    if too_much := excess(said):
        return Refusal(ErrorCode.INVALID_CAPABILITY_SCHEMA, too_much)
    if (place := unreadable_pair(said)) is not None:
        # A list with a slip in it would otherwise stand for any pair.
        slip = f'field "nmt_pairs[{place}]" is wrong: expected "en:zh" or {{"src": "en", "tgt": "zh"}}'
        return Refusal(ErrorCode.INVALID_MESSAGE, slip)
    return None


def registration_of(says: NodeRegistration, claim: Claim) -> NodeRegister:
    """One that is not well registers without languages: nobody chooses it until its heartbeat says more."""
    return NodeRegister(
        node_id=says.node_id,
        version=says.version,
        platform=says.platform,
        hardware=Hardware(cpu_cores=0, memory_gb=0),
        installed_models=[],
        capability_by_type=[],
        features_supported={},
        advanced_features=list(ANNOUNCED),
        accept_public_jobs=True,
        language_capabilities=claim.languages if claim.is_healthy else None,
        running_job_ids=says.running_job_ids,
        max_concurrent_jobs=says.max_concurrent_jobs,
        boot_id=says.boot_id,
        heartbeat_interval_ms=says.heartbeat_interval_ms,
    )


def heartbeat_of(node_id: str, says: NodeSays, claim: Claim) -> NodeHeartbeat:
    # A node that is not well counts as busy beyond every limit: it keeps its pools, and gets no new work.
    load = 0.0 if claim.is_healthy else inf
    return NodeHeartbeat(
        node_id=node_id,
        timestamp=now_ms(),
        resource_usage=ResourceUsage(cpu_percent=load, mem_percent=0, running_jobs=0),
        installed_services=[],
        capability_by_type=[],
        language_capabilities=claim.languages,
        running_job_ids=says.running_job_ids,
        max_concurrent_jobs=says.max_concurrent_jobs,
        heartbeat_interval_ms=says.heartbeat_interval_ms,
    )
