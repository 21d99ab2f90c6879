"""Reading what a node says it can do into what the scheduler decides by."""

from lingua_scheduler.domain.languages import MAX_PAIRS, Pair, is_code, valid_codes
from lingua_scheduler.domain.nodes import Load, LoadLimits, Machine, Profile, Service
from lingua_scheduler.domain.pools import Languages
from lingua_scheduler.protocol.node import Hardware, LanguageCapabilities, NodeHeartbeat, NodeRegister, ResourceUsage
from lingua_scheduler.protocol.shapes import translation_pairs

ACKNOWLEDGES = "job_ack"
# The kinds of service a pair needs.
RELEVANT = frozenset({"asr", "semantic", "nmt", "tts"})
# Declared pairs we read at most; a list without end is a liar's.
MAX_TRANSLATIONS = 4 * MAX_PAIRS
# Likewise of GPUs, and of cores and gigabytes.
MAX_GPUS = 64
MAX_AMOUNT = 1_000_000


def profile_of(message: NodeRegister, default_max_jobs: int, max_jobs: int) -> Profile:
    return Profile(
        declared=_declared(message.language_capabilities),
        down=_down(message),
        max_jobs=_slots(message.max_concurrent_jobs, default_max_jobs, max_jobs),
        acknowledges=ACKNOWLEDGES in (message.advanced_features or ()),
        reports_jobs=message.running_job_ids is not None,
        takes_jobs=message.accept_public_jobs,
        boot_id=(message.boot_id or "")[:64],
        version=message.version[:64],
        platform=message.platform[:32],
        installed=_installed(message),
        machine=_machine(message.hardware),
    )


def load_of(usage: ResourceUsage) -> Load:
    return Load(usage.cpu_percent, usage.mem_percent, usage.gpu_percent, usage.gpu_mem_percent)


def changed_by(message: NodeHeartbeat, before: Profile, max_jobs: int, limits: LoadLimits) -> Profile:
    """A heartbeat repeats only what the node wants to change; what it leaves out stays."""
    declared = before.declared
    if message.language_capabilities is not None:
        declared = _declared(message.language_capabilities)
    slots = before.max_jobs
    if message.max_concurrent_jobs is not None:
        slots = _slots(message.max_concurrent_jobs, slots, max_jobs)
    return before._replace(
        declared=declared,
        down=_down(message, "semantic" in before.down),
        max_jobs=slots,
        reports_jobs=before.reports_jobs or message.running_job_ids is not None,
        installed=_installed(message),
        is_overloaded=limits.exceeded_by(load_of(message.resource_usage)),
    )


def _declared(said: LanguageCapabilities | None) -> Languages:
    if said is None:
        return Languages()
    pairs = translation_pairs(said.nmt_capabilities)
    translations = None
    if pairs is not None:
        translations = frozenset(Pair(*pair) for pair in pairs[:MAX_TRANSLATIONS] if all(map(is_code, pair)))
    return Languages(
        asr=valid_codes(said.asr_languages or ()),
        semantic=valid_codes(said.semantic_languages or ()),
        tts=valid_codes(said.tts_languages or ()),
        translations=translations,
    )


def _down(message: NodeRegister | NodeHeartbeat, semantic_before: bool = False) -> frozenset[str]:
    """Kinds of service of which none is ready."""
    ready = {capability.type for capability in message.capability_by_type if capability.ready}
    down = {capability.type for capability in message.capability_by_type} - ready
    said = message.language_capabilities
    if said is not None and said.semantic_core_ready is False:
        down.add("semantic")
    elif said is None and semantic_before and "semantic" not in ready:
        # What was said of the core holds until something else is said.
        down.add("semantic")
    return frozenset(down & RELEVANT)


def _machine(said: Hardware) -> Machine:
    gpus = (said.gpus or ())[:MAX_GPUS]
    return Machine(_sane(said.cpu_cores), _sane(said.memory_gb), sum(_sane(gpu.memory_gb) for gpu in gpus))


def _sane(amount: float) -> float:
    """Nobody has less than nothing, and sums must stay readable."""
    return round(amount, 1) if 0 <= amount <= MAX_AMOUNT else 0


def _slots(claimed: int | None, default: int, most: int) -> int:
    return default if claimed is None else min(claimed, most)


def _installed(message: NodeRegister | NodeHeartbeat) -> tuple[Service, ...]:
    said = message.installed_services or ()
    return tuple(sorted(Service(service.service_id[:64], service.type[:16]) for service in said))[:64]
