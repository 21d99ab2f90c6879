"""Reading what a node says it can do into what the scheduler decides by."""

from collections.abc import Iterable

from lingua_scheduler.domain.languages import Pair, is_code, valid_codes
from lingua_scheduler.domain.nodes import Profile
from lingua_scheduler.domain.pools import Languages
from lingua_scheduler.protocol.node import LanguageCapabilities, NodeHeartbeat, NodeRegister
from lingua_scheduler.protocol.shapes import CapabilityByType, translation_pairs

ACKNOWLEDGES = "job_ack"


def profile_of(message: NodeRegister, default_max_jobs: int, max_jobs: int) -> Profile:
    return Profile(
        languages=_languages(message.language_capabilities, message.capability_by_type),
        max_jobs=_slots(message.max_concurrent_jobs, default_max_jobs, max_jobs),
        acknowledges=ACKNOWLEDGES in (message.advanced_features or ()),
        takes_jobs=message.accept_public_jobs,
        boot_id=(message.boot_id or "")[:64],
        version=message.version[:64],
        platform=message.platform[:32],
        services=_services(message),
    )


def changed_by(message: NodeHeartbeat, before: Profile, max_jobs: int) -> Profile:
    """A heartbeat repeats only what the node wants to change; what it leaves out stays."""
    languages = before.languages
    if message.language_capabilities is not None:
        languages = _languages(message.language_capabilities, message.capability_by_type)
    slots = before.max_jobs
    if message.max_concurrent_jobs is not None:
        slots = _slots(message.max_concurrent_jobs, slots, max_jobs)
    return before._replace(languages=languages, max_jobs=slots, services=_services(message))


def _languages(declared: LanguageCapabilities | None, readiness: Iterable[CapabilityByType]) -> Languages:
    """The declared lists, without what a service that is not ready would be needed for."""
    if declared is None:
        return Languages()
    down = _not_ready(readiness)
    pairs = translation_pairs(declared.nmt_capabilities)
    translations = None if pairs is None else frozenset(Pair(*pair) for pair in pairs if all(map(is_code, pair)))
    if "nmt" in down:
        translations = frozenset()
    semantic_down = "semantic" in down or declared.semantic_core_ready is False
    return Languages(
        asr=frozenset() if "asr" in down else valid_codes(declared.asr_languages or ()),
        semantic=frozenset() if semantic_down else valid_codes(declared.semantic_languages or ()),
        tts=frozenset() if "tts" in down else valid_codes(declared.tts_languages or ()),
        translations=translations,
    )


def _not_ready(readiness: Iterable[CapabilityByType]) -> set[str]:
    ready = {capability.type for capability in readiness if capability.ready}
    return {capability.type for capability in readiness} - ready


def _slots(claimed: int | None, default: int, most: int) -> int:
    return default if claimed is None else min(claimed, most)


def _services(message: NodeRegister | NodeHeartbeat) -> tuple[str, ...]:
    return tuple(sorted(service.service_id[:64] for service in message.installed_services or ()))[:64]
