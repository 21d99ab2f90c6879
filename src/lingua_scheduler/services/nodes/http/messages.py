"""Converts a node's HTTP requests into the messages a WebSocket would carry, and names why one is rejected."""

from enum import Enum, auto
from math import inf
from typing import Any, NamedTuple

from lingua_scheduler.clock import wall_ms
from lingua_scheduler.domain.guards.destinations import Destinations
from lingua_scheduler.domain.nodes.nodes import ANNOUNCED
from lingua_scheduler.protocol.http import NodeRegistration, NodeSays
from lingua_scheduler.services.attempts.work import Refusal
from lingua_scheduler.services.nodes.capabilities import refusal_of, unreadable_pair
from lingua_sdk.domain.errors import ErrorCode
from lingua_sdk.domain.vocabulary import TEXT_INPUT
from lingua_sdk.protocol.node import Hardware, LanguageCapabilities, NodeHeartbeat, NodeRegister, ResourceUsage
from lingua_sdk.protocol.pairs import EXPECTED
from lingua_sdk.protocol.shapes import NO_BOOT_ID

HEALTHY = frozenset({"ok", "ready", "healthy"})


class Stranger(Enum):
    """Why a request in the name of a node is rejected."""

    UNKNOWN = auto()
    ELSEWHERE = auto()  # the id has another connection by now
    FOREIGN = auto()  # the node belongs to another credential


class TooFast(NamedTuple):
    """Its long lists were not read: it changes them too often."""

    retry_after_s: int


class HttpNodeClaim(NamedTuple):
    """All that was said so far: what a heartbeat leaves out stays as it was."""

    health: str = "ok"
    semantic_langs: list[str] | None = None
    asr_langs: list[str] | None = None
    nmt_pairs: Any = None
    tts_langs: list[str] | None = None
    current_load: Any = None

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

    def percent(self, of: str) -> float | None:
        """How busy it said it is, in percent; None if it did not say. Shares are from 0 to 1."""
        share = self.current_load.get(of) if isinstance(self.current_load, dict) else None
        return None if share is None else min(100.0, max(0.0, round(share * 100, 1)))

    def changed_by(self, says: NodeSays) -> "HttpNodeClaim":
        return HttpNodeClaim(
            *(getattr(self, name) if getattr(says, name) is None else getattr(says, name) for name in self._fields)
        )


def complaint_about(says: NodeSays, destinations: Destinations) -> str | None:
    """What the shape of the body does not tell; None when there is nothing wrong."""
    if says.callback_url and (complaint := destinations.complaint(says.callback_url)):
        return f'invalid field "callback_url": {complaint}'
    return None


def complaint_about_languages(said: LanguageCapabilities) -> Refusal | None:
    """The same check for its language pairs. Long lists must be parsed for it, unless they are cached."""
    if (place := unreadable_pair(said)) is not None:
        return Refusal(ErrorCode.INVALID_MESSAGE, f'invalid field "nmt_pairs[{place}]": expected {EXPECTED}')
    if complaint := refusal_of(said):
        return Refusal(ErrorCode.INVALID_CAPABILITY_SCHEMA, complaint)
    return None


def registration_of(says: NodeRegistration, claim: HttpNodeClaim, address: str = "") -> NodeRegister:
    """A node that reports a bad status registers without languages, so it is not chosen until a heartbeat adds them.

    One without a boot id that registers again from its address counts as the same process, so its work goes on.
    """
    return NodeRegister(
        node_id=says.node_id,
        version=says.version,
        platform=says.platform,
        hardware=Hardware(cpu_cores=0, memory_gb=0),
        installed_models=[],
        capability_by_type=[],
        features_supported={},
        advanced_features=[name for name in ANNOUNCED if name != TEXT_INPUT or says.text_input],
        accept_public_jobs=True,
        language_capabilities=claim.languages if claim.is_healthy else None,
        running_job_ids=says.running_job_ids,
        max_concurrent_jobs=says.max_concurrent_jobs,
        boot_id=says.boot_id or (NO_BOOT_ID + address if address else None),
        heartbeat_interval_ms=says.heartbeat_interval_ms,
    )


def heartbeat_of(node_id: str, says: NodeSays, claim: HttpNodeClaim) -> NodeHeartbeat:
    # A node that is not well counts as busy beyond every limit: it keeps its pools, and gets no new work.
    load = (claim.percent("cpu") or 0.0) if claim.is_healthy else inf
    return NodeHeartbeat(
        node_id=node_id,
        timestamp=wall_ms(),
        resource_usage=ResourceUsage(
            cpu_percent=load,
            mem_percent=claim.percent("memory") or 0,
            running_jobs=0,
            gpu_percent=claim.percent("gpu"),
            gpu_mem_percent=claim.percent("gpu_memory"),
        ),
        installed_services=[],
        capability_by_type=[],
        language_capabilities=claim.languages,
        running_job_ids=says.running_job_ids,
        max_concurrent_jobs=says.max_concurrent_jobs,
        heartbeat_interval_ms=says.heartbeat_interval_ms,
    )
