"""What a node says it can do, read into what the scheduler decides by."""

from typing import Any

import pytest

from lingua_scheduler.domain.nodes.nodes import LoadLimits, Machine, MachineLoad, Profile
from lingua_scheduler.domain.pools.pools import Languages
from lingua_scheduler.services.nodes import capabilities
from lingua_scheduler.services.nodes.capabilities import (
    changed_by,
    hint_about,
    is_new,
    load_of,
    profile_of,
    queue_of,
    refusal_of,
    unreadable_pair,
)
from lingua_sdk.domain.languages import MAX_LANGUAGES, MAX_TRANSLATIONS, Pair
from lingua_sdk.protocol import pairs as pairs_module
from lingua_sdk.protocol.node import Gpu, Hardware, LanguageCapabilities, NodeHeartbeat, NodeRegister, ResourceUsage
from lingua_sdk.protocol.shapes import CapabilityByType, InstalledService

# As plain values: a limit that changes is noticed.
MAX_GPUS = 64
MAX_QUEUE = 1_000
REMEMBERED_MAX = 64
REMEMBERED_PAIRS = 262_144

EVERYTHING = LanguageCapabilities(asr_languages=["en", "zh"], semantic_languages=["en"], tts_languages=["zh"])
LIMITS = LoadLimits(cpu=90, memory=90, gpu=90, gpu_memory=90)
ALL = frozenset({"en", "zh"})


def readiness(**by_type: bool) -> list[CapabilityByType]:
    return [CapabilityByType(type=kind, ready=ready) for kind, ready in by_type.items()]


def service(service_id: str) -> InstalledService:
    return InstalledService(service_id=service_id, type="asr", device="gpu", status="running")


def registered(**fields: Any) -> Profile:
    message: dict[str, Any] = {
        "version": "2.0.0",
        "platform": "linux",
        "hardware": Hardware(cpu_cores=2, memory_gb=8),
        "installed_models": [],
        "capability_by_type": [],
        "features_supported": {},
        "accept_public_jobs": True,
        "language_capabilities": EVERYTHING,
    }
    return profile_of(NodeRegister(**message | fields), default_max_jobs=4, max_jobs=16)


def beaten(before: Profile, **fields: Any) -> Profile:
    message: dict[str, Any] = {
        "node_id": "n",
        "timestamp": 1,
        "resource_usage": ResourceUsage(cpu_percent=1, mem_percent=1, running_jobs=0),
        "installed_services": [],
        "capability_by_type": [],
    }
    return changed_by(NodeHeartbeat(**message | fields), before, 16, LIMITS)


# Registering


def test_the_lists_are_read_as_they_are_declared() -> None:
    assert registered().languages == Languages(asr=ALL, semantic=frozenset({"en"}), tts=frozenset({"zh"}))


def test_a_node_without_lists_can_do_nothing_yet() -> None:
    assert registered(language_capabilities=None).languages == Languages()
    assert registered(language_capabilities=LanguageCapabilities()).languages == Languages()


def test_tags_are_read_as_people_write_them_and_what_is_none_is_left_out() -> None:
    said = LanguageCapabilities(asr_languages=["EN", "en", "e n", "zh_hans", "pt-br", "english", ""])
    assert registered(language_capabilities=said).languages.asr == {"en", "zh-Hans", "pt-br"}


@pytest.mark.parametrize(
    ("declared", "translations"),
    [
        (None, None),
        ([], None),
        (["en->zh", "zh-en"], {Pair("en", "zh"), Pair("zh", "en")}),
        ([{"from": "en", "to": "zh"}], {Pair("en", "zh")}),
        ({"supported_pairs": [{"src": "en", "tgt": "zh"}]}, {Pair("en", "zh")}),
        (["en->zh", "English->Chinese"], {Pair("en", "zh")}),
        ([["EN", "zh_CN"]], {Pair("en", "zh-CN")}),
        ({"en": ["zh"]}, {Pair("en", "zh")}),
    ],
)
def test_translations_are_read_in_every_shape_and_none_declared_is_any(
    declared: object, translations: set[Pair] | None
) -> None:
    said = registered(language_capabilities=LanguageCapabilities(nmt_capabilities=declared))
    assert said.languages.translations == translations


def test_pairs_of_which_none_can_be_read_are_refused_and_some_are_hinted_at() -> None:
    wrong = LanguageCapabilities(nmt_capabilities=["English to Chinese", 7])
    assert str(refusal_of(wrong)).startswith("nmt_capabilities[0] is not a language pair; write ")
    some = LanguageCapabilities(nmt_capabilities=["en:zh", 7])
    assert refusal_of(some) is None
    assert str(hint_about(some)).startswith("nmt_capabilities[1] is not a language pair; write ")
    assert str(hint_about(some)).endswith("It was left out")
    assert hint_about(LanguageCapabilities(nmt_capabilities=["en:zh"])) is None


@pytest.mark.parametrize(
    ("down", "languages"),
    [
        ("asr", Languages(asr=frozenset(), semantic=ALL, tts=ALL)),
        ("semantic", Languages(asr=ALL, semantic=frozenset(), tts=ALL)),
        ("tts", Languages(asr=ALL, semantic=ALL, tts=frozenset())),
        ("nmt", Languages(asr=ALL, semantic=ALL, tts=ALL, translations=frozenset())),
        ("tone", Languages(asr=ALL, semantic=ALL, tts=ALL)),
    ],
)
def test_what_a_service_that_is_not_ready_would_be_needed_for_is_not_served(down: str, languages: Languages) -> None:
    both = ["en", "zh"]
    lists = LanguageCapabilities(asr_languages=both, semantic_languages=both, tts_languages=both)
    said = registered(language_capabilities=lists, capability_by_type=readiness(**{down: False}))
    assert said.languages == languages


def test_one_ready_service_of_a_type_is_enough() -> None:
    two = [CapabilityByType(type="asr", ready=False), CapabilityByType(type="asr", ready=True)]
    assert registered(capability_by_type=two).languages.asr == ALL
    assert registered(capability_by_type=two[::-1]).languages.asr == ALL


@pytest.mark.parametrize(("is_ready", "semantic"), [(None, {"en"}), (True, {"en"}), (False, set())])
def test_a_semantic_core_that_says_it_is_not_ready_repairs_nothing(is_ready: bool | None, semantic: set[str]) -> None:
    lists = LanguageCapabilities(semantic_languages=["en"], semantic_core_ready=is_ready)
    assert registered(language_capabilities=lists).languages.semantic == semantic


@pytest.mark.parametrize(("claimed", "slots"), [(None, 4), (0, 0), (1, 1), (16, 16), (17, 16), (10**9, 16)])
def test_slots_are_what_the_node_claims_up_to_a_limit(claimed: int | None, slots: int) -> None:
    assert registered(max_concurrent_jobs=claimed).max_jobs == slots


@pytest.mark.parametrize(
    ("features", "acknowledges"), [(None, False), ([], False), (["drain"], False), (["drain", "job_ack"], True)]
)
def test_a_node_acknowledges_when_it_says_so(features: list[str] | None, acknowledges: bool) -> None:
    assert registered(advanced_features=features).acknowledges is acknowledges


def test_a_node_that_takes_no_public_jobs_takes_no_jobs() -> None:
    assert not registered(accept_public_jobs=False).takes_jobs
    assert registered().takes_jobs


def test_what_is_shown_to_people_has_a_limit() -> None:
    long = "x" * 1000
    many = [service(f"{number:03}-{long}") for number in range(100)]
    said = registered(boot_id=long, version=long, platform=long, installed_services=many)
    assert (len(said.boot_id), len(said.version), len(said.platform)) == (64, 64, 32)
    assert len(said.services) == 64
    assert {len(name) for name in said.services} == {64}


@pytest.mark.parametrize(
    ("said", "shown"),
    [(0, 0), (0.5, 0.5), (15.97, 16.0), (15.94, 15.9), (1_000_000, 1_000_000), (1_000_001, 0), (-0.5, 0)],
)
def test_the_size_of_a_machine_is_rounded_and_what_is_absurd_counts_as_nothing(said: float, shown: float) -> None:
    gpus = [Gpu(name="g", memory_gb=said), Gpu(name="g", memory_gb=2)]
    machine = registered(hardware=Hardware(cpu_cores=said, memory_gb=said, gpus=gpus)).machine
    assert machine == Machine(shown, shown, shown + 2)


def test_of_many_gpus_only_some_are_counted() -> None:
    gpus = [Gpu(name="g", memory_gb=1) for _ in range(MAX_GPUS + 1)]
    assert registered(hardware=Hardware(cpu_cores=1, memory_gb=1, gpus=gpus)).machine.gpu_gb == MAX_GPUS


def test_services_are_named_in_order_so_that_a_shuffled_list_is_no_change() -> None:
    one = registered(installed_services=[service("whisper"), service("piper")])
    other = registered(installed_services=[service("piper"), service("whisper")])
    assert one.services == ("piper", "whisper")
    assert one == other


def test_a_node_without_boot_id_has_an_empty_one() -> None:
    assert registered().boot_id == registered(boot_id=None).boot_id == ""


# Beating


def test_a_heartbeat_that_says_nothing_new_changes_nothing() -> None:
    before = registered(max_concurrent_jobs=2, boot_id="b", installed_services=[service("whisper")])
    assert beaten(before, installed_services=[service("whisper")]) == before


def test_lists_in_a_heartbeat_replace_the_lists_before() -> None:
    after = beaten(registered(), language_capabilities=LanguageCapabilities(asr_languages=["fr"]))
    assert after.languages == Languages(asr=frozenset({"fr"}))


def test_slots_in_a_heartbeat_replace_the_slots_before() -> None:
    before = registered(max_concurrent_jobs=2)
    assert beaten(before, max_concurrent_jobs=3).max_jobs == 3
    assert beaten(before, max_concurrent_jobs=0).max_jobs == 0
    assert beaten(before, max_concurrent_jobs=99).max_jobs == 16
    assert beaten(before).max_jobs == 2


def test_services_in_a_heartbeat_replace_the_services_before() -> None:
    before = registered(installed_services=[service("whisper")])
    assert beaten(before, installed_services=[service("piper")]).services == ("piper",)


def test_a_service_that_goes_down_takes_its_languages_with_it() -> None:
    after = beaten(registered(), language_capabilities=EVERYTHING, capability_by_type=readiness(asr=False, tts=True))
    assert after.languages == Languages(asr=frozenset(), semantic=frozenset({"en"}), tts=frozenset({"zh"}))


def test_a_service_that_goes_down_takes_its_languages_with_it_although_the_lists_are_not_repeated() -> None:
    after = beaten(registered(capability_by_type=readiness(asr=True)), capability_by_type=readiness(asr=False))
    assert after.languages.asr == frozenset()


def test_a_service_that_comes_back_brings_its_languages_along() -> None:
    down = registered(capability_by_type=readiness(asr=False, nmt=False))
    up = beaten(down, capability_by_type=readiness(asr=True, nmt=True))
    assert up.languages == registered().languages


@pytest.mark.parametrize(
    ("fields", "semantic"),
    [
        ({}, set()),  # what was said of the core holds until something else is said
        ({"capability_by_type": readiness(semantic=True)}, {"en"}),
        ({"language_capabilities": LanguageCapabilities(semantic_languages=["en"], semantic_core_ready=True)}, {"en"}),
        ({"language_capabilities": LanguageCapabilities(semantic_languages=["en"], semantic_core_ready=False)}, set()),
    ],
)
def test_a_semantic_core_stays_down_until_something_else_is_said(fields: dict[str, Any], semantic: set[str]) -> None:
    lists = LanguageCapabilities(semantic_languages=["en"], semantic_core_ready=False)
    assert beaten(registered(language_capabilities=lists), **fields).languages.semantic == semantic


@pytest.mark.parametrize(
    ("usage", "is_overloaded"),
    [
        ({"cpu_percent": 90, "mem_percent": 90}, False),
        ({"cpu_percent": 91, "mem_percent": 1}, True),
        ({"cpu_percent": 1, "mem_percent": 91}, True),
        ({"cpu_percent": 1, "mem_percent": 1, "gpu_percent": 91}, True),
        ({"cpu_percent": 1, "mem_percent": 1, "gpu_mem_percent": 91}, True),
    ],
)
def test_a_machine_that_says_it_is_exhausted_is_overloaded_until_it_says_otherwise(
    usage: dict[str, float], is_overloaded: bool
) -> None:
    assert not registered().is_overloaded
    tired = beaten(registered(), resource_usage=ResourceUsage(running_jobs=0, **usage))
    assert tired.is_overloaded is is_overloaded
    assert not beaten(tired).is_overloaded


def test_who_reports_its_jobs_once_is_one_who_reports() -> None:
    assert not registered().reports_jobs
    assert registered(running_job_ids=[]).reports_jobs
    assert beaten(registered(), running_job_ids=["job-0-1"]).reports_jobs
    assert beaten(registered(running_job_ids=[])).reports_jobs


# Very many languages

LETTERS = "abcdefghijklmnopqrstuvwxyz"
CODES = [a + b for a in LETTERS for b in LETTERS]


def test_a_list_within_the_limit_is_read_whole() -> None:
    codes = CODES[:MAX_LANGUAGES]
    said = LanguageCapabilities(asr_languages=codes, semantic_languages=codes, tts_languages=codes)
    assert refusal_of(said) is None
    assert registered(language_capabilities=said).languages == Languages(
        frozenset(codes), frozenset(codes), frozenset(codes)
    )


@pytest.mark.parametrize("field", ["asr_languages", "semantic_languages", "tts_languages"])
def test_a_longer_list_is_named_with_its_length_and_the_limit(field: str) -> None:
    said = LanguageCapabilities()
    setattr(said, field, CODES[: MAX_LANGUAGES + 1])
    assert refusal_of(said) == f"{field} has 257 languages; a node may list at most 256"


def test_so_are_declared_pairs() -> None:
    pairs = [f"{src}:{tgt}" for src in CODES[:129] for tgt in CODES[:128]]
    assert refusal_of(LanguageCapabilities(nmt_capabilities=pairs[:MAX_TRANSLATIONS])) is None
    assert "has 16512 pairs; a node may declare at most 16384" in str(
        refusal_of(LanguageCapabilities(nmt_capabilities=[{"supported_pairs": pairs}]))
    )


def test_many_pairs_that_leave_none_out_are_any_pair() -> None:
    codes = CODES[:20]
    pairs = [f"{src}:{tgt}" for src in codes for tgt in codes if src != tgt]

    def translations(pairs: list[str], spoken: list[str]) -> frozenset[Pair] | None:
        said = LanguageCapabilities(
            asr_languages=codes, semantic_languages=codes, tts_languages=spoken, nmt_capabilities=pairs
        )
        return registered(language_capabilities=said).languages.translations

    assert translations(pairs, codes) is None
    assert len(translations(pairs[1:], codes) or ()) == len(pairs) - 1
    # Any pair would include a language that is only spoken.
    assert len(translations(pairs, CODES[:21]) or ()) == len(pairs)


def test_long_lists_that_come_again_are_read_once() -> None:
    def said() -> LanguageCapabilities:
        codes = CODES[:99]
        return LanguageCapabilities(asr_languages=codes, semantic_languages=codes, tts_languages=list(codes))

    first = registered(language_capabilities=said())
    assert beaten(first, language_capabilities=said()).declared is first.declared
    for number in range(REMEMBERED_MAX):
        registered(language_capabilities=LanguageCapabilities(asr_languages=CODES[number : number + 99]))
    assert beaten(first, language_capabilities=said()).declared == first.declared


def test_what_is_too_much_is_refused_by_its_count_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: object) -> None:
        raise AssertionError("a pair was read")

    monkeypatch.setattr(pairs_module, "_pairs", never)
    for pairs in (["en:zh"] * 120_000, [{"supported_pairs": ["en:zh"] * 9_000}] * 2):
        said = LanguageCapabilities(nmt_capabilities=pairs)
        assert "a node may declare at most 16384" in str(refusal_of(said))
        # It costs something all the same, every time.
        assert is_new(said)


def kind(number: int) -> LanguageCapabilities:
    return LanguageCapabilities(asr_languages=CODES[number : number + 99], tts_languages=CODES[:50])


def test_many_kinds_of_nodes_are_remembered_and_the_one_that_is_quiet_longest_is_forgotten() -> None:
    for _ in range(2):
        for number in range(REMEMBERED_MAX):
            refusal_of(kind(number))
    assert not any(is_new(kind(number)) for number in range(20))
    refusal_of(kind(0))
    refusal_of(kind(REMEMBERED_MAX))
    assert (is_new(kind(0)), is_new(kind(20))) == (False, True)


def test_of_long_lists_of_pairs_fewer_are_remembered() -> None:
    codes, kinds = CODES[:129], REMEMBERED_PAIRS // MAX_TRANSLATIONS

    def said(number: int) -> LanguageCapabilities:
        pairs = [f"{src}:{tgt}" for src in codes for tgt in codes if src != tgt]
        return LanguageCapabilities(nmt_capabilities=pairs[number : number + MAX_TRANSLATIONS])

    for number in range(kinds + 2):
        refusal_of(said(number))
    assert [is_new(said(number)) for number in (0, 1, 3, kinds + 1)] == [True, True, False, False]


def test_a_message_is_digested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    digests: list[bytes] = []
    digest = capabilities._digest

    def counted(said: LanguageCapabilities) -> bytes:
        digests.append(digest(said))
        return digests[-1]

    before, said = registered(), kind(3)
    monkeypatch.setattr(capabilities, "_digest", counted)
    is_new(said)
    refusal_of(said)
    beaten(before, language_capabilities=said)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("said", "believed"),
    [(None, 0), (-1, 0), (0, 0), (0.5, 0), (1, 1), (3.9, 3), (1e12, 1_000)],
)
def test_the_queue_of_a_gpu_is_believed_within_limits(said: float | None, believed: int) -> None:
    usage = ResourceUsage(cpu_percent=1, mem_percent=1, running_jobs=0, gpu_queue_length=said)
    assert capabilities.queue_of(usage) == believed


def test_a_machine_says_how_busy_it_is() -> None:
    usage = ResourceUsage(cpu_percent=1, mem_percent=2, gpu_percent=3, gpu_mem_percent=4, running_jobs=0)
    assert tuple(capabilities.load_of(usage)) == (1, 2, 3, 4)


def test_the_first_pair_that_cannot_be_read_is_found() -> None:
    assert unreadable_pair(LanguageCapabilities(nmt_capabilities=["en:zh", 7, 8])) == 1
    assert unreadable_pair(LanguageCapabilities(nmt_capabilities=["en:zh"])) is None
    assert unreadable_pair(LanguageCapabilities()) is None


@pytest.mark.parametrize(("said", "believed"), [(None, 0), (-3, 0), (0, 0), (2.9, 2), (10**9, MAX_QUEUE)])
def test_what_waits_for_a_gpu_is_believed_within_limits(said: float | None, believed: int) -> None:
    assert queue_of(ResourceUsage(gpu_queue_length=said, cpu_percent=0.0, mem_percent=0.0, running_jobs=0)) == believed


def test_load_is_taken_as_it_is_said() -> None:
    usage = ResourceUsage(cpu_percent=1.0, mem_percent=2.0, gpu_percent=3.0, gpu_mem_percent=4.0, running_jobs=0)
    assert load_of(usage) == MachineLoad(1.0, 2.0, 3.0, 4.0)
