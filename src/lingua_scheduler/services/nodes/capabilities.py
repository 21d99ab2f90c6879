"""Parses the capabilities a node announces into the values the scheduler decides by."""

import hashlib
from itertools import product
from typing import NamedTuple

import msgspec

from lingua_scheduler.domain.access.principals import Principal
from lingua_scheduler.domain.nodes.nodes import Features, LoadLimits, Machine, MachineLoad, NodeService, Profile
from lingua_scheduler.domain.pools.pools import Languages
from lingua_sdk.domain.languages import MAX_LANGUAGES, MAX_PAIRS, MAX_TRANSLATIONS, Pair, valid_codes
from lingua_sdk.protocol.node import Hardware, LanguageCapabilities, NodeHeartbeat, NodeRegister, ResourceUsage
from lingua_sdk.protocol.pairs import complaint_about, count_translations, read_translations

# The kinds of service a pair needs.
RELEVANT = frozenset({"asr", "semantic", "nmt", "tts"})
# Shorter lists are parsed faster than looked up in the cache; maximum number of cached lists, and of pairs in them.
SHORT = 16
REMEMBERED_MAX = 64
REMEMBERED_PAIRS = 262_144
# Parsing this many declared pairs costs about as much as writing a change.
PAIRS_PER_WEIGHT = 1_000
# Of GPUs we read, and of cores and gigabytes; a list without end is a liar's.
MAX_GPUS = 64
MAX_AMOUNT = 1_000_000
# And of jobs that wait for its GPU.
MAX_QUEUE = 1_000


def weight_of(said: LanguageCapabilities | None) -> float:
    """What reading them costs; about 1 for all but long lists."""
    if said is None or not isinstance(said.nmt_capabilities, dict | list):
        return 1
    return 1 + count_translations(said.nmt_capabilities, MAX_TRANSLATIONS) / PAIRS_PER_WEIGHT


def refusal_of(said: LanguageCapabilities | None) -> str | None:
    """Why it cannot be accepted: more languages or pairs than allowed, or pairs of which none can be read."""
    return None if said is None else _STATEMENTS.read(said).refusal


def hint_about(said: LanguageCapabilities | None) -> str | None:
    """What to tell a node whose list is accepted without some of its entries."""
    place = None if said is None else _STATEMENTS.read(said).unreadable
    return None if place is None else f"{complaint_about(place)}. It was left out"


def unreadable_pair(said: LanguageCapabilities) -> int | None:
    """The place in its list of the first pair that cannot be read."""
    return None if said.nmt_capabilities is None else _STATEMENTS.read(said).unreadable


def most_slots(principal: Principal, most: int) -> int:
    """What is believed of the slots a node announces, by its credential."""
    return min(principal.max_slots, most) if principal.max_slots else most


def profile_of(message: NodeRegister, default_max_jobs: int, max_jobs: int) -> Profile:
    return Profile(
        declared=_declared(message.language_capabilities),
        down=_down(message),
        max_jobs=_slots(message.max_concurrent_jobs, min(default_max_jobs, max_jobs), max_jobs),
        features=Features.announced(message.advanced_features or ()),
        reports_jobs=message.running_job_ids is not None,
        takes_jobs=message.accept_public_jobs,
        boot_id=(message.boot_id or "")[:64],
        version=message.version[:64],
        platform=message.platform[:32],
        installed=_installed(message),
        machine=_machine(message.hardware),
    )


def load_of(usage: ResourceUsage) -> MachineLoad:
    return MachineLoad(usage.cpu_percent, usage.mem_percent, usage.gpu_percent, usage.gpu_mem_percent)


def queue_of(usage: ResourceUsage) -> int:
    """Jobs that wait for the node's GPU, as far as it is believed."""
    said = usage.gpu_queue_length
    return int(min(said, MAX_QUEUE)) if said is not None and said > 0 else 0


def changed_by(message: NodeHeartbeat, before: Profile, max_jobs: int, limits: LoadLimits) -> Profile:
    """Apply a heartbeat: fields it omits keep their values."""
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
    return Languages() if said is None else _STATEMENTS.read(said).languages


class _Statement(NamedTuple):
    """What lists of languages mean."""

    languages: Languages = Languages()
    refusal: str | None = None
    unreadable: int | None = None

    @property
    def pairs(self) -> int:
        """How much there is to remember of it."""
        return len(self.languages.translations or ())


def is_new(said: LanguageCapabilities | None) -> bool:
    """Whether long lists must be parsed, because they are not in the cache."""
    return said is not None and not _is_short(said) and not _STATEMENTS.knows(said)


class _Statements:
    """Cache of parsed language lists: nodes repeat them in every heartbeat, and many nodes send the same."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Statement] = {}
        self._pairs = 0
        # It is asked several times in a row about the same message.
        self._latest: LanguageCapabilities | None = None
        self._digest: bytes | None = None
        self._statement: _Statement | None = None

    def read(self, said: LanguageCapabilities) -> _Statement:
        self._look_at(said)
        if self._statement is None:
            self._statement = _statement(said)
            self._remember(self._statement)
        return self._statement

    def knows(self, said: LanguageCapabilities) -> bool:
        """Whether exactly this is in the cache. What is refused unread never is."""
        self._look_at(said)
        return self._digest in self._known

    def _look_at(self, said: LanguageCapabilities) -> None:
        if said is self._latest:
            return
        self._latest, self._digest, self._statement = said, None, None
        if excess := _excess(said):
            self._statement = _Statement(refusal=excess)
        elif not _is_short(said):
            self._digest = _digest(said)
            self._statement = self._known.pop(self._digest, None)
            if self._statement is not None:
                # Those that were said last come last.
                self._known[self._digest] = self._statement

    def _remember(self, statement: _Statement) -> None:
        if self._digest is None:
            return
        self._known[self._digest] = statement
        self._pairs += statement.pairs
        while len(self._known) > REMEMBERED_MAX or self._pairs > REMEMBERED_PAIRS:
            self._pairs -= self._known.pop(next(iter(self._known))).pairs


_STATEMENTS = _Statements()


def _digest(said: LanguageCapabilities) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(said), digest_size=16).digest()


def _is_short(said: LanguageCapabilities) -> bool:
    pairs = said.nmt_capabilities
    lists = (said.asr_languages, said.semantic_languages, said.tts_languages)
    return not isinstance(pairs, dict | list) and sum(len(texts or ()) for texts in lists) <= SHORT


def _excess(said: LanguageCapabilities) -> str | None:
    """Counted before anything is read: to read is what costs."""
    for name in ("asr_languages", "semantic_languages", "tts_languages"):
        length = len(getattr(said, name) or ())
        if length > MAX_LANGUAGES:
            return f"{name} has {length} languages; a node may list at most {MAX_LANGUAGES}"
    pairs = count_translations(said.nmt_capabilities, MAX_TRANSLATIONS)
    if pairs > MAX_TRANSLATIONS:
        told = f"nmt_capabilities has {pairs} pairs; a node may declare at most {MAX_TRANSLATIONS}"
        return f"{told}, and one that translates any pair declares none"
    return None


def _statement(said: LanguageCapabilities) -> _Statement:
    pairs, unreadable = read_translations(said.nmt_capabilities)
    asr, semantic, tts = map(
        valid_codes, (said.asr_languages or (), said.semantic_languages or (), said.tts_languages or ())
    )
    if unreadable is not None and not pairs:
        # It must not stand for any pair.
        return _Statement(refusal=complaint_about(unreadable), unreadable=unreadable)
    declared = None if pairs is None else frozenset(Pair(src, tgt) for src, tgt in pairs)
    if declared is not None and len(declared) > MAX_PAIRS and _is_any(asr, semantic, tts, declared):
        declared = None
    return _Statement(Languages(asr, semantic, tts, declared), unreadable=unreadable)


def _is_any(asr: frozenset[str], semantic: frozenset[str], tts: frozenset[str], declared: frozenset[Pair]) -> bool:
    """Thousands of pairs that leave none out are any pair, which is much less to keep and to compare."""
    heard = asr | semantic
    # A target that is only spoken, or only declared, would be lost with the voice, or with the pairs.
    if not tts <= heard or not {pair.tgt for pair in declared} <= heard:
        return False
    return all(src == tgt or (src, tgt) in declared for src, tgt in product(asr & semantic, heard))


def _down(message: NodeRegister | NodeHeartbeat, semantic_before: bool = False) -> frozenset[str]:
    """Kinds of service of which none is ready."""
    ready = {capability.type for capability in message.capability_by_type if capability.ready}
    down = {capability.type for capability in message.capability_by_type} - ready
    said = message.language_capabilities
    if said is not None and said.semantic_core_ready is False:
        down.add("semantic")
    elif said is None and semantic_before and "semantic" not in ready:
        # The last reported readiness holds until the next report.
        down.add("semantic")
    return frozenset(down & RELEVANT)


def _machine(said: Hardware) -> Machine:
    gpus = (said.gpus or ())[:MAX_GPUS]
    return Machine(_sane(said.cpu_cores), _sane(said.memory_gb), sum(_sane(gpu.memory_gb) for gpu in gpus))


def _sane(amount: float) -> float:
    """Negative or absurd values are clamped, so that sums stay readable."""
    return round(amount, 1) if 0 <= amount <= MAX_AMOUNT else 0


def _slots(claimed: int | None, default: int, most: int) -> int:
    return default if claimed is None else min(claimed, most)


def _installed(message: NodeRegister | NodeHeartbeat) -> tuple[NodeService, ...]:
    said = message.installed_services or ()
    return tuple(sorted(NodeService(service.service_id[:64], service.type[:16]) for service in said))[:64]
