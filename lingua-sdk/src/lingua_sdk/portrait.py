"""Builds a node's registration and heartbeats: its abilities and its load."""

import os
import platform
import time
from collections.abc import Sequence
from typing import NamedTuple

from lingua_sdk import load
from lingua_sdk.declared_pairs import pairs_in
from lingua_sdk.domain.vocabulary import TEXT_INPUT
from lingua_sdk.engines import Abilities, Service
from lingua_sdk.protocol.node import Hardware, LanguageCapabilities, NodeHeartbeat, NodeRegister, ResourceUsage
from lingua_sdk.protocol.shapes import CapabilityByType, InstalledService

KINDS = ("asr", "semantic", "nmt", "tts")
# A node can: ask before it starts, take audio as a binary frame after its job, stop taking jobs when it is told to, and
# log that it is quarantined; it hands every field of a job to its engines, which may use what nodes of other makers
# would trip over.
ADVANCED_FEATURES = ("job_ack", "binary_audio", "drain", "lid", "context_text", "semantic", "turns", "quarantine")


class Identity(NamedTuple):
    node_id: str | None
    boot_id: str
    heartbeat_interval_s: float


def registration(
    who: Identity, engine_name: str, able: Abilities, running_ids: Sequence[str], takes_jobs: bool
) -> NodeRegister:
    return NodeRegister(
        node_id=who.node_id,
        version="2.0.0",
        capability_schema_version="2.0",
        platform=platform.system().lower(),
        hardware=Hardware(cpu_cores=os.cpu_count() or 1, memory_gb=load.memory_gb()),
        installed_models=[],
        installed_services=_services(engine_name, able),
        capability_by_type=_readiness(able),
        features_supported={},
        advanced_features=[*ADVANCED_FEATURES, *([TEXT_INPUT] if able.takes_text else ())],
        accept_public_jobs=takes_jobs,
        language_capabilities=_languages(able),
        running_job_ids=list(running_ids),
        max_concurrent_jobs=able.slots,
        boot_id=who.boot_id,
        heartbeat_interval_ms=int(who.heartbeat_interval_s * 1000),
    )


def heartbeat(
    who: Identity, engine_name: str, able: Abilities, running_ids: Sequence[str], usage: ResourceUsage
) -> NodeHeartbeat:
    return NodeHeartbeat(
        node_id=who.node_id or "",
        timestamp=int(time.time() * 1000),
        resource_usage=usage,
        installed_services=_services(engine_name, able),
        capability_by_type=_readiness(able),
        language_capabilities=_languages(able),
        running_job_ids=list(running_ids),
        max_concurrent_jobs=able.slots,
        heartbeat_interval_ms=int(who.heartbeat_interval_s * 1000),
    )


def _services(engine_name: str, able: Abilities) -> list[InstalledService]:
    installed = able.services
    if installed is None:
        installed = [Service(f"{engine_name}-{kind}", kind) for kind in KINDS]
    return [
        InstalledService(service_id=service.service_id, type=service.kind, device=service.device, status="running")
        for service in installed
    ]


def _readiness(able: Abilities) -> list[CapabilityByType]:
    # An empty list of pairs would be read as none declared, hence any.
    translates = able.translates is None or len(able.translates) > 0
    has = {"asr": bool(able.recognises), "semantic": bool(able.repairs), "nmt": translates, "tts": bool(able.speaks)}
    return [CapabilityByType(type=kind, ready=has[kind]) for kind in KINDS]


def _languages(able: Abilities) -> LanguageCapabilities:
    pairs = None
    if able.translates is not None:
        pairs = [{"from": source, "to": target} for source, target in pairs_in(able.translates)]
    return LanguageCapabilities(
        asr_languages=list(able.recognises),
        semantic_languages=list(able.repairs),
        tts_languages=list(able.speaks),
        nmt_capabilities=pairs,
        semantic_core_ready=bool(able.repairs),
    )
